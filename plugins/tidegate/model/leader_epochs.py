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
    epoch_starts: list[tuple[int, int]] = []
    at = start
    while at < end:
        record = look(at)
        if record is None or record[1] is None:
            return epoch_starts
        epoch_starts.append((at, record[1]))
        at = _find_next_epoch_offset(look, at, end, record[1])
    return epoch_starts


def _find_next_epoch_offset(look: EpochLookup, start: int, end: int, epoch: int) -> int:
    """The smallest offset whose next record is of another epoch, `end` without one."""
    same_end = start
    other_end = end
    probe = end - 1  # most ranges are of one epoch: looked at first, the last record ends the search
    while other_end - same_end > 1:
        record = look(probe)
        if record is not None and record[1] == epoch:
            same_end = max(probe, min(record[0], end - 1))
        else:
            other_end = probe
        probe = (same_end + other_end) // 2
    return other_end
