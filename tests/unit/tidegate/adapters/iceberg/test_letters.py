"""Letters of other tables, and of offsets that a batch does not touch, are not read again with every merge."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from tidegate.adapters.iceberg import letters as dead_letters
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.letters import IcebergDeadLetters
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import DISCARDED_STAGE
from tidegate.spec.time_text import EARLIEST, LATEST

LETTERS = "lake.shop.dead_letters"
ORDERS, ITEMS = "lake.shop.orders", "lake.shop.it's"
TIME_TYPE = pa.timestamp("us", tz="UTC")
COLUMNS = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("attempt", pa.string()),
        ("table", pa.string()), ("message", pa.string()), ("written_at", TIME_TYPE), ("replayed_at", TIME_TYPE),
        ("timestamp", TIME_TYPE), ("key", pa.binary()), ("value", pa.binary()), ("batch", pa.int64()),
        ("headers", pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))), ("stage", pa.string()),
        ("error_class", pa.string()), ("topic_id", pa.string()), ("replayed_by", pa.string()),
    ]
)  # fmt: skip
RANGES = Ranges.from_dict({"a": {"0": [100, 200], "1": [5, 9]}, "b": {"0": [0, 0]}})


@pytest.fixture
def store(tmp_path: Path) -> IcebergDeadLetters:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    return IcebergDeadLetters(Catalogs({"lake": properties}))


@pytest.fixture
def letters(store: IcebergDeadLetters) -> Table:
    """The table as Spark makes it: a partition for each destination."""
    catalog = store.catalogs.catalog("lake")
    catalog.create_namespace("shop")
    iceberg_table = catalog.create_table("shop.dead_letters", COLUMNS)
    with iceberg_table.update_spec() as spec:
        spec.add_identity("table")
    return catalog.load_table("shop.dead_letters")


def write(
    letters: Table,
    table: str,
    attempt: str,
    *places: tuple[str, int, int],
    replayed: bool = False,
    stage: str = "value",
) -> list[Path]:
    """One file of letters; where it lies."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    row = {
        "attempt": attempt,
        "table": table,
        "message": "bad",
        "stage": stage,
        "written_at": now,
        "replayed_at": now if replayed else None,
    }
    rows: list[dict[str, Any]] = [{**row, "topic": t, "partition": p, "offset": o} for t, p, o in places]
    before = list_files(letters)
    letters.append(pa.Table.from_pylist(rows, schema=COLUMNS))
    return [Path(path.removeprefix("file://")) for path in list_files(letters) - before]


@pytest.mark.parametrize("limit", [0, 1, 9])
def test_letters_that_are_done_are_counted_without_being_read(
    store: IcebergDeadLetters, letters: Table, limit: int
) -> None:
    finished_files = write(letters, ORDERS, "old", ("a", 0, 1), ("a", 0, 2), replayed=True)
    finished_files += write(letters, ITEMS, "old", ("a", 1, 1), replayed=True)
    write(letters, ORDERS, "old", ("a", 0, 3), ("a", 0, 4))
    write(letters, ORDERS, "old", ("a", 0, 5), replayed=True, stage=DISCARDED_STAGE)
    for file in finished_files:
        file.unlink()
    newest_letters = store.read_dead_letters(LETTERS, limit)
    assert (newest_letters.waiting, newest_letters.replayed, newest_letters.discarded) == (2, 3, 1)
    assert [letter.offset for letter in newest_letters.newest] == [4, 3][:limit]


def list_files(letters: Table) -> set[str]:
    return {task.file.file_path for task in letters.scan().plan_files()}


@pytest.fixture(params=[100, 1])
def max_ranges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(dead_letters, "MAX_FILTER_RANGES", request.param)
    return int(request.param)


def test_letters_of_other_attempts_in_the_ranges_are_counted(
    store: IcebergDeadLetters, letters: Table, max_ranges: int
) -> None:
    write(letters, ORDERS, "old", ("a", 0, 99), ("a", 0, 100), ("a", 0, 199), ("a", 0, 200))
    write(letters, ORDERS, "old", ("a", 1, 5), ("a", 1, 100), ("b", 0, 150), ("a", 2, 6))
    write(letters, ORDERS, "mine", ("a", 0, 150), ("a", 1, 6))
    write(letters, ITEMS, "old", ("a", 0, 150), ("a", 1, 6), ("a", 1, 8))
    assert store.count_letters_of_others(LETTERS, ORDERS, ["mine"], RANGES) == {("a", 0): 2, ("a", 1): 1}
    assert store.count_letters_of_others(LETTERS, ITEMS, ["mine"], RANGES) == {("a", 0): 1, ("a", 1): 2}
    assert store.count_letters_of_others(LETTERS, ORDERS, ["old"], RANGES) == {("a", 0): 1, ("a", 1): 1}
    assert store.count_letters_of_others(LETTERS, ORDERS, ["mine", "old"], RANGES) == {}
    assert store.count_letters_of_others(LETTERS, ORDERS, ["mine"], Ranges.from_dict({"a": {"0": [100, 100]}})) == {}


def test_letters_elsewhere_are_not_opened(store: IcebergDeadLetters, letters: Table) -> None:
    for path in [
        *write(letters, ITEMS, "old", ("a", 0, 150)),
        *write(letters, ORDERS, "old", ("a", 0, 99), ("a", 0, 3)),
        *write(letters, ORDERS, "old", ("a", 0, 200), ("a", 0, 201)),
        *write(letters, ORDERS, "old", ("a", 1, 50), ("a", 1, 150)),
        *write(letters, ORDERS, "old", ("b", 0, 150)),
    ]:
        path.unlink()
    write(letters, ORDERS, "old", ("a", 0, 120), ("a", 0, 250))
    assert store.count_letters_of_others(LETTERS, ORDERS, ["mine"], RANGES) == {("a", 0): 1}


def test_letters_of_a_destination_are_found_and_no_others_opened(store: IcebergDeadLetters, letters: Table) -> None:
    other_files = write(letters, ORDERS, "one", ("a", 0, 7))
    write(letters, ITEMS, "one", ("a", 0, 9), ("a", 0, 8))
    write(letters, ITEMS, "two", ("a", 0, 1))
    write(letters, ITEMS, "one", ("a", 0, 2), replayed=True)
    other_files[0].unlink()
    written_at = datetime(2026, 1, 1, tzinfo=UTC)
    waiting_letters = [("a", 0, offset, None, "bad", written_at, None) for offset in (1, 8, 9)]
    assert sorted(store.list_waiting_letters(LETTERS, ITEMS)) == waiting_letters
    row = {"topic": "a", "partition": 1, "offset": 1, "table": ITEMS, "topic_id": "t-2", "message": "x is no INT"}
    letters.append(pa.Table.from_pylist([row], schema=letters.schema().as_arrow()))
    assert sorted(store.list_waiting_letters(LETTERS, ITEMS))[-1] == ("a", 1, 1, "t-2", "x is no INT", None, None)
    attempt_letters = store.read_letters_of_attempt(LETTERS, ITEMS, "one")
    assert [letter.offset for letter in attempt_letters] == [2, 8, 9]
    assert {(letter.table, letter.attempt, letter.message, letter.headers) for letter in attempt_letters} == {
        (ITEMS, "one", "bad", ())
    }


def test_letters_that_replays_have_read_are_found_by_their_attempts(store: IcebergDeadLetters, letters: Table) -> None:
    write(letters, ITEMS, "one", ("a", 0, 9), replayed=True)
    assert store.list_replayed_letters(LETTERS, ITEMS, {"r-1"}) == []
    row = {"topic": "a", "partition": 1, "topic_id": "t-2", "message": "bad"}
    places = [(1, ITEMS, "r-1"), (2, ITEMS, "r-2"), (3, ITEMS, "r-3"), (4, ORDERS, "r-1"), (5, ITEMS, None)]
    rows = [{**row, "offset": offset, "table": table, "replayed_by": by} for offset, table, by in places]
    letters.append(pa.Table.from_pylist(rows, schema=letters.schema().as_arrow()))
    assert sorted(
        letter.offset for letter in store.list_replayed_letters(LETTERS, ITEMS, {"r-1", "r-3", "never was"})
    ) == [1, 3]
    assert [letter.topic_id for letter in store.list_replayed_letters(LETTERS, ORDERS, {"r-1"})] == ["t-2"]


def test_letters_of_times_that_python_does_not_have_are_read(store: IcebergDeadLetters, letters: Table) -> None:
    """A producer wrote microseconds for Kafka's milliseconds: such a record is bad where a column takes it."""
    micros = (1_700_000_000_000_000_000, -62_135_596_800_000_001, 1_700_000_000_000_000, None)
    columns = {name: pa.nulls(len(micros), kind) for name, kind in zip(COLUMNS.names, COLUMNS.types, strict=True)}
    own = {name: [value] * len(micros) for name, value in (("table", ORDERS), ("attempt", "new"), ("topic", "a"))}
    own |= {"partition": [0] * len(micros), "offset": [*range(len(micros))]}
    columns |= {name: pa.array(values, COLUMNS.field(name).type) for name, values in own.items()}
    columns |= {"timestamp": pa.array(micros, TIME_TYPE), "written_at": pa.array([0] * len(micros), TIME_TYPE)}
    with letters.transaction() as change:  # Spark writes such times, and PyIceberg no bounds of them
        change.set_properties({"write.metadata.metrics.column.timestamp": "none"})
    letters.append(pa.table(columns, schema=COLUMNS))
    times = [LATEST, EARLIEST, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), None]
    assert [letter.timestamp for letter in store.read_letters_of_attempt(LETTERS, ORDERS, "new")] == times
    assert [letter.timestamp for letter in reversed(store.read_dead_letters(LETTERS, 9).newest)] == times
