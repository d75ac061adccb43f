"""A dead letter is read out of a row of its table."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tidegate.model.table_state import DeadLetter, WaitingLetter

AT = datetime(2026, 1, 1, tzinfo=UTC)
ROW: dict[str, Any] = {
    **{"topic": "orders", "partition": 1, "offset": 7, "timestamp": AT, "key": b"k", "value": None},
    "headers": [{"key": "trace", "value": b"\xff"}, {"key": "empty", "value": None}],
    **{"stage": "value", "error_class": "unreadable", "message": "id is no INT", "batch": 3, "attempt": "a1"},
    **{"table": "lake.shop.orders", "written_at": AT, "replayed_at": None, "topic_id": None},
}


def test_row_may_tell_no_id_of_its_topic() -> None:
    letter = DeadLetter.from_row(ROW)
    assert (letter.table, letter.topic, letter.partition, letter.offset) == ("lake.shop.orders", "orders", 1, 7)
    assert letter.headers == (("trace", b"\xff"), ("empty", None))
    assert letter.place == WaitingLetter("orders", 1, 7, None, "id is no INT", AT)


@pytest.mark.parametrize("headers", [None, []])  # BigQuery has no array that is NULL
def test_record_without_headers_has_none(headers: Any) -> None:
    assert DeadLetter.from_row({**ROW, "headers": headers}).headers == ()


def test_column_that_another_program_has_added_is_passed_over() -> None:
    letter = DeadLetter.from_row({**ROW, "topic_id": "t-1", "seen_by": "ops"})
    assert (letter.topic_id, letter.place.topic_id) == ("t-1", "t-1")
