"""What Debezium has sent from a MariaDB, decoded on real Spark: each type in each mode, and what the connector lost."""

from typing import Any

import mariadb_types
import pytest
from decoding import build_stage_table, decode, decode_values
from mariadb_types import KINDS, MODES
from tidegate.schema.data_types import Column
from tidegate.spec.source import ValueFormat

ROW_IDS = {"1": 0, "2": 1, "3": 2, "11": 0}  # id of the row: which of the values it holds


@pytest.fixture(scope="module")
def records() -> dict[str, dict[str, Any]]:
    return mariadb_types.load_records()


def convert_to_plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    return (
        {name: convert_to_plain(part) for name, part in value.asDict().items()} if hasattr(value, "asDict") else value
    )


@pytest.mark.repeats(
    "test_each_type_lands_as_it_was_sent_and_a_wrong_unit_is_not_for_what_states_its_own[defaults]",
    "microseconds",
    "connect",
    "plain",
)
@pytest.mark.parametrize("name", MODES)
def test_each_type_lands_as_it_was_sent_and_a_wrong_unit_is_not_for_what_states_its_own(
    spark: Any, records: dict[str, dict[str, Any]], name: str
) -> None:
    mode = MODES[name]
    columns = tuple(Column(kind, mode.columns.get(kind, KINDS[kind].column)) for kind in KINDS)
    value = ValueFormat("debezium-json", timestamp_unit="millis", options=mode.options)
    sent = records[name]["kinds"]
    decoded = decode_values(spark, build_stage_table(value, columns), [sent[id][1].encode() for id in ROW_IDS])
    expected = {kind: mode.lost.get(kind, (*KINDS[kind].stored, None)) for kind in KINDS}
    for (id, index), (reason, row) in zip(ROW_IDS.items(), decoded, strict=True):
        assert reason is None
        landed = {kind: convert_to_plain(row[kind]) for kind in KINDS}
        wrong = {kind: (landed[kind], expected[kind][index]) for kind in KINDS if landed[kind] != expected[kind][index]}
        assert wrong == {}, f"row {id}"


def test_keys_are_read_by_the_schema_around_them(spark: Any, records: dict[str, dict[str, Any]]) -> None:
    value = ValueFormat("debezium-json", timestamp_unit="millis")

    def read_keys(kind: str, **tables: str) -> dict[str, set[tuple[str | None, str | None]]]:
        """By mode, the keys of its table; all are decoded at once."""
        stage = build_stage_table(value, (Column("v", "INT"),), (Column("id", kind),))
        sent = [(mode, *pair) for mode, table in tables.items() for pair in records[mode][table]]
        pairs = [(key.encode(), event.encode()) for _, key, event in sent]
        decoded = decode(spark, stage, pairs, "key_reason", "CAST(key_struct.id AS STRING)")
        return {mode: {row for (of, *_), row in zip(sent, decoded, strict=True) if of == mode} for mode in tables}

    unsigned = {(None, "2"), (None, "18446744073709551615")}
    # keys have their schema where values have none
    assert read_keys("DECIMAL(20,0)", defaults="dkey", connect="ukey", plain="ukey") == dict.fromkeys(
        ("defaults", "connect", "plain"), unsigned
    )
    exact = {(None, "2026-01-01 00:00:00.123456")}
    assert read_keys("TIMESTAMP_NTZ", **dict.fromkeys(MODES, "tkey")) == {
        **dict.fromkeys(MODES, exact), "connect": {(None, "2026-01-01 00:00:00.123")},
    }  # fmt: skip
