"""What a publication produces is the difference of two states, however a table's writers keep its rows."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.table.update import UpgradeFormatVersionUpdate
from round_trip import Way, read
from tidegate.adapters.iceberg import snapshots
from tidegate.adapters.iceberg.commit import commit
from tidegate.jobs.publish_job import RowIdentity
from tidegate.publications.plan import plan_run

ON_READ = "'write.merge.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.delete.mode'='merge-on-read'"
ON_WRITE = ON_READ.replace("merge-on-read", "copy-on-write")
MERGE_ON_WRITE = "'write.merge.mode'='copy-on-write'"
TABLE = "lake.shop.moved"
COMPACTION = "CALL lake.system.rewrite_data_files(table => 'shop.moved', options => map('rewrite-all', 'true'))"
COMPACTION_OF_HALF = COMPACTION.replace(", options", """, where => "Part = 'p0'", options""")
MERGE = (
    f"MERGE INTO {TABLE} t USING (SELECT explode(array({{ids}})) AS Id) s ON t.Id = s.Id "
    "WHEN MATCHED AND s.Id = {deleted} THEN DELETE WHEN MATCHED THEN UPDATE SET V = 'g' "
    "WHEN NOT MATCHED THEN INSERT (Id, V, Part) VALUES (s.Id, 'h', 'p1')"
)
Row = tuple[str, str]


class Follower:
    """Publications of one table of two partitions, and what their readers must see: events, rows, and counts."""

    def __init__(self, workbench: Any, session: Any) -> None:
        self.workbench, self.session = workbench, session
        self.change(
            "CREATE NAMESPACE lake.shop",
            f"CREATE TABLE {TABLE} (Id BIGINT, V STRING, Part STRING) USING iceberg PARTITIONED BY (Part) "
            f"TBLPROPERTIES ('format-version'='2', {ON_READ})",
            "INSERT INTO {table} SELECT id, concat('a', id % 7), concat('p', id % 2) FROM range(40)",
        )
        self.state: dict[int, Row] = {}
        self.state_of_others: dict[int, Row] = {}
        self.inserted = Counter[Row]()
        self.events_seen = 0

    def begin(self, **start: Any) -> None:
        """Write the publications: of all rows, or of what changes from now on."""
        settings = {"create": {"partitions": 2}, "parallelism": 2, **start}
        events = {"key": {"fields": ["Id"]}, "value": {"format": "debezium-json"}, "delivery": "exactly-once"}
        self.events = Way(self.workbench, "moved", **events, **settings)
        rows = {"key": {"fields": []}, "on_delete": "ignore", "sql": "SELECT V, Part FROM {table}"}
        self.rows = Way.over(self.events, "moved_rows", **rows, **settings)
        sql = "SELECT Part AS P, count(*) AS N, max(V) AS Top FROM {table} GROUP BY Part"
        self.counts = Way.over(self.events, "moved_counts", key={"fields": ["P"]}, sql=sql, **settings)

    def begin_now(self) -> None:
        self.state = self.state_of_others = self.read_state()
        self.begin(start={"snapshot": self.read_snapshot()})

    def read_state(self) -> dict[int, Row]:
        rows = self.session.sql(f"SELECT Id, V, Part FROM {TABLE}").collect()
        return {row.Id: (row.V, row.Part) for row in rows}

    def read_snapshot(self) -> int:
        return int(self.workbench.load_iceberg("shop.moved").metadata.current_snapshot_id)

    def change(self, *statements: str) -> None:
        for statement in statements:
            self.session.sql(statement.replace("{table}", TABLE)).collect()

    def go_back(self, snapshot: int) -> None:
        self.change(f"CALL lake.system.set_current_snapshot('shop.moved', {snapshot})")

    def follow(self, identity: RowIdentity | None, *, with_others: bool = False) -> int:
        """Publish, and compare the new events with the difference of the table's two states; its snapshot."""
        before, self.state = self.state, self.read_state()
        touched = plan_run(self.events.open_session()).touched_files
        assert (touched and touched.identity) == identity
        self.events.publish()
        changed = {key for key in before.keys() | self.state.keys() if before.get(key) != self.state.get(key)}
        assert self.read_new_events() == {key: (before.get(key), self.state.get(key)) for key in changed}
        if with_others:
            self.follow_others()
        return self.read_snapshot()

    def follow_others(self) -> None:
        before, self.state_of_others = self.state_of_others, self.state
        self.rows.publish()
        values = [json.loads(message.value()) for message in read(self.workbench, self.rows.topic)]
        produced = Counter((value["V"], value["Part"]) for value in values)
        assert produced - self.inserted == Counter(self.state.values()) - Counter(before.values())
        self.inserted = produced
        self.counts.publish()
        counts = dict[str, tuple[int, str]]()
        for value, part in sorted(self.state.values()):
            counts[part] = (counts.get(part, (0, ""))[0] + 1, value)
        latest = self.counts.read_latest().values()
        assert {row["P"]: (row["N"], row["Top"]) for row in latest} == counts

    def read_new_events(self) -> dict[int, tuple[Row | None, Row | None]]:
        messages = sorted(read(self.workbench, self.events.topic), key=lambda message: message.timestamp())
        events = [json.loads(message.value()) for message in messages if message.value()]
        new, self.events_seen = events[self.events_seen :], len(events)
        ids = [(event["after"] or event["before"])["Id"] for event in new]
        assert len(ids) == len(set(ids)), "each key once"
        sides = [[row and (row["V"], row["Part"]) for row in (event["before"], event["after"])] for event in new]
        return {id: (before, after) for id, (before, after) in zip(ids, sides, strict=True)}


@pytest.fixture
def follower(workbench: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Follower]:
    monkeypatch.setattr(snapshots, "SMALL_TABLE_ROWS", 0)
    with workbench.open_spark() as session:
        yield Follower(workbench, session)


@pytest.mark.guard(
    "publication: rows without an id are compared",
    file="jobs/tidegate_spark/publish/snapshot_rows.py",
    text="HAVING count_0 <> count_1 OR {is_unknown}",
    off="HAVING count_0 <> count_1",
)
def test_changes_are_the_difference_of_two_states_in_both_formats_and_whatever_moves_rows(follower: Follower) -> None:
    """Old files have no part of the newest column, so that each snapshot is read by the other reader."""
    change, follow = follower.change, follower.follow
    change(
        f"ALTER TABLE {{table}} SET TBLPROPERTIES ({MERGE_ON_WRITE})",
        "ALTER TABLE {table} ADD COLUMN More STRUCT<a: INT>",
        "INSERT INTO {table} (Id, V, Part) VALUES (40, 'a5', 'p0')",
    )
    follower.begin_now()
    # format 2: rows that were only moved to another file are compared
    change(
        "UPDATE {table} SET V = if(Id = 8, V, 'b'), Part = if(Id = 8, 'p1', Part) WHERE Id IN (1, 2, 3, 8)",
        "DELETE FROM {table} WHERE Id IN (4, 5, 6)",
        "INSERT INTO {table} (Id, V, Part) VALUES (4, 'a4', 'p0'), (5, 'back', 'p1'), (50, 'new', 'p0')",
    )
    follow(RowIdentity.POSITION)
    # the upgrade: first no snapshot has row ids, then only the newer one
    change(COMPACTION, "UPDATE {table} SET V = 'c' WHERE Id IN (2, 11)")
    commit(follower.workbench.load_iceberg("shop.moved"), [UpgradeFormatVersionUpdate(format_version=3)])
    follow(RowIdentity.ROW_ID)
    change("UPDATE {table} SET V = 'd', More = named_struct('a', 1) WHERE Id IN (2, 12)")
    early = follower.read_snapshot()
    change(
        "DELETE FROM {table} WHERE Id IN (15, 16, 17)",
        COMPACTION_OF_HALF,
        "INSERT INTO {table} (Id, V, Part) VALUES (15, 'a1', 'p1'), (16, 'back', 'p0'), (51, 'new', 'p0')",
        MERGE.format(ids="2, 20, 22, 52", deleted=22),
        "UPDATE {table} SET V = if(Id = 19, 'a5', 'f') WHERE Id IN (14, 18, 19)",
    )
    follow(RowIdentity.ROW_ID, with_others=True)
    # a rollback over deletes in files that stay, and over files
    follower.go_back(early)
    follow(RowIdentity.ROW_ID)


@pytest.mark.repeats("test_changes_are_the_difference_of_two_states_in_both_formats_and_whatever_moves_rows")
def test_each_change_of_files_alone_is_the_difference_of_two_states(follower: Follower) -> None:
    change, follow = follower.change, follower.follow
    follower.begin()
    follow(None)
    # format 2: rows that were only moved to another file are compared
    change(
        "UPDATE {table} SET V = 'b' WHERE Id IN (1, 2, 3)",
        "DELETE FROM {table} WHERE Id IN (4, 5, 6)",
        "INSERT INTO {table} VALUES (4, 'a4', 'p0'), (5, 'back', 'p1'), (50, 'new', 'p0')",
        "UPDATE {table} SET Part = 'p1' WHERE Id = 8",
    )
    follow(RowIdentity.POSITION, with_others=True)
    # the upgrade: first no snapshot has row ids, then only the newer one
    change("DELETE FROM {table} WHERE Id = 10", "INSERT INTO {table} VALUES (53, 'new', 'p0')", COMPACTION)
    change("UPDATE {table} SET V = 'c' WHERE Id IN (2, 11)")
    commit(follower.workbench.load_iceberg("shop.moved"), [UpgradeFormatVersionUpdate(format_version=3)])
    follow(RowIdentity.ROW_ID)
    change("UPDATE {table} SET V = 'd' WHERE Id IN (2, 12)", COMPACTION, "DELETE FROM {table} WHERE Id = 13")
    early = follow(RowIdentity.ROW_ID)
    change(
        "UPDATE {table} SET V = 'e' WHERE Id IN (2, 14)",
        "DELETE FROM {table} WHERE Id IN (15, 16, 17)",
        COMPACTION,
        "INSERT INTO {table} VALUES (15, 'a1', 'p1'), (16, 'back', 'p0'), (51, 'new', 'p0')",
        "UPDATE {table} SET V = if(Id = 19, 'a5', 'f') WHERE Id IN (14, 18, 19)",
    )
    follow(RowIdentity.ROW_ID)
    # copy-on-write: unchanged rows move with each change of one beside them
    change(
        COMPACTION,
        f"ALTER TABLE {{table}} SET TBLPROPERTIES ({ON_WRITE})",
        MERGE.format(ids="2, 20, 21, 52", deleted=21),
        f"ALTER TABLE {{table}} SET TBLPROPERTIES ({ON_READ})",
        "DELETE FROM {table} WHERE Id IN (22, 23)",
    )
    later = follow(RowIdentity.ROW_ID, with_others=True)
    # a rollback over deletes in files that stay, and one over files
    change("DELETE FROM {table} WHERE Id IN (24, 25)", "UPDATE {table} SET V = 'i' WHERE Id = 26")
    follow(RowIdentity.ROW_ID)
    for snapshot in (later, early):
        follower.go_back(snapshot)
        follow(RowIdentity.ROW_ID)
    # with a new column each row of touched files may look different, and is compared
    change("ALTER TABLE {table} ADD COLUMN More STRUCT<a: INT>", "UPDATE {table} SET V = 'k' WHERE Id IN (2, 28)")
    follow(RowIdentity.NONE)
    # files with parts of columns are read by another reader
    change("DELETE FROM {table} WHERE Id = 29", "UPDATE {table} SET V = 'l', More = named_struct('a', 1) WHERE Id = 30")
    follow(RowIdentity.ROW_ID)
