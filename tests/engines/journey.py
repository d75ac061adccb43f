"""The journey of the tables: each state through the product itself, with the metadata file that the catalog named."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, LongType, NestedField, StructType, UUIDType

from engines.shop import (
    CASES,
    LATER_SCHEMA,
    RENAMED,
    SCHEMA,
    Case,
    Change,
    Row,
    build_row,
    compute_rows,
    encode_row,
    find_time,
)
from engines.values import build_row as build_common_row

KEY = {"fields": ["id"], "schema": "id BIGINT NOT NULL"}
NEVER, ALWAYS = {"compact": "never"}, {"compact": "always"}
UPGRADED = "2, then 3"


@dataclass(frozen=True)
class State:
    """A table at one moment: its metadata file, its columns, and the rows that its log makes, in the common form."""

    case: Case
    format: str
    step: str
    metadata: Path
    fields: StructType
    rows: list[dict[str, Any]]

    @property
    def name(self) -> str:
        """The table's name in the catalog of states."""
        words = (self.case.name, self.format.replace(", then ", "_"), self.step.replace(" ", "_"))
        return "_".join(words)


class Journey:
    """The tables of one format, in one pipeline of one topic; `states` are those that were noted."""

    def __init__(self, workbench: Any, version: int) -> None:
        self.bench, self.version, self.format = workbench, version, str(version)
        self.pipeline = f"engines_{version}"
        self.topic = workbench.topic()
        self.batches: list[list[Change]] = []
        self.states: list[State] = []
        self._renamed = False

    def run(self) -> list[State]:
        """Every step of it."""
        self._make_foreign_table()
        self._write_file(SCHEMA, NEVER)
        self._flush(self._upserts(range(12), "a"))
        self._flush([*self._upserts(range(2, 6), "b"), *self._deletes(6, 7)])
        late = Change(9, build_row(9, "c", sequence=-1))
        self._flush([*self._upserts((6, 12, 13, 14, 15), "c"), *self._deletes(8), late])
        self._note("flushes")
        self._write_file(SCHEMA, ALWAYS)
        self._run("maintain", self.pipeline)
        self._write_file(SCHEMA, NEVER)
        self._flush([*self._upserts((1, 4), "d"), *self._deletes(10)])
        self._note("compaction")
        snapshots = {case.name: self._load(case).current_snapshot().snapshot_id for case in CASES}
        kept = len(self.batches)
        self._evolve()
        self._note("evolution")
        for case in CASES:
            name = f"shop.{case.name}_{self.version}"
            self._sql(f"CALL lake.system.rollback_to_snapshot('{name}', {snapshots[case.name]})")
        self._note("rollback", self.batches[:kept])
        self._run("undo-rollback", self.pipeline, "--yes")
        self._flush([*self._upserts((3, 5, 17), "f", later=True), *self._deletes(11)])
        self._note("undo")
        if self.version == 2:
            self._run("upgrade-format", self.pipeline, "--yes")
            self._flush([*self._upserts((2, 18), "f", later=True), *self._deletes(12)])
            self.format = UPGRADED
            self._note("raised")
        return self.states

    def _evolve(self) -> None:
        for case in CASES:
            table = f"lake.shop.{case.name}_{self.version}"
            if case.name != "versions":  # history refuses renamed columns
                self._sql(f"ALTER TABLE {table} RENAME COLUMN note TO remark")
        self._sql(f"ALTER TABLE lake.shop.parted_{self.version} REPLACE PARTITION FIELD days(at) WITH months(at)")
        self._renamed = True
        self._write_file(LATER_SCHEMA, NEVER)
        self._flush([*self._upserts((3, 12, 16), "e", later=True), *self._deletes(13)])

    def _make_foreign_table(self) -> None:
        """A table of types that Spark does not have. PyIceberg makes none of format 3, but raises one."""
        from pyiceberg.table.update import UpgradeFormatVersionUpdate
        from tidegate.adapters.iceberg.catalog import Catalogs
        from tidegate.adapters.iceberg.commit import commit

        catalog = Catalogs({"lake": self.bench.properties}).catalog("lake")
        catalog.create_namespace_if_not_exists("shop")
        columns = (
            NestedField(1, "id", LongType(), required=True),
            NestedField(2, "code", UUIDType()),
            NestedField(3, "four", FixedType(4)),
        )
        properties = {"format-version": "2", "write.merge.mode": "merge-on-read"}
        table = catalog.create_table(f"shop.foreign_{self.version}", Schema(*columns), properties=properties)
        if self.version == 3:
            commit(table, [UpgradeFormatVersionUpdate(format_version=3)])

    def _write_file(self, schema: str, maintenance: Row) -> None:
        tables = []
        for case in CASES:
            create = {"format_version": self.version, "partition_by": list(case.partitions)}
            entry = case.settings | {"create": case.settings.get("create", {}) | create}
            tables.append({"name": f"lake.shop.{case.name}_{self.version}", **entry})
        value = {"schema": " ".join(schema.split())}
        self.bench.pipeline(self.pipeline, [self.topic], key=KEY, value=value, tables=tables, maintenance=maintenance)

    def _upserts(self, keys: Iterable[int], mark: str, *, later: bool = False) -> list[Change]:
        return [Change(key, build_row(key, mark, later=later)) for key in keys]

    def _deletes(self, *keys: int) -> list[Change]:
        return [Change(key, None) for key in keys]

    def _flush(self, changes: list[Change]) -> None:
        more = {"timestamp": int(find_time(len(self.batches)).timestamp() * 1000)}
        self.batches.append(changes)
        self.bench.produce(self.topic, *(({"id": c.key}, encode_row(c.row), more) for c in changes))
        self.bench.flush(self.pipeline)

    def _run(self, *words: str) -> None:
        process = self.bench.run_cli(*words)
        assert process.returncode == 0, process.stderr

    def _sql(self, statement: str) -> None:
        self.bench.run_spark_sql(statement)

    def _load(self, case: Case) -> Any:
        return self.bench.load_iceberg(f"shop.{case.name}_{self.version}")

    def _note(self, step: str, batches: list[list[Change]] | None = None) -> None:
        for case in CASES:
            table = self._load(case)
            fields = table.schema().as_struct()
            rows = compute_rows(case, self.batches if batches is None else batches)
            named = [self._name_columns(row, fields) for row in rows]
            metadata = Path(urlsplit(table.metadata_location).path)
            common = [build_common_row(row, fields) for row in named]
            self.states.append(State(case, self.format, step, metadata, fields, common))

    def _name_columns(self, row: Row, fields: StructType) -> Row:
        names = {column.name: column.name for column in fields.fields}
        sources = names | {new: old for old, new in RENAMED.items() if self._renamed and new in names}
        return {name: row.get(source) for name, source in sources.items()}
