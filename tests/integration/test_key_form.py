"""Keys whose bytes change, on real Spark: the run stops before it produces a record under another key."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from schema_registry import SchemaRegistry
from tidegate.errors import GiveUp
from tidegate.jobs.publish_job import REGISTRY_CONF, KeyPart
from tidegate.model.publication_progress import KEY_FORM_HEADER, RunMode
from tidegate_spark.publish import producer
from tidegate_spark.publish.encoders.record_part import RecordPart, WrittenColumn
from tidegate_spark.publish.job import describe_key_form, refuse_other_keys
from tidegate_spark.publish.record_encoding import encode_part

# a column's type, the one that it may become, and the formats in which a key has other bytes then
CHANGES = {
    "INT": ("BIGINT", {"avro", "raw"}),
    "FLOAT": ("DOUBLE", {"json", "csv", "string", "raw", "avro"}),
    "DECIMAL(10,2)": ("DECIMAL(12,2)", {"avro"}),
    "STRUCT<x: INT>": ("STRUCT<x: INT, y: STRING>", {"json", "avro", "protobuf"}),
    "ARRAY<FLOAT>": ("ARRAY<DOUBLE>", {"json"}),
}
VALUES = {"INT": "7", "FLOAT": "0.1F", "DECIMAL(10,2)": "1.5BD", "ARRAY<FLOAT>": "array(0.1F)"}
VALUES["STRUCT<x: INT>"] = "named_struct('x', 1)"
FORMATS = ("json", "csv", "string", "raw", "avro", "protobuf")


def list_formats(kind: str) -> list[str]:
    """The formats to compare: each that treats the type in a way of its own; texts of all formats are made alike."""
    if kind.startswith("DECIMAL"):
        return ["json", "avro"]
    if kind in ("INT", "FLOAT"):  # a registered field of Protobuf refuses the wider column
        return [word for word in FORMATS if word != "protobuf"]
    return ["json", "avro", "protobuf"] if kind.startswith("STRUCT") else ["json"]


@pytest.fixture
def registry_of_session(spark: Any) -> Any:
    registry, name = SchemaRegistry(), REGISTRY_CONF.removeprefix("spark.")
    spark.conf.set(name, json.dumps({part: {"url": registry.url} for part in ("key", "value")}))
    yield registry
    spark.conf.unset(name)
    registry.close()


def test_form_of_a_key_is_another_one_just_where_its_bytes_are(spark: Any, registry_of_session: Any) -> None:
    """All keys are columns of one row, which is encoded once."""
    cells = []
    for n, (kind, (wider, _)) in enumerate(CHANGES.items()):
        wider_value = "named_struct('x', 1, 'y', CAST(NULL AS STRING))" if kind.startswith("STRUCT") else VALUES[kind]
        cells += [f"CAST({VALUES[kind]} AS {kind}) AS before_{n}", f"CAST({wider_value} AS {wider}) AS after_{n}"]
    row = spark.sql(f"SELECT {', '.join(cells)}")
    types = {field.name: field.dataType for field in row.schema}
    forms, encoded = {}, {}
    for n, kind in enumerate(CHANGES):
        for word in list_formats(kind):
            for side in ("before", "after"):  # with a registry the second schema is a version behind the first
                column = WrittenColumn(f"{side}_{n}", types[f"{side}_{n}"], "k")
                part = RecordPart("key", word, {}, (f"t-{word}-{n}",), (column,))
                encoded[kind, word, side] = encode_part(spark, part)
                forms[kind, word, side] = describe_key_form(spark, part)
    aliases = {case: f"key_{number}" for number, case in enumerate(encoded)}
    (keys,) = row.select(*(column.alias(aliases[case]) for case, column in encoded.items())).collect()
    data = {case: bytes(keys[alias]) for case, alias in aliases.items()}
    cases = [(kind, word) for kind in CHANGES for word in list_formats(kind)]
    results = {
        case: (forms[*case, "before"] != forms[*case, "after"], data[*case, "before"] != data[*case, "after"])
        for case in cases
    }
    assert results == {(kind, word): (word in CHANGES[kind][1],) * 2 for kind, word in cases}


@pytest.mark.guard(
    "publication: keys whose bytes would differ from those in the topics are refused",
    file="jobs/tidegate_spark/publish/job.py",
    text="    if earlier_form is None or job.position.mode == RunMode.TOPIC:\n",
    off="    if True:\n",
)
def test_key_of_another_form_is_refused_and_none_that_was_not_noted() -> None:
    parts = (KeyPart(0, None), KeyPart(1, "{}", key_form="k integer"))
    job: Any = SimpleNamespace(publication="out", parts=parts, position=SimpleNamespace(to=5, mode=RunMode.CHANGES))
    refuse_other_keys(job, "k integer")
    with pytest.raises(GiveUp, match=r"key_form=k integer and now key_form=k double.*`tidegate publish out --resync"):
        refuse_other_keys(job, "k double")
    job.position.mode = RunMode.TOPIC
    refuse_other_keys(job, "k double")
    job.position.mode, job.parts = RunMode.CHANGES, (parts[0], replace(parts[1], key_form=""))
    refuse_other_keys(job, "k double")
    assert producer.KEY_FORM_HEADER == KEY_FORM_HEADER
