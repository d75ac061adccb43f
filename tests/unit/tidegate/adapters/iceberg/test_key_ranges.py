"""Bounds of a merge hold every key that is staged, whatever the key's type, and are left out where nothing is known."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)
from tidegate.adapters.iceberg.pruning import find_key_ranges
from tidegate.model.batch import StagedPart
from tidegate.sql.pruning import Bound

TYPES: dict[str, Any] = {
    "bytes": BinaryType(),
    "ratio": DoubleType(),
    "line": IntegerType(),
    "at": TimestamptzType(),
    "local": TimestampType(),
    "day": DateType(),
    "price": DecimalType(12, 2),
    "name": StringType(),
}
UNBOUNDED = "a value of which the file's statistics have no bounds"
UNCOUNTED = "a value of a column without statistics"


class Uncounted(int):
    """A value of a column of which the file tells bounds, and not how many of its values are missing."""


@pytest.fixture
def table(tmp_path: Path) -> Any:
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("shop")

    def make(*batches: list[dict[str, Any]] | tuple[list[dict[str, Any]], ...]) -> Table:
        """An intermediate table; each list of keys is a file with its statistics, and a batch is one or a tuple."""
        staged = [batch if isinstance(batch, tuple) else (batch,) for batch in batches]
        names = list(dict.fromkeys(name for files in staged for keys in files for key in keys for name in key))
        parts = [NestedField(10 + n, name, TYPES.get(name, LongType())) for n, name in enumerate(names)]
        schema = Schema(NestedField(1, "key", StructType(*parts)), NestedField(2, "batch_number", LongType()))
        iceberg_table = catalog.create_table("shop.tmp", schema)
        for number, files in enumerate(staged, 1):
            with iceberg_table.transaction() as change, change.update_snapshot().fast_append() as append:
                for place, keys in enumerate(files):
                    append.append_data_file(_build_file(iceberg_table, number, place, keys))
        return iceberg_table

    return make


def _build_file(table: Table, number: int, place: int, keys: list[dict[str, Any]]) -> DataFile:
    batch = table.schema().find_field("batch_number")
    low, high, nulls = ({batch.field_id: to_bytes(LongType(), number)} for _ in range(3))
    nulls = {batch.field_id: 0}
    for field in table.schema().find_field("key").field_type.fields:
        known = [key[field.name] for key in keys if key[field.name] is not None]
        if UNCOUNTED not in known and not any(isinstance(value, Uncounted) for value in known):
            nulls[field.field_id] = len(keys) - len(known)
        if known and not {UNBOUNDED, UNCOUNTED} & {*known} and field.field_type not in (BinaryType(), DoubleType()):
            low[field.field_id], high[field.field_id] = (to_bytes(field.field_type, end(known)) for end in (min, max))
    return DataFile.from_args(
        content=DataFileContent.DATA, file_path=f"{table.location()}/data/{number}-{place}.parquet",
        file_format=FileFormat.PARQUET, partition=Record(), record_count=len(keys), file_size_in_bytes=1,
        null_value_counts=nulls, lower_bounds=low, upper_bounds=high,
    )  # fmt: skip


def build_values(table: Table, *names: str, batches: Sequence[int] = (1,)) -> dict[str, Any]:
    current = table.current_snapshot()
    assert current is not None
    keys = [(name, name) for name in names]
    parts = [StagedPart(batch, f"a{batch}") for batch in batches]
    return {"leaves": [(n,) for n in names], "keys": keys, "parts": parts, "snapshot_id": current.snapshot_id}


def find_key_bounds(table: Table, values: dict[str, Any]) -> tuple[Bound, ...]:
    return tuple(key_range.bound for key_range in find_key_ranges(table, values))


def test_bounds_are_the_least_and_greatest_key_of_the_batch_alone(table: Any) -> None:
    iceberg_table = table([{"id": 5}, {"id": -3}, {"id": 900}], [{"id": 10_000}])
    expected = Bound(("id",), (("CAST('-3' AS BIGINT)", "CAST('900' AS BIGINT)"),))
    assert find_key_bounds(iceberg_table, build_values(iceberg_table, "id")) == (expected,)


def test_null_in_a_key_is_inside(table: Any) -> None:
    iceberg_table = table([{"id": 5, "line": None}, {"id": 7, "line": 2}])
    (whole, part) = find_key_bounds(iceberg_table, build_values(iceberg_table, "id", "line"))
    assert (whole.nulls, part.nulls) == (False, True)
    assert part.ranges == (("CAST('2' AS INT)", "CAST('2' AS INT)"),)


def test_key_of_nulls_alone_has_no_bounds(table: Any) -> None:
    iceberg_table = table([{"id": 5, "line": None}])
    assert [
        key_bound.path for key_bound in find_key_bounds(iceberg_table, build_values(iceberg_table, "id", "line"))
    ] == [("id",)]


@pytest.mark.parametrize(
    ("name", "low", "high", "constants"),
    [
        ("day", -2, 20_455, ("CAST('1969-12-30' AS DATE)", "CAST('2026-01-02' AS DATE)")),
        ("price", Decimal("-0.05"), Decimal("1000000000.00"),
         ("CAST('-0.05' AS DECIMAL(12, 2))", "CAST('1000000000.00' AS DECIMAL(12, 2))")),
        ("at", datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2026, 1, 2, tzinfo=UTC),
         ("CAST('1969-12-31 23:59:59.999999' AS TIMESTAMP)", "CAST('2026-01-02 00:00:00.000000' AS TIMESTAMP)")),
        ("local", datetime(2026, 1, 1), datetime(2026, 1, 2, 3),
         tuple(f"CAST('2026-01-0{day}:00:00.000000' AS TIMESTAMP_NTZ)" for day in ("1 00", "2 03"))),
        ("name", "it's", "zoë", (r"'it\'s'", "'zoë'")),
    ],
)  # fmt: skip
def test_constants_are_exact_in_each_type(table: Any, name: str, low: Any, high: Any, constants: tuple) -> None:
    iceberg_table = table([{name: high}, {name: low}])
    assert find_key_bounds(iceberg_table, build_values(iceberg_table, name)) == (Bound((name,), (constants,)),)


@pytest.mark.parametrize(
    ("name", "value", "constant"),
    [
        ("at", -62_135_596_801, "0000-12-31 23:59:59.000000"),
        ("at", -62_135_596_800, "0001-01-01 00:00:00.000000"),
        ("local", -30_610_224_000, "1000-01-01 00:00:00.000000"),
        ("local", -30_610_224_001, "0999-12-31 23:59:59.000000"),
        ("at", 253_402_300_799, "9999-12-31 23:59:59.000000"),
        ("local", 253_402_300_800, "10000-01-01 00:00:00.000000"),
        ("at", -62_198_755_200, "-0001-01-01 00:00:00.000000"),
        ("day", -719_529, "-0001-12-31"),
        ("day", -354_286, "0999-12-31"),
        ("day", 2_932_897, "10000-01-01"),
    ],
)
def test_constants_are_exact_in_years_that_python_does_not_know(
    table: Any, name: str, value: int, constant: str
) -> None:
    kind = {"at": "TIMESTAMP", "local": "TIMESTAMP_NTZ", "day": "DATE"}[name]
    iceberg_table = table([{name: value if name == "day" else value * 1_000_000}])
    (key_bound,) = find_key_bounds(iceberg_table, build_values(iceberg_table, name))
    assert key_bound.ranges == ((f"CAST('{constant}' AS {kind})",) * 2,)


def test_bounds_hold_the_keys_of_every_staged_file(table: Any) -> None:
    staged = ([{"id": 7, "line": 3}], [{"id": -2, "line": 9}, {"id": 4, "line": 5}])
    iceberg_table = table(staged, [{"id": 99, "line": 1}])
    whole, part = find_key_bounds(iceberg_table, build_values(iceberg_table, "id", "line"))
    assert whole == Bound(("id",), (("CAST('-2' AS BIGINT)", "CAST('7' AS BIGINT)"),))
    assert part == Bound(("line",), (("CAST('3' AS INT)", "CAST('9' AS INT)"),))


@pytest.mark.parametrize("order", [1, -1])
def test_nulls_in_one_of_several_staged_files_are_inside(table: Any, order: int) -> None:
    files = ([{"id": 5, "line": None}, {"id": 6, "line": None}], [{"id": 7, "line": 2}], [{"id": 8, "line": 4}])
    iceberg_table = table(files[::order])
    whole, part = find_key_bounds(iceberg_table, build_values(iceberg_table, "id", "line"))
    assert (whole.nulls, part.nulls) == (False, True)
    assert part.ranges == (("CAST('2' AS INT)", "CAST('4' AS INT)"),)


@pytest.mark.parametrize("order", [1, -1])
def test_nulls_that_one_of_several_files_does_not_count_may_be_inside(table: Any, order: int) -> None:
    files = ([{"id": 5, "line": Uncounted(3)}, {"id": 6, "line": None}], [{"id": 7, "line": 2}])
    iceberg_table = table(files[::order])
    whole, part = find_key_bounds(iceberg_table, build_values(iceberg_table, "id", "line"))
    assert (whole.nulls, part.nulls) == (False, True)
    assert part.ranges == (("CAST('2' AS INT)", "CAST('3' AS INT)"),)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("untold", [[UNBOUNDED], [UNCOUNTED], [UNBOUNDED, None]])
def test_file_that_tells_nothing_of_a_key_leaves_it_without_bounds(table: Any, order: int, untold: list) -> None:
    files = ([{"id": 5, "line": 1}], [{"id": 6, "line": value} for value in untold])
    iceberg_table = table(files[::order])
    assert [
        key_bound.path for key_bound in find_key_bounds(iceberg_table, build_values(iceberg_table, "line", "id"))
    ] == [("id",)]


@pytest.mark.parametrize(("name", "value"), [("ratio", float("nan")), ("bytes", b"x")])
def test_types_without_an_order_of_their_own_have_no_bounds(table: Any, name: str, value: Any) -> None:
    iceberg_table = table([{name: value}])
    assert find_key_bounds(iceberg_table, build_values(iceberg_table, name)) == ()


def test_key_in_one_struct_is_bounded_by_its_leaves(table: Any) -> None:
    iceberg_table = table([{"id": 5}])
    values = {**build_values(iceberg_table, "id"), "keys": [("k", None)], "leaves": [("k", "id")]}
    assert find_key_bounds(iceberg_table, values)[0].path == ("k", "id")


def test_snapshot_that_is_gone_bounds_nothing(table: Any) -> None:
    iceberg_table = table([{"id": 5}])
    assert find_key_bounds(iceberg_table, {**build_values(iceberg_table, "id"), "snapshot_id": 1}) == ()
    assert find_key_bounds(iceberg_table, {"parts": [], "snapshot_id": 1, "keys": []}) == ()
