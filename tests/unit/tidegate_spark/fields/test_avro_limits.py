"""Which Spark servers decode Avro with limits, and what is asked of those without."""

from dataclasses import replace
from typing import Any

import pytest
from decoding import build_stage_table
from tidegate.jobs.stage_job import StageJob
from tidegate.model.offsets import Ranges
from tidegate.schema.avro_limits import AVRO_LIMITS, JAVA_OPTIONS, add_limits, has_limits
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate_spark.fields.avro import LENGTH_CHECK_OPTION, guard_lengths
from tidegate_spark.fields.avro_lengths import compile_skip, fits_schema

JVM_OPTIONS = " ".join(f"-D{name}={value}" for name, value in AVRO_LIMITS.items())
DRIVER, EXECUTOR = JAVA_OPTIONS


class Server:
    """A session's configuration, as far as it is asked."""

    def __init__(self, **settings: str) -> None:
        self.conf = settings


def build_job(**formats: Any) -> StageJob:
    table = replace(
        build_stage_table(ValueFormat(formats.get("value", "avro")), ()), key=KeyFormat(formats.get("key", "json"))
    )
    return StageJob("p", 1, Ranges({}), "read_committed", (table, table), finder=table)


@pytest.mark.parametrize("missing", AVRO_LIMITS)
def test_server_has_limits_only_with_all_of_them(missing: str) -> None:
    assert has_limits(JVM_OPTIONS)
    assert not has_limits(JVM_OPTIONS.replace(missing, "x"))


def test_submitted_jobs_get_the_limits_and_keep_what_the_user_states() -> None:
    own = "-Xss4m -Dorg.apache.avro.limits.bytes.maxLength=7"
    conf = add_limits({DRIVER: own, "a": "b"})
    assert conf["a"] == "b"
    assert conf[DRIVER].startswith(own)
    assert conf[DRIVER].count("bytes.maxLength") == 1
    assert conf[EXECUTOR] == JVM_OPTIONS


@pytest.mark.parametrize(("settings", "is_checked"), [
    ({"spark.master": "local[2]", DRIVER: JVM_OPTIONS}, False),
    ({"spark.master": "local[2]", EXECUTOR: JVM_OPTIONS}, True),
    ({"spark.master": "spark://h:1", DRIVER: JVM_OPTIONS}, True),
    ({"spark.master": "spark://h:1", EXECUTOR: JVM_OPTIONS}, False),
    ({}, True),
])  # fmt: skip
def test_records_are_checked_before_decoding_where_the_decoding_jvm_has_no_limits(
    settings: dict[str, str], is_checked: bool
) -> None:
    job = guard_lengths(Server(**settings), build_job(key="avro"))
    tables = [*job.tables, job.finder]
    assert [bool(t.value.options.get(LENGTH_CHECK_OPTION)) for t in tables if t] == [is_checked] * 3
    assert [bool(t.key.options.get(LENGTH_CHECK_OPTION)) for t in tables if t] == [is_checked] * 3


def test_formats_without_avro_are_never_checked() -> None:
    job = build_job(value="json")
    assert guard_lengths(Server(), job) is job


def test_whole_records_of_every_type_fit_and_cut_ones_do_not() -> None:
    from io import BytesIO

    import fastavro

    fields = {
        "a": {"type": "array", "items": ["null", "string"]}, "m": {"type": "map", "values": "double"},
        "f": {"type": "fixed", "name": "F", "size": 3}, "g": "F", "e": {"type": "enum", "name": "E", "symbols": ["x"]},
        "r": {"type": "record", "name": "I", "fields": [{"name": "b", "type": "bytes"}]}, "s": "I",
        "n": ["null", "long"], "t": "float", "u": "boolean",
    }  # fmt: skip
    schema = {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    row = {
        "a": ["x", None], "m": {"k": 1.5}, "f": b"abc", "g": b"abc", "e": "x", "r": {"b": b"12"}, "s": {"b": b""},
        "n": -(2**63), "t": 0.5, "u": True,
    }  # fmt: skip
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, schema, row)
    walks = {"": compile_skip(schema)}
    assert fits_schema(buffer.getvalue(), walks)
    assert not any(fits_schema(buffer.getvalue()[:end], walks) for end in range(len(buffer.getvalue())))
    framed = {"5": walks[""]}
    assert fits_schema(b"\0\0\0\0\5" + buffer.getvalue(), framed)
    assert not fits_schema(b"\0\0\0\0\6" + buffer.getvalue(), framed)
