"""How the table came past a record: by history, and by the snapshots that are left."""

from typing import Any

import pytest
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import CarriedPosition, SnapshotLine
from tidegate.reprocess.explained_key import Passage
from tidegate.reprocess.key_records import _find_passed, _read_letter

PUBLISHED, EXPIRED, GONE, MOVED = Passage.PUBLISHED, Passage.EXPIRED, Passage.ROLLED_BACK, Passage.MOVED


def carry(snapshot_id: int, first: int, second: int, *, is_batch: bool = True, attempt: str = "") -> CarriedPosition:
    """A position of two partitions."""
    return CarriedPosition(
        snapshot_id=snapshot_id, at_ms=snapshot_id, batch=1, staged_attempt=attempt,
        offsets={"T": {0: first, 1: second}}, is_batch=is_batch,
    )  # fmt: skip


def build_line(*positions: CarriedPosition, gone: tuple[int, ...] = ()) -> SnapshotLine:
    return SnapshotLine(positions, frozenset(gone), frozenset(position.snapshot_id for position in positions))


HISTORY: list[tuple[Any, Ranges]] = [
    (
        {
            "attempt": attempt,
            "run": f"dag {attempt}",
            "backfill": None,
            "snapshot_id": snapshot_id,
            "published_at_ms": snapshot_id,
            "batch": 1,
        },
        Ranges({"T": spans}),
    )
    for attempt, snapshot_id, spans in (("a", 10, {0: (0, 5), 1: (0, 2)}), ("b", 20, {0: (5, 9)}))
]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "first", "second"),
    [
        (build_line(carry(10, 5, 2, attempt="a"), carry(20, 9, 2, attempt="b")), [PUBLISHED], [PUBLISHED]),
        (build_line(carry(10, 5, 2, attempt="a"), gone=(20,)), [PUBLISHED], [GONE]),
        # both have expired: the second may have been rolled back before
        (build_line(carry(30, 9, 9, attempt="c")), [EXPIRED], [EXPIRED]),
        # it was: the position was moved past its offsets
        (build_line(carry(10, 5, 2, attempt="a"), carry(25, 9, 2, is_batch=False)), [PUBLISHED], [EXPIRED, MOVED]),
        # the batch is known by the position of another snapshot that carries its attempt
        (build_line(carry(10, 5, 2, attempt="a"), carry(21, 9, 2, attempt="b")), [PUBLISHED], [PUBLISHED]),
    ],
)
def test_batch_whose_snapshot_is_neither_there_nor_known_may_have_been_rolled_back(
    line: SnapshotLine, first: list[Passage], second: list[Passage]
) -> None:
    for place, ways in ((("T", 0, 4), first), (("T", 0, 5), second), (("T", 1, 1), first), (("T", 1, 2), [])):
        found = list(_find_passed(HISTORY, line, place))
        assert [passed.how for passed in found] == ways, place
        known = [passed for passed in found if passed.attempt]
        assert all(passed.run == f"dag {passed.attempt}" for passed in known), place


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({"stage": "value", "over_at_ms": None}, "waiting"),
        ({"stage": "value", "over_at_ms": 1, "replayed_by": "a"}, "replayed"),
        ({"stage": "discarded", "over_at_ms": 1, "replayed_by": None}, "discarded"),
        ({"stage": "value", "over_at_ms": 1, "replayed_by": None}, "read again"),
    ],
)
def test_letter_that_is_over_says_why(facts: dict[str, Any], state: str) -> None:
    letter = _read_letter({"reason": "bad", **facts})
    assert letter is not None
    assert letter.state == state
