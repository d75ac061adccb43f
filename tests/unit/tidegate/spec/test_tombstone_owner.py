"""Whose a tombstone is, by what the conditions of a table read."""

from dataclasses import replace
from typing import Any

import pytest
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Route, Table
from tidegate.spec.table_template import TableNaming
from tidegate.spec.tombstone_owner import is_tombstone_owned

ID = (Column("Id", "BIGINT"),)
TABLE = Table("lake.s.t", ("t",), KeyFormat(fields=("Id",), columns=ID), ValueFormat("debezium-avro"), True, True)
METADATA = {"Src": "value.source.table", "at": "timestamp"}


def build_template(field: str) -> TableNaming:
    return TableNaming(f"shop.{{{field}}}", ("shop",), "tidegate_.*")


@pytest.mark.parametrize(
    ("settings", "is_owned"),
    [
        ({}, True),
        ({"when": "ID > 5 AND `at` > now() AND topic = 'a'"}, True),
        ({"when": "src = 'a'"}, False),
        ({"when": "id > 5 OR coalesce(`SRC`, 'a') = 'a'"}, False),
        ({"when": "status = 'Src'"}, False),
        ({"when": "size(array(*)) > 1"}, False),
        ({"when": "topic = 'status src'"}, True),
        ({"route": Route("topic")}, True),
        ({"route": Route("iD", "5")}, True),
        ({"route": Route("SRC")}, False),
        ({"route": Route("SRC.`some kind`")}, False),
        ({"route": Route("topic"), "when": "status = 1"}, False),
        ({"naming": build_template("topic")}, True),
        ({"naming": build_template("src")}, False),
        ({"value": ValueFormat("debezium-avro", options={"ignored_records": ["a.B"]})}, False),
        ({"value": ValueFormat("debezium-avro", options={"other_ids": [7]})}, False),
    ],
)
def test_tombstone_is_owned_where_it_shows_all_that_is_read(settings: dict[str, Any], is_owned: bool) -> None:
    table = replace(TABLE, **settings)
    assert is_tombstone_owned(table, ["Id", "Status"], ["Id"], METADATA) == is_owned


def test_key_of_a_record_type_says_whose_a_tombstone_is() -> None:
    options = {"ignored_records": ["a.B"]}
    table = replace(TABLE, value=ValueFormat("debezium-avro", options=options), key=KeyFormat("avro", options=options))
    assert is_tombstone_owned(table, ["Id"], ["Id"], {})


def test_value_that_only_shares_a_name_with_the_key_is_not_shown() -> None:
    assert not is_tombstone_owned(replace(TABLE, when="Id > 5"), ["Id"], ["k_Id"], {})
