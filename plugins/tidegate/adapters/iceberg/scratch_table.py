"""A table made and removed again, which proves what a merge needs: files, commits, a branch, and refused commits."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate

from tidegate.adapters.iceberg.table.commit import MAIN, commit, start_branch
from tidegate.errors import CommitRefused, GiveUp

BRANCH = "tidegate_doctor"
ROWS = [1, 2]
FILE_PREFIX = "file://"


class ScratchTable:
    """A table of two rows. `remove` takes away whatever of it there is, also after a step that failed."""

    def __init__(self, catalog: Catalog, identifier: str) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self._files: set[str] = set()
        self._table: Table | None = None

    def make(self) -> None:
        """Create it: the catalog's right to make tables, and a metadata file in the store."""
        from pyiceberg.schema import Schema
        from pyiceberg.types import LongType, NestedField

        schema = Schema(NestedField(1, "id", LongType(), required=False))
        self._table = self._catalog.create_table(self._identifier, schema, properties={"format-version": "2"})

    def write(self) -> None:
        """Two rows: data file, manifest and snapshot."""
        import pyarrow

        self._loaded.append(pyarrow.table({"id": pyarrow.array(ROWS, pyarrow.int64())}))
        self._reload()

    def cut_branch(self) -> None:
        """A branch at the snapshot, by the very commit that begins a merge."""
        table = self._loaded
        start_branch(table, (str(table.metadata.table_uuid), table.metadata.current_snapshot_id or 0), BRANCH)
        self._reload()

    def require_refusal(self) -> None:
        """GiveUp for a catalog that takes a commit whose requirement does not hold: batches could be applied twice."""
        wrong = AssertRefSnapshotId(ref=MAIN, snapshot_id=1)
        with suppress(CommitRefused):
            commit(self._loaded, (wrong,), (SetPropertiesUpdate(updates={"tidegate.doctor": "refused"}),))
            raise GiveUp(
                "the catalog takes a commit whose requirement does not hold; use another one: without compare-and-swap "
                "a batch could be applied twice"
            )

    def read(self) -> None:
        """GiveUp where the rows do not come back."""
        table_rows = self._loaded.scan(snapshot_id=self._loaded.metadata.refs[BRANCH].snapshot_id).to_arrow()
        if sorted(table_rows["id"].to_pylist()) != ROWS:
            raise GiveUp(
                f"the rows of the branch are not those that were written: rows={table_rows.num_rows}; see the store"
            )

    def remove(self) -> Iterator[str]:
        """Drop it, delete its files, and name those that could not be deleted."""
        try:
            table = self._reload()
        except NoSuchTableError:
            return
        self._catalog.drop_table(self._identifier)
        for file in sorted(self._files):
            try:
                table.io.delete(file)
            except FileNotFoundError:
                continue
            except OSError as error:
                yield f"file={file}: {error}"
        if table.location().startswith(FILE_PREFIX):  # folders are there on a disk alone
            shutil.rmtree(Path(unquote(table.location().removeprefix(FILE_PREFIX))), ignore_errors=True)

    @property
    def _loaded(self) -> Table:
        assert self._table is not None
        return self._table

    def _reload(self) -> Table:
        table: Table = self._catalog.load_table(self._identifier)
        self._table = table
        metadata = table.metadata
        self._files |= {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
        for snapshot in metadata.snapshots:
            self._files.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                self._files.add(manifest.manifest_path)
                self._files |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
        return table
