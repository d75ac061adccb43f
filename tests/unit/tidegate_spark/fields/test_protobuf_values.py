"""Each value of a Protobuf message is what was written, or its record is bad: every type and edge, as Spark's workers
decode them in batches of Arrow."""

from typing import Any

import pyarrow as pa
import pytest
import value_cases
from protobuf_schemas import build_options_of_type, encode_case, list_types
from tidegate_spark.fields.protobuf import build_decoder
from value_cases import BAD


@pytest.mark.parametrize("kind", list_types())
def test_value_is_what_was_written_or_its_record_is_bad(kind: str) -> None:
    cases = [case for case in value_cases.PROTOBUF if case.type == kind]
    decode = build_decoder(build_options_of_type(kind), "value")
    decoded = decode(pa.array([encode_case(case) for case in cases], pa.binary())).to_pylist()
    values = [BAD if record["reason"] else convert_to_case(record["row"]["v"], kind) for record in decoded]
    wrong = [(case, value) for case, value in zip(cases, values, strict=True) if str(case.value) != str(value)]
    assert wrong == []


def convert_to_case(value: Any, kind: str) -> Any:
    """A value from Arrow as cases have it."""
    if value is not None and kind.startswith("map<"):
        return dict(value)
    return tuple(value.values()) if isinstance(value, dict) else value
