"""`sequence_by` through real Kafka, Spark and Iceberg: hundreds of small histories at once, and single ones to read."""

import random
from contextlib import suppress

import pytest
from conftest import build_debezium_event
from crash.memory import die
from crash.points import Journey, Point, build_fault
from examples import choose_part
from fakes import Crash
from fakes.one_at_a_time import compute_rows
from tidegate.errors import AuditFailed, TidegateError
from tidegate.flush.flush import flush
from tidegate.reprocess.verify import verify_table

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, n INT, lsn INT, sub INT"}
KINDS = ("upsert", "upsert", "upsert", "delete", "tombstone")
HISTORIES, BATCHES = 300, 2


def build_table_section(**more):
    return {"sequence_by": ["lsn", "sub"], "delete_when": "n = -1", **more}


def build_upsert(id, n, lsn, sub=None, **more):
    return {"id": id}, {"id": id, "n": n, "lsn": lsn, "sub": sub}, more


def build_delete(id, lsn, sub=None):
    return build_upsert(id, -1, lsn, sub)


def build_tombstone(id):
    return {"id": id}, None


def make_histories(seed: int) -> list:
    """A little history for each key, all mixed: (key, kind, sequence, n) in the order of the log."""
    chance = random.Random(seed)
    choices = [None, 0, 1, 2, 3, 4, 5]
    keys = [key for key in range(HISTORIES) for _ in range(chance.randint(1, 7))]
    chance.shuffle(keys)
    return [
        (key, chance.choice(KINDS), (chance.choice(choices), chance.choice([None, 0, 1])), n)
        for n, key in enumerate(keys)
    ]


def build_record(key, kind, sequence, n):
    return build_tombstone(key) if kind == "tombstone" else build_upsert(key, n if kind == "upsert" else -1, *sequence)


MODES = {
    "hard": ("upsert_delete", "hard"),
    "soft": ("upsert_delete", "soft"),
    "kept": ("upsert", "hard"),
}


@pytest.mark.guard(
    "a remembered delete outlives a late upsert",
    file="include/sql/iceberg/_last_by_sequence.sql",
    text='{% endif %} t ON {% include "_on_key.sql" %}',
    off="{% endif %} t ON false",
    case="hard",
)
@pytest.mark.repeats("test_statements_leave_what_one_record_at_a_time_would_leave[hard]", "soft", "kept")
@pytest.mark.parametrize("name", MODES)
def test_statements_leave_what_one_record_at_a_time_would_leave(workbench, name: str) -> None:
    topic = workbench.topic(1)
    mode, deletes = MODES[name]
    settings = build_table_section(deletes=deletes, delete=mode == "upsert_delete")
    workbench.pipeline("many", [topic], key=KEY, value=VALUE, table=settings)
    changes = make_histories(7)
    size = len(changes) // BATCHES + 1
    for start in range(0, len(changes), size):
        workbench.produce(topic, *(build_record(*change) for change in changes[start : start + size]))
        workbench.flush("many")
        rows = {row["id"]: row for row in workbench.read_rows("shop.many")}
        assert rows == {row["id"]: row for row in compute_rows(mode, deletes, changes[: start + size])}


@pytest.mark.repeats("test_statements_leave_what_one_record_at_a_time_would_leave[hard]")
def test_delete_events_are_ordered_by_the_row_before_them_and_tombstones_by_offset(workbench) -> None:
    topic = workbench.topic(1)
    value = {"format": "debezium-json", "schema": "id BIGINT, name STRING, lsn INT"}
    workbench.pipeline("cdc", [topic], key=KEY, value=value, table={"sequence_by": ["lsn"]})

    def build_event(op, id, before=None, after=None, **more):
        rows = [part and {"id": id, "name": part[0], "lsn": part[1]} for part in (before, after)]
        return {"id": id}, build_debezium_event(op, *rows, **more)

    workbench.produce(
        topic,
        *(build_event("c", id, after=("a", 5)) for id in (1, 2, 3)),
        build_event("u", 3, ("a", 5), ("late", 4), envelope=True),
    )
    workbench.flush("cdc")
    workbench.produce(
        topic,
        build_event("d", 1, before=("a", 9), envelope=True),
        build_event("d", 2, before=(None, None)),  # REPLICA IDENTITY DEFAULT: the key alone
        build_tombstone(2),
        build_event("d", 3, before=("a", 4)),
    )
    workbench.flush("cdc")
    assert [(r["id"], r["name"]) for r in workbench.read_rows("shop.cdc")] == [(3, "a")]
    remembered = {r["id"]: (r["sequence"]["lsn"], r["offset"]) for r in workbench.read_rows("shop.cdc_deletes")}
    assert remembered == {1: (9, 4), 2: (5, 6), 3: (4, 7)}
    wider = {"format": "debezium-json", "schema": "id BIGINT, name STRING, lsn BIGINT"}
    workbench.pipeline("cdc", [topic], key=KEY, value=wider, table={"sequence_by": ["lsn"]})
    workbench.produce(topic, build_event("u", 1, after=("late", 8)), build_event("u", 2, after=("late", 4)))
    workbench.produce(topic, build_event("c", 2, after=("new", 6)), build_event("c", 1, after=("newer", 2**40)))
    workbench.flush("cdc")
    assert [(r["id"], r["name"]) for r in workbench.read_rows("shop.cdc")] == [(1, "newer"), (2, "new"), (3, "a")]


@pytest.mark.repeats(
    "unit/tidegate/merge/test_statements.py::test_soft_delete_leaves_its_sequence_in_a_column_that_the_table_spells_otherwise"
)
def test_late_record_brings_no_row_back_where_the_table_spells_its_order_otherwise(workbench) -> None:
    """The delete has come with the upsert before it; live view and verify fold by the same columns."""
    topic = workbench.topic(1)
    workbench.run_spark_sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
    workbench.run_spark_sql("CREATE TABLE lake.shop.spelled (ID BIGINT, n INT, LSN INT, Sub INT) USING iceberg")
    settings = build_table_section(deletes="soft", deleted_column="Gone")
    workbench.pipeline("spelled", [topic], stage={"interval": "1h"}, key=KEY, value=VALUE, table=settings)
    workbench.produce(topic, build_upsert(1, 1, 1), build_upsert(2, 2, 1))
    workbench.flush("spelled")
    view = workbench.run_cli("live-view", "spelled", "--table", "lake.shop.spelled").stdout

    def read(query: str) -> list[tuple]:
        return [tuple(row) for row in workbench.run_spark_sql(f"SELECT id, n, lsn, gone FROM ({query}) ORDER BY id")]

    for records, rows in (
        (
            (build_upsert(1, 3, 2), build_delete(1, 9), build_upsert(3, 1, 1), build_delete(3, 9)),
            [(1, 3, 9, True), (2, 2, 1, False), (3, 1, 9, True)],
        ),
        (
            (build_upsert(1, 4, 5), build_upsert(2, 4, 5), build_upsert(3, 4, 5)),
            [(1, 3, 9, True), (2, 4, 5, False), (3, 1, 9, True)],
        ),
    ):
        workbench.produce(topic, *records)
        assert workbench.run_cli("stage", "spelled").returncode == 0
        assert read(view) == rows
        assert workbench.run_cli("merge", "spelled").returncode == 0
        assert read("SELECT * FROM lake.shop.spelled") == rows == read(view)
    found = verify_table(workbench.open_session("spelled"), "lake.shop.spelled")
    assert (found.equal, found.wrong, found.unknowable) == (3, 0, 0)


@pytest.mark.repeats(
    "contract/test_destination.py::test_remembered_deletes_are_forgotten_by_time_and_none_without_a_mark"
)
def test_deletes_ordered_by_metadata_are_remembered_until_the_log_has_passed_their_retention(workbench) -> None:
    topic, day = workbench.topic(1), 86_400_000
    source = {"metadata": {"at": "timestamp"}}
    settings = {"sequence_by": ["at"], "tombstone_retention": "7d"}
    workbench.pipeline("kept", [topic], source=source, key=KEY, value={"schema": "id BIGINT, n INT"}, table=settings)

    def produce(id, n, ms):
        workbench.produce(topic, ({"id": id}, n and {"id": id, "n": n}, {"timestamp": 10 * day + ms}))

    produce(1, 1, 1000)
    produce(1, None, 5000)
    workbench.flush("kept")
    produce(1, 2, 3000)
    produce(2, 1, 7 * day)
    workbench.flush("kept")
    assert [r["id"] for r in workbench.read_rows("shop.kept")] == [2]
    assert [r["id"] for r in workbench.read_rows("shop.kept_deletes")] == [1]
    produce(2, 2, 7 * day + 5001)
    workbench.flush("kept")
    assert workbench.read_rows("shop.kept_deletes") == []
    produce(1, 3, 4000)
    workbench.flush("kept")
    assert [(r["id"], r["n"]) for r in workbench.read_rows("shop.kept")] == [(1, 3), (2, 2)]


@pytest.mark.repeats(
    "unit/tidegate_spark/formats/test_ordering_metadata.py::test_number_that_is_made_of_the_file_orders_and_the_file_may_be_as_long_as_it_likes"
)
def test_rows_of_one_binlog_event_in_several_partitions_are_ordered_by_their_number(workbench) -> None:
    """`UPDATE … SET id = id + 1 WHERE id IN (7, 8) ORDER BY id DESC`, in a topic that another column than id splits."""
    topic = workbench.topic(2)
    words = {"binlog": "value.source.file", "Place": "value.source.pos", "Row_No": "value.source.row"}
    workbench.pipeline(
        "shifted", [topic], source={"metadata": words}, key={**KEY, "from": "value"},
        value={"format": "debezium-json", "schema": "id BIGINT, name STRING"},
        table={"sequence_by": list(words)},
    )  # fmt: skip
    partitions = {"seven": 1, "eight": 0}

    def produce(op, name, pos, row, **ids):
        rows = [id and {"id": id, "name": name} for id in (ids.get("before"), ids.get("after"))]
        source = {"connector": "mysql", "file": "mysql-bin.000003", "pos": pos, "row": row}
        key, place = {"name": name}, {"partition": partitions[name]}
        workbench.produce(topic, (key, build_debezium_event(op, *rows, source=source), place))
        if op == "d":
            workbench.produce(topic, (key, None, place))

    def shift(pos, first):
        """Eight goes up before seven does, and its partition has the higher offsets."""
        for name, row in (("eight", 0), ("seven", 1)):
            id = first + (name == "eight")
            produce("d", name, pos, row, before=id)
            produce("c", name, pos, row, after=id + 1)

    def read_names():
        return {row["id"]: row["name"] for row in workbench.read_rows("shop.shifted")}

    for name, id in (("seven", 7), *[("eight", 8)] * 4):
        produce("r", name, 100, 0, after=id)
    shift(200, 7)
    workbench.flush("shifted")
    assert read_names() == {8: "seven", 9: "eight"}
    shift(300, 8)
    workbench.flush("shifted")
    assert read_names() == {9: "seven", 10: "eight"}


@pytest.mark.guard(
    "a batch that is refused remembers nothing",
    file="plugins/tidegate/merge/attempt.py",
    text="        _drop_memory_branch(attempt)\n        try:",
    off="        attempt.session.commits.fast_forward(attempt.memory, attempt.branch, attempt.id)\n        try:",
)
def test_deletes_of_a_refused_batch_are_not_remembered_however_it_ends(workbench) -> None:
    """The corrected file leaves what it leaves from the beginning on; a batch that is left out leaves nothing."""
    topic = workbench.topic(2)

    def write_file(factor: int = 1, delete_when: str = "n = -1") -> None:
        select = f"SELECT id, n, CAST(lsn * {factor} AS INT) AS Lsn FROM record"
        table = {"sequence_by": ["Lsn"], "delete_when": delete_when, "select": select, "audits": ["Lsn < 100"]}
        workbench.pipeline("reread", [topic], key=KEY, value=VALUE, table=table)

    def read() -> list:
        rows = [(row["id"], row["n"], row["Lsn"]) for row in workbench.read_rows("shop.reread")]
        deletes = [(row["id"], row["sequence"]["Lsn"]) for row in workbench.read_rows("shop.reread_deletes")]
        return [sorted(rows), sorted(deletes)]

    def refuse(*records) -> None:
        write_file(100, "n < 0")
        workbench.produce(topic, *records)
        for _ in range(2):
            with pytest.raises(AuditFailed):
                workbench.flush("reread")
        write_file()

    rows: list = []
    deletes: list = []
    for start in choose_part((0, 20), 0, 2):
        one, two, three, four = range(start + 1, start + 5)
        write_file()
        workbench.produce(topic, *(build_upsert(id, 1, 1) for id in (one, two, three)), build_delete(four, 5))
        workbench.flush("reread")
        # the wrong file takes the last one for a delete, in place of that which is remembered
        refuse(build_upsert(one, 2, 2), build_delete(two, 2), build_delete(three, 3), build_upsert(four, -2, 4))
        workbench.flush("reread")
        workbench.produce(topic, build_upsert(two, 3, 3), build_upsert(three, 3, 2))
        workbench.flush("reread")
        rows += [(one, 2, 2), (two, 3, 3)]
        deletes += [(two, 2), (three, 3), (four, 5)]
        assert read() == [rows, deletes]
    refuse(build_upsert(41, 1, 1), build_delete(1, 3))
    assert workbench.run_cli("rebase", "reread", "--to", "latest", "--yes").returncode == 0
    assert read() == [rows, deletes]
    workbench.produce(topic, build_upsert(1, 5, 5), build_upsert(41, 5, 5))
    workbench.flush("reread")
    assert [row for row in read()[0] if row[0] in (1, 41)] == [(1, 5, 5), (41, 5, 5)]


FAULTS = (
    ("killed", "merge/engine.run:after:1"),
    ("lost", "merge/commits.fast_forward:after:1"),
    ("killed", "merge/commits.fast_forward:after:1"),
    ("killed", "merge/commits.publish:after:1"),
)


@pytest.mark.parametrize("history", ["none", "scd2"])
def test_run_that_dies_around_the_commit_that_remembers_is_finished_by_the_next(workbench, history: str) -> None:
    topic = workbench.topic(2)
    memory = f"shop.died_{'deletes' if history == 'none' else 'changes'}"
    table = {"history": history, "sequence_by": ["lsn"], "delete_when": "n = -1"}
    workbench.pipeline("died", [topic], key=KEY, value=VALUE, table=table)
    workbench.produce(topic, *(build_upsert(id, 1, 1) for id in range(4)), build_delete(9, 1))
    workbench.flush("died")
    for lsn, (kind, point) in enumerate(choose_part(FAULTS, int(history == "none"), 2), 2):
        workbench.produce(topic, build_upsert(0, lsn, lsn), build_delete(1, lsn), build_upsert(2, lsn, lsn))
        journey = Journey(build_fault(kind, Point.parse(point), die))
        with journey.inside(), suppress(Crash, TidegateError):
            flush(journey.open_session(workbench.open_session("died")))
        assert point in map(str, journey.passed)
        workbench.drain("died")
        workbench.produce(topic, build_upsert(1, 1, lsn - 1))
        workbench.drain("died")
        rows = workbench.read_rows("shop.died")
        current = [row for row in rows if row.get("is_current", True)]
        assert sorted((row["id"], row["n"]) for row in current) == [(0, lsn), (2, lsn), (3, 1)]
        found = verify_table(workbench.open_session("died"), "lake.shop.died")
        assert (found.wrong, set(workbench.load_iceberg(memory).metadata.refs)) == (0, {"main"})
