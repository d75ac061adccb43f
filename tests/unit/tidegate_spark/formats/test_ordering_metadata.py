"""Metadata by which records are ordered are looked at under whatever name `select` gives to them."""

from dataclasses import replace
from typing import Any

import decoding
import pytest
from tidegate.schema.data_types import Column
from tidegate.spec.projection import Projection, Selected
from tidegate.spec.source import ValueFormat
from tidegate_spark.formats.decoded import DecodedValue
from tidegate_spark.stage.value import render_unkept_reason

ID = Column("id", "INT")
METADATA = {"f": "value.source.file", "p": "value.source.pos"}


def render_order(*selected_columns: Selected) -> Any:
    stage = replace(decoding.build_stage_table(ValueFormat("debezium-json"), (ID,), (ID,)), metadata=METADATA)
    select = Projection("SELECT … FROM record", "record", selected_columns, (("id", "id"),))
    return replace(stage, select=select, sequence=tuple(column.name for column in selected_columns))


@pytest.fixture
def decoded_value() -> DecodedValue:
    texts = {"source.file": "its_file", "source.pos": "its_place"}
    return DecodedValue(
        records=None,  # type: ignore[arg-type]
        columns={}, reason="NULL", key="k", key_reason="NULL", key_presence="true", metadata=texts,
        lossy_metadata={"source.pos": "is_unkept"},
    )  # fmt: skip


def test_file_under_another_name_is_looked_at(decoded_value: DecodedValue) -> None:
    renamed_column = Selected("place", "record.`F`", "STRING", reads=("F",))
    assert "its_file RLIKE" in render_unkept_reason(decoded_value, render_order(renamed_column))


def test_number_that_is_made_of_the_file_orders_and_the_file_may_be_as_long_as_it_likes(
    decoded_value: DecodedValue,
) -> None:
    computed_column = Selected(
        "place", "CAST(substring_index(f, '.', -1) AS BIGINT)", "BIGINT", is_computed=True, reads=("f",)
    )
    assert "its_file RLIKE" not in render_unkept_reason(decoded_value, render_order(computed_column))


@pytest.mark.parametrize("is_computed", [True, False])
def test_delete_needs_metadata_of_which_its_sequence_is_made(decoded_value: DecodedValue, is_computed: bool) -> None:
    computed_column = Selected("place", "abs(P)", "BIGINT", is_computed=is_computed, reads=("P",))
    assert "WHEN change NOT IN ('-') AND is_unkept" in render_unkept_reason(
        decoded_value, render_order(computed_column)
    )
