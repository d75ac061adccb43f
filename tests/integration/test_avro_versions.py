"""Records of older Avro versions read as the latest, on real Spark: values stay what they were, or are bad."""

from dataclasses import asdict
from io import BytesIO
from typing import Any

import decoding
import pytest
from tidegate.schema.avro import parse_schema, to_columns
from tidegate.schema.avro_resolution import plan_decoding
from tidegate.schema.data_types import Column
from tidegate.spec.source import ValueFormat

MILLIS, MICROS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
MILLI_COUNT = 1_767_225_600_000  # 2026-01-01
AT = "2026-01-01T00:00:00+00:00"
EXACT = 2**53 + 1  # the least whole number that a double does not hold
MEANT = "the value has schema id=1, whose field x was {}"


def build_record(of: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "x", "type": of}]}


def build_state_enum(*symbols: str) -> Any:
    return ["null", {"type": "enum", "name": "State", "symbols": [*symbols], "default": symbols[0]}]


def encode_avro(number: int, schema: Any, value: Any) -> bytes:
    import fastavro

    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(_drop_meaning(schema)), {"id": number, "x": value})
    return b"\x00" + number.to_bytes(4, "big") + out.getvalue()


def _drop_meaning(node: Any) -> Any:
    """The schema without logical types: numbers are written as they are."""
    if isinstance(node, list):
        return [_drop_meaning(part) for part in node]
    if not isinstance(node, dict):
        return node
    return {k: _drop_meaning(v) for k, v in node.items() if k != "logicalType"}


# the type of version 1 and a value, the type of version 2, and what both values become or why the first is bad
VERSIONS: dict[str, tuple[Any, Any, Any, Any, Any]] = {
    "another unit in a union": (
        ["string", MILLIS], MILLI_COUNT, ["string", MICROS], MILLI_COUNT * 1000,
        MEANT.format("timestamp-millis and is timestamp-micros"),
    ),
    "another unit and a type more": (
        ["null", MILLIS], MILLI_COUNT, ["null", "string", MICROS], MILLI_COUNT * 1000,
        MEANT.format("timestamp-millis and is timestamp-micros"),
    ),
    "a plain number that became a time in a union": (
        "long", MILLI_COUNT, ["null", "string", MICROS], MILLI_COUNT * 1000,
        MEANT.format("a plain value and is timestamp-micros"),
    ),
    "the same unit in another order": (
        ["string", MICROS], MILLI_COUNT * 1000, [MICROS, "string"], MILLI_COUNT * 1000, {"member0": AT, "member1": None}
    ),
    "a type more": (
        MICROS, MILLI_COUNT * 1000, ["null", "string", MICROS], MILLI_COUNT * 1000, {"member0": None, "member1": AT}
    ),
    "a whole number that a double rounds": (
        "long", EXACT, "double", 1.5, MEANT.format("a long and is a double")
    ),
    "a whole number that a double holds": ("int", 2**31 - 1, "double", 1.5, 2147483647.0),
    "a whole number that a float rounds": (
        "int", 2**24 + 1, ["null", "float"], 1.5, MEANT.format("an int and is a float")
    ),
    "a whole number beside a text": (
        "long", EXACT, ["null", "long", "string"], 5, {"member0": EXACT, "member1": None}
    ),
    "a symbol that was dropped": (build_state_enum("a", "b"), "b", build_state_enum("a", "c"), "c", "b"),
}  # fmt: skip


@pytest.mark.repeats(
    "unit/tidegate/schema/test_avro.py::test_symbol_that_the_latest_version_dropped_is_read_as_it_was_written",
    "a symbol that was dropped",
)
@pytest.mark.repeats(
    "unit/tidegate/schema/test_avro.py::test_number_in_a_union_or_of_another_type_keeps_its_meaning_or_its_version_is_refused",
    "another unit in a union",
    "another unit and a type more",
    "a plain number that became a time in a union",
    "a type more",
    "a whole number that a double rounds",
    "a whole number that a double holds",
    "a whole number beside a text",
    "the same unit in another order",
)
@pytest.mark.parametrize("name", VERSIONS)
def test_value_of_an_older_version_is_what_was_written_or_bad(spark: Any, name: str) -> None:
    first, old, second, new, expected = VERSIONS[name]
    plan = plan_decoding(build_record(second), {1: build_record(first), 2: build_record(second)})
    options = {"reader": plan.reader, "writers": plan.writers, "refused": plan.refused}
    table = decoding.build_stage_table(ValueFormat("avro", options=options), to_columns(parse_schema(plan.reader)))
    (bad, row), (reason, latest) = decoding.decode_values(
        spark, table, [encode_avro(1, build_record(first), old), encode_avro(2, build_record(second), new)]
    )
    assert (reason, latest["id"]) == (None, 2)
    assert latest["x"] is not None
    assert (bad or _convert_to_plain(row["x"])) == expected


@pytest.mark.repeats(
    "unit/tidegate/schema/test_avro.py::test_field_that_the_schema_has_in_two_cases_is_read_as_the_declared_column"
)
def test_field_in_another_case_is_bad_in_older_records_and_beside_the_column_it_is_left_out(spark: Any) -> None:
    """Spark finds neither of two names that differ in case: the job of each batch failed."""

    def build_version(*names: str) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [{"name": name, "type": "string"} for name in names]}

    import fastavro

    old, both, latest = build_version("Name"), build_version("NAME", "name"), build_version("name")
    columns = (Column("name", "STRING"),)
    values = []
    for number, version in enumerate((old, both, latest), 1):
        out = BytesIO()
        fastavro.schemaless_writer(out, version, {field["name"]: field["name"] for field in version["fields"]})
        values.append(b"\x00" + number.to_bytes(4, "big") + out.getvalue())
    reason = (
        "the value has schema id=1, whose field Name is name in the latest version, without an alias for the other case"
    )
    for versions in ([old, both, latest], [old, both, both]):
        plan = plan_decoding(versions[-1], dict(enumerate(versions, 1)), (), {"name"})
        table = decoding.build_stage_table(ValueFormat("avro", options=asdict(plan)), columns)
        rows = decoding.decode_values(spark, table, values[:2])
        assert [(bad, row and row["name"]) for bad, row in rows] == [(reason, None), (None, "name")]


def _convert_to_plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return {name: _convert_to_plain(part) for name, part in value.asDict().items()}
    return f"{value.isoformat()}+00:00" if hasattr(value, "isoformat") else value
