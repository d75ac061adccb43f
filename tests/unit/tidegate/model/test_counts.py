"""Numbers as messages word them."""

import pytest
from tidegate.model.counts import format_span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"), (0.4, "< 1 s"), (1.0, "1 s"), (59.6, "1 min"), (61.0, "1 min 1 s"), (599.0, "9 min 59 s"),
        (2000.0, "33 min"), (3600.0, "1 h"), (4000.0, "1 h 6 min"), (90_000.0, "1 d 1 h"), (1e6, "11 d"),
    ],
)  # fmt: skip
def test_span_has_its_two_largest_units_or_one_that_says_enough(seconds: float, text: str) -> None:
    assert format_span(seconds) == text
