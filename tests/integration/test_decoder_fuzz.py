"""Corrupt records of every format on real Spark workers: each is a row or a bad record, and none ends the job."""

from typing import Any

import pytest
from fuzz_seeds import build_key_seeds, build_option_seeds
from fuzzing import FORMATS, count_outcomes

INPUTS = 1_000  # per format; `python -m fuzzing all N` decodes as many as one likes
# formats in which a value may be a delete, or change nothing; in others only a record without one is
DELETING = ("debezium-json", "debezium-avro", "debezium-json schema", "mongodb", "canal-json", "maxwell-json",
            "ogg-json", "json envelope")  # fmt: skip
FEWER_INPUTS = 500  # for keys, and for other ways to read a format
MIN_SHARE = 50  # at least one record of so many is a row, and one is bad: the seeds meet both ways


# the same decoder, below another envelope or in the key
@pytest.mark.repeats(
    "test_corrupt_record_is_a_row_or_bad_and_takes_no_other_down[json]",
    "json-schema",
    "json envelope",
    "json-schema logical",
    "json lenient",
    "json hex",
    "json extended",
    "debezium-json",
    "mongodb",
    "canal-json",
    "maxwell-json",
    "ogg-json",
    "debezium-json schema",
)
@pytest.mark.repeats("test_corrupt_record_is_a_row_or_bad_and_takes_no_other_down[avro]", "debezium-avro", "key avro")
@pytest.mark.repeats("test_corrupt_record_is_a_row_or_bad_and_takes_no_other_down[protobuf]", "key protobuf")
@pytest.mark.repeats(
    "test_corrupt_record_is_a_row_or_bad_and_takes_no_other_down[key json]",
    "key json bare",
    "key json text",
    "key json lenient",
    "key json-schema",
    "key extended",
)
@pytest.mark.repeats(
    "integration/test_values.py::test_value_is_what_was_written_or_its_record_is_bad[csv]", "csv", "csv hex", "key csv"
)
@pytest.mark.repeats(
    "integration/test_values.py::test_value_is_what_was_written_or_its_record_is_bad[msgpack]",
    "msgpack",
    "msgpack as json",
    "key msgpack",
)
@pytest.mark.repeats(
    "integration/test_values.py::test_whole_key_or_value_is_what_was_written_or_its_record_is_bad[string-value]",
    "string",
    "string number",
    "key string",
)
@pytest.mark.repeats(
    "integration/test_values.py::test_whole_key_or_value_is_what_was_written_or_its_record_is_bad[raw-key]",
    "raw",
    "raw double",
    "key raw",
)
@pytest.mark.parametrize("name", FORMATS)
def test_corrupt_record_is_a_row_or_bad_and_takes_no_other_down(
    compiling_spark: Any, name: str, record_property: Any
) -> None:
    """In generated code, which every format has here: other tests of decoding evaluate as small batches do."""
    inputs = FEWER_INPUTS if name in {*build_key_seeds(), *build_option_seeds()} else INPUTS
    outcomes = count_outcomes(compiling_spark, name, inputs)
    record_property("counted", {"corrupt records decoded": inputs})
    assert outcomes["records"] == inputs
    assert outcomes["rows"] > inputs // MIN_SHARE, outcomes
    assert name == "string" or outcomes["bad"] > inputs // MIN_SHARE, outcomes
    assert (outcomes["lost"], outcomes["unsaid"]) == (0, 0), outcomes
    assert name in DELETING or outcomes["rows"] + outcomes["bad"] == inputs, outcomes
