"""Corrupt records of every format on real Spark workers: each is a row or a bad record, and none ends the job."""

from typing import Any

import pytest
from fuzzing import FORMATS, outcome

INPUTS = 2_000  # per format; `python -m fuzzing all N` decodes as many as one likes


@pytest.mark.parametrize("name", FORMATS)
def test_corrupt_record_is_a_row_or_bad_and_takes_no_other_down(spark: Any, name: str, record_property: Any) -> None:
    found = outcome(spark, name, INPUTS)
    record_property("counted", {"corrupt records decoded": INPUTS})
    assert found["records"] == INPUTS
    assert found["rows"] > INPUTS // 20, found
    assert name == "string" or found["bad"] > INPUTS // 20, found
    assert (found["lost"], found["unsaid"]) == (0, 0), found
