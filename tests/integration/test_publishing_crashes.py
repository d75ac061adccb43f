"""Producers of a publication that are killed or stopped between any two calls: no change twice, none lost.

A covering part of the calls; all of them: ``make test-crash``.
"""

from collections import Counter

import pytest
from crash.publishing import KEYS, each_once, walked


@pytest.mark.parametrize(("fault", "step"), [("SIGKILL", 7), ("SIGSTOP", 17)])
def test_exactly_once_reader_sees_each_change_once_whatever_is_killed_or_wakes_up_late(
    workbench, fault: str, step: int, record_property
) -> None:
    told, records = walked(workbench, "exactly-once", fault, step)
    assert Counter(records) == each_once(told)
    for key in KEYS:
        assert [value for k, value in records if k == key] == [str(s) for s in range(told["snapshots"])]
    record_property("counted", {"crash cases on real components": told["cases"]})


def test_at_least_once_reader_misses_no_change_and_ends_with_the_last(workbench, record_property) -> None:
    told, records = walked(workbench, "at-least-once", "SIGKILL", 17)
    assert set(each_once(told)) <= set(records)
    last = {key: value for key, value in dict(records).items() if key != "now"}
    assert last == dict.fromkeys(KEYS, str(told["snapshots"] - 1))
    record_property("counted", {"crash cases on real components": told["cases"]})
