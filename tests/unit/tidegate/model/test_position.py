"""The position that is swapped with the rows: it survives properties unchanged, and knows how far time has come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.errors import GiveUp
from tidegate.model.position import Position

OFFSETS = st.dictionaries(
    st.text(min_size=1, max_size=5), st.dictionaries(st.integers(0, 200), st.integers(0, 2**62), min_size=1)
)
POSITIONS = st.builds(
    Position, OFFSETS, st.integers(0, 10**9), st.text(), OFFSETS, st.text(), st.dictionaries(st.text(), st.text())
)


@given(POSITIONS)
def test_position_survives_being_written_to_properties(position: Position) -> None:
    assert Position.from_properties("shop", position.to_properties("shop")) == position


@given(POSITIONS)
def test_properties_are_text_as_every_catalog_stores_them(position: Position) -> None:
    assert all(isinstance(value, str) for value in position.to_properties("shop").values())


def test_same_position_is_written_the_same_whatever_the_order_of_its_partitions() -> None:
    position, same_position = Position({"a": {0: 1}, "b": {1: 2, 10: 3}}), Position({"b": {10: 3, 1: 2}, "a": {0: 1}})
    assert position.to_properties("p") == same_position.to_properties("p")


def test_position_of_another_pipeline_with_a_longer_name_is_not_ours() -> None:
    assert Position.from_properties("shop", Position({"t": {0: 1}}).to_properties("shop.eu")) is None
    assert Position.from_properties("shop.eu", Position({"t": {0: 1}}).to_properties("shop")) is None


def test_two_pipelines_share_the_properties_of_one_table() -> None:
    own_position, other_position = Position({"t": {0: 1}}, batch=1), Position({"t": {0: 9}}, batch=7)
    properties = {**own_position.to_properties("a"), **other_position.to_properties("b")}
    assert Position.from_properties("a", properties) == own_position
    assert Position.from_properties("b", properties) == other_position


def test_valid_through_is_the_slowest_partition() -> None:
    position = Position({"t": {0: 5, 1: 5}}, timestamps={"t": {0: 300, 1: 200}})
    assert position.valid_through_ms == 200
    assert position.to_properties("p")["tidegate.p.valid-through-ts"] == "200"


def test_valid_through_is_unset_while_a_partition_has_shown_no_record() -> None:
    position = Position({"t": {0: 5, 1: 0}}, timestamps={"t": {0: 300}})
    assert position.valid_through_ms is None
    assert position.to_properties("p")["tidegate.p.valid-through-ts"] == ""


def test_timestamp_of_a_partition_that_left_the_position_is_not_counted() -> None:
    assert Position({"t": {0: 5}}, timestamps={"t": {0: 300, 1: 100}}).valid_through_ms == 300


def test_position_without_partitions_is_valid_through_nothing() -> None:
    assert Position({}).valid_through_ms is None


@pytest.mark.parametrize("found", [None, "2"])
def test_position_of_another_format_is_refused(found: str | None) -> None:
    properties = {**Position({"t": {0: 5}}).to_properties("p"), "tidegate.p.format": found or ""}
    with pytest.raises(GiveUp, match=rf"table=l\.t: its position: another .* tidegate\.p\.format={found or 'none'}, "):
        Position.from_properties("p", properties, "l.t")
