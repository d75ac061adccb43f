"""Which leader wrote a record: the few offsets of a range at which the leader's epoch changes, found by looking."""

from collections.abc import Callable

# partition -> (first offset, epoch), ascending
Epochs = dict[str, dict[int, list[tuple[int, int]]]]
# the first record at or after an offset as (offset, epoch), None where none comes before the range's end
EpochLookup = Callable[[int], tuple[int, int | None] | None]


def find_epoch_starts(look: EpochLookup, start: int, end: int) -> list[tuple[int, int]]:
    """Where in ``[start, end)`` each epoch begins; empty where the broker keeps none.

    Epochs only grow with the offset, so two looks are enough for a range of one epoch, and some twenty more find each
    change in a million records.
    """
    found: list[tuple[int, int]] = []
    at = start
    while at < end:
        seen = look(at)
        if seen is None or seen[1] is None:
            return found
        found.append((at, seen[1]))
        at = _find_next_epoch_offset(look, at, end, seen[1])
    return found


def _find_next_epoch_offset(look: EpochLookup, start: int, end: int, epoch: int) -> int:
    """The smallest offset whose next record is of another epoch, `end` without one."""
    same, other = start, end
    probe = end - 1  # most ranges are of one epoch: looked at first, the last record ends the search
    while other - same > 1:
        seen = look(probe)
        if seen is not None and seen[1] == epoch:
            same = max(probe, min(seen[0], end - 1))
        else:
            other = probe
        probe = (same + other) // 2
    return other
