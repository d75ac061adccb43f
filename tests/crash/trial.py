"""One pipeline on real components that meets faults, and what its tables must hold after the next runs.

Two tables are fed by the same records: one keeps the last record of each key, the other keeps them all, so that a
record that is lost, repeated or out of order shows. Each trial starts from a checked state and is checked itself.
"""

from typing import Any

from tidegate.errors import NothingToDo
from tidegate.flush.flush import merge_staged_batches, stage_new_batches
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.reprocess.verify import verify_table

from crash.points import Point
from crash.runner import EndedProcess, Runners

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
LAST, ALL = {"upsert": True, "delete": True}, {"upsert": False, "delete": False}


class Trial:
    """A pipeline `name`, its topic and its tables ``lake.<name>.last`` and ``lake.<name>.all``.

    `last_format`: Iceberg's format of the former.
    """

    def __init__(
        self, workbench: Any, runners: Runners, name: str, *tables: str, last_format: int = 2, **sections: Any
    ) -> None:
        self.workbench, self.runners, self.name = workbench, runners, name
        self.tables = tables or ("last", "all")
        self.topic = workbench.topic(2)
        self.last: dict[int, str] = {}
        self.all: list[tuple[int, str]] = []
        last = LAST if last_format == 2 else {**LAST, "create": {"format_version": last_format}}
        modes = {"last": last, "all": ALL}
        table_entries = [{"name": f"lake.{name}.{table}", **modes[table]} for table in self.tables]
        workbench.pipeline(name, [self.topic], key=KEY, value=VALUE, tables=table_entries, **sections)

    def produce(self, *records: tuple[int, str | None]) -> None:
        """Send records, and apply them to the expected rows."""
        for id, name in records:
            self.all += [(id, name)] if name is not None else []
            self.last = {**self.last, id: name} if name is not None else {k: v for k, v in self.last.items() if k != id}
        records_to_send = [
            ({"id": id}, name and {"id": id, "name": name}, {"partition": id % 2}) for id, name in records
        ]
        self.workbench.produce(self.topic, *records_to_send)

    def produce_batch(self, number: int) -> None:
        """A row changed twice, a new one, and an old one deleted."""
        self.produce((0, f"{number}"), (number, "new"), (0, f"{number}!"), (number - 1, None))

    def stage(self) -> None:
        """Stage what was sent, and merge nothing: each table's queue gets one batch more."""
        session = self.workbench.open_session(self.name)
        stage(session, plan(session))

    def flush(self, at: Point | None = None, kind: str = "none", command: str = "flush") -> EndedProcess:
        """Flush, or stage or merge, in its own process, in which the fault happens."""
        return self.runners.run(self.workbench.build_environment(), command, self.name, at=at, kind=kind)

    def list_points(self, command: str = "flush") -> list[Point]:
        """The points of one uninterrupted flush, or of another command."""
        process = self.runners.start(self.workbench.build_environment(), command, self.name)
        outcome = process.wait_for_end()
        assert outcome.code == 0, outcome.output
        return process.list_passed_points()

    def flush_with_fault(self, at: Point, kind: str, command: str = "flush") -> None:
        """Flush, or stage or merge, with the fault, then until there is nothing to do, and check everything."""
        outcome = self.flush(at, kind, command)
        assert outcome.fault_happened, f"{at} was not reached: {outcome.output}"
        assert outcome.code == -9 if kind == "killed" else outcome.code in (0, 1), outcome
        self.workbench.drain(self.name) if command == "flush" else self.run_both_clocks()
        self.check()

    def run_both_clocks(self) -> None:
        """Stage and merge, until neither has work."""
        idle = 0
        while idle < 2:
            idle = 0
            for run in (stage_new_batches, merge_staged_batches):
                try:
                    run(self.workbench.open_session(self.name))
                except NothingToDo:
                    idle += 1

    def check(self) -> None:
        """Check rows, positions and the group's offsets, and that no branch or staged row remains."""
        end = self.workbench.read_ends(self.topic)
        assert self.read_rows("last") == sorted(self.last.items())
        assert self.read_rows("all") == sorted(self.all)
        session = self.workbench.open_session(self.name)
        for table in self.tables:
            state = session.tables.read_state(f"lake.{self.name}.{table}", self.name)
            assert state.position.offsets == end
            iceberg_table = self.workbench.load_iceberg(f"{self.name}.{table}")
            assert set(iceberg_table.metadata.refs) == {"main", f"tidegate_{self.name}"}
            self.check_intermediate(f"{self.name}.{table}_{self.name}_tmp")
        assert self.workbench.committed(self.name) == end

    def check_intermediate(self, table: str) -> None:
        assert self.workbench.read_rows(table) == []
        assert self.workbench.list_data_files(table) == []
        metadata = self.workbench.load_iceberg(table).metadata
        assert len(metadata.snapshots) == 1
        assert not [name for name in metadata.properties if name.startswith(("tidegate.counted.", "tidegate.staged."))]

    def verify(self) -> None:
        """Check by the product's own means, too, that the table of the last records is what the log says."""
        if "last" in self.tables:  # the other one keeps every record: there is no key by which to verify it
            found = verify_table(self.workbench.open_session(self.name), f"lake.{self.name}.last")
            assert (found.wrong, found.unknowable, found.equal) == (0, 0, len(self.last)), found

    def read_rows(self, table: str) -> list[tuple[int, str]]:
        if table not in self.tables:
            return sorted(self.last.items() if table == "last" else self.all)
        return sorted((row["id"], row["name"]) for row in self.workbench.read_rows(f"{self.name}.{table}"))
