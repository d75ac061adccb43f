"""The port to the tables of the catalogs: which there are, what they hold, and what they can take in."""

from collections.abc import Mapping
from typing import Protocol

from tidegate.model.merge_input import MergeInput
from tidegate.model.ownership import Ownership
from tidegate.model.table_state import FolderLimit, TableFiles, TableState
from tidegate.schema.column import Column
from tidegate.sql.pruning import Bounds


class TableStore(Protocol):
    """Destination tables, and tables of our own beside them. Tables are named ``catalog.namespace.table``.

    The methods that do something here are those of a destination that looks after its files itself.
    """

    def list_tables(self, namespace: str) -> list[str]:
        """Names, without the namespace, of the tables in ``catalog.namespace``; none where there is no namespace."""
        ...

    def read_state(self, table: str, pipeline: str) -> TableState | None:
        """What stands there now; None where there is no table."""
        ...

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        """Make the table able to hold `columns`; additive only, idempotent; says what it changed."""
        ...

    def find_bounds(self, table: str, values: MergeInput) -> Bounds:
        """Where the rows lie that a merge filled with `values` can touch; in the snapshot that `at` names, if any."""
        ...

    def claim(self, table: str, owner: Ownership) -> Mapping[str, str] | None:
        """Properties of a table of our own, None where there is none. One that 0.1 made is marked; else `GiveUp`."""
        ...

    def list_pipelines(self, table: str) -> tuple[str, ...]:
        """Every pipeline that may have published into what is written of the table, this one among them."""
        ...

    def has_files(self, table: str) -> bool:
        """Whether there is a table of this name whose files somebody has to look after. Measures nothing."""
        return False

    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        """What the table consists of, from its metadata; None where there is no table.

        Of a large table small files are those of its newest manifests; `exact` reads all, and costs what it has.
        """
        return None

    def read_property(self, table: str, name: str) -> str | None:
        """One property of a table; None where there is no such property or table."""
        return None

    def list_folder_limits(self, table: str, partition_by: tuple[str, ...]) -> tuple[FolderLimit, ...]:
        """How long values may be that name the folders of the table's files; of one to be made by `partition_by`."""
        return ()

    def count_rows(self, table: str) -> int | None:
        """Rows by the table's own statistics; None where they are not exact."""
        ...

    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        """Remove remembered deletes of older records; returns how many. One that is dear may go `every_ms` only."""
        ...
