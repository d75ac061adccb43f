"""Whether an Iceberg catalog is there, lets us in, and takes the commits of a merge."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from pyiceberg.schema import Schema
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from pyiceberg.types import LongType, NestedField

from tidegate.adapters.iceberg.catalog import MAIN, Catalogs, create_namespace
from tidegate.adapters.iceberg.commit import commit, cut_branch
from tidegate.adapters.iceberg.errors import judge_error
from tidegate.adapters.iceberg.files import list_snapshot_files, remove_file
from tidegate.adapters.port_errors import format_one_line
from tidegate.diagnosis.finding import Finding, make_ok
from tidegate.errors import CommitRefused, GiveUp, TidegateError

BRANCH = "tidegate_doctor"
FILE_PREFIX = "file://"


class IcebergProbe:
    """Implements `CatalogProbe` for the catalog `name`."""

    def __init__(self, catalogs: Catalogs, name: str) -> None:
        self._catalogs = catalogs
        self._name = name
        self._place = catalogs.describe_login(name)

    def connect(self) -> Iterator[Finding]:
        """Its servers, and the log-in by a list of its namespaces."""
        try:
            self._catalogs.list_namespaces(self._name)
        except Exception as error:
            raise self._judge("a list of namespaces", "*", error) from error
        yield make_ok("catalog.reachable", f"{self._place}: it answers, and lets us in")

    def check_namespace(self, namespace: str, scratch: str | None) -> Iterator[Finding]:
        """Creates a missing namespace with the scratch table, and drops it again."""
        place = f"{self._place} namespace={namespace}"
        is_there = self._catalogs.catalog(self._name).namespace_exists(namespace)
        if scratch is None:
            yield make_ok("catalog.commit", f"{place} {'exists' if is_there else 'will be created'}")
            return
        identifier = f"{namespace}.{scratch}"
        try:
            with ExitStack() as made:
                self._prove_commits(identifier, made, None if is_there else namespace)
        except Exception as error:
            raise self._judge("a trial commit", identifier, error) from error
        yield make_ok("catalog.commit", f"{place}: made table={scratch} with a branch, and removed it")

    def _judge(self, verb: str, identifier: str, error: Exception) -> TidegateError:
        table = f"{self._name}.{identifier}"
        if isinstance(error, TidegateError):
            return error
        text = f"table={table}: {verb} failed: {format_one_line(error)}"
        advice = "see the catalog's log, and give its login the rights of a writer"
        return judge_error(self._catalogs, verb, table, error) or GiveUp(f"{text}; {advice}")

    def _prove_commits(self, identifier: str, made: ExitStack, missing_namespace: str | None) -> None:
        import pyarrow

        catalog = self._catalogs.catalog(self._name)
        for name in create_namespace(catalog, missing_namespace) if missing_namespace is not None else ():
            made.callback(self._drop_namespace, name)
        schema = Schema(NestedField(1, "id", LongType(), required=False))
        table = catalog.create_table(identifier, schema, properties={"format-version": "2"})
        made.callback(self._remove, identifier)
        table.append(pyarrow.table({"id": pyarrow.array([1, 2], pyarrow.int64())}))
        table = catalog.load_table(identifier)
        cut_branch(table, (str(table.metadata.table_uuid), table.metadata.current_snapshot_id or 0), BRANCH)
        # this commit must be refused
        wrong = AssertRefSnapshotId(ref=MAIN, snapshot_id=1)
        with suppress(CommitRefused):
            commit(catalog.load_table(identifier), [SetPropertiesUpdate(updates={"tidegate.doctor": "x"})], (wrong,))
            raise GiveUp(
                f"{self._place} takes a commit whose requirement does not hold; use another catalog: without "
                "compare-and-swap a batch could be applied twice"
            )

    def _drop_namespace(self, namespace: str) -> None:
        with suppress(Exception):  # a flush may have made its table there meanwhile, and makes the namespace anyway
            self._catalogs.catalog(self._name).drop_namespace(namespace)

    def _remove(self, identifier: str) -> None:
        catalog = self._catalogs.catalog(self._name)
        table = catalog.load_table(identifier)
        # a catalog's own purge hides that it may not delete a file
        files = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
        files |= list_snapshot_files(table, table.metadata.snapshots)
        catalog.drop_table(identifier)
        for file in files:
            remove_file(table, file)
        if table.location().startswith(FILE_PREFIX):  # folders are there on a disk alone
            shutil.rmtree(Path(table.location().removeprefix(FILE_PREFIX)), ignore_errors=True)
