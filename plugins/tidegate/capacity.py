"""How much of the log one batch takes: the end of each range under a cap on records."""

from tidegate.offsets import Offsets, Ranges, merged, offset_of, pairs


def capped(start: Offsets, end: Offsets, max_records: int) -> Ranges:
    """Ranges from `start` towards `end` with a span of at most `max_records`.

    Small backlogs are taken whole, and large ones share what is left evenly, so that no partition starves.
    """
    backlog = {(t, p): (offset_of(end, t, p) or o) - o for t, p, o in pairs(start)}
    left, takes = max_records, {}
    waiting = sorted(backlog, key=lambda tp: (backlog[tp], tp))
    for position, partition in enumerate(waiting):
        takes[partition] = min(backlog[partition], left // (len(waiting) - position))
        left -= takes[partition]
    stop = {t: {p: o + takes[t, p] for p, o in parts.items()} for t, parts in start.items()}
    return Ranges.between(start, merged(start, stop))
