"""Keys whose bytes change, on real Spark: told before anything is produced under another key."""

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
from tidegate_spark.publish.encoders.registry import encode_part
from tidegate_spark.publish.key_form import describe_key_form, refuse_other_keys

# a column's type, the one that it may become, and the formats in which a key has other bytes then
CHANGES = {
    "INT": ("BIGINT", {"avro", "raw"}),
    "FLOAT": ("DOUBLE", {"json", "csv", "string", "raw", "avro"}),
    "DECIMAL(10,2)": ("DECIMAL(12,2)", {"avro"}),
    "STRUCT<x: INT>": ("STRUCT<x: INT, y: STRING>", {"json", "avro", "protobuf"}),
    "ARRAY<FLOAT>": ("ARRAY<DOUBLE>", {"json", "avro"}),
}
VALUES = {"INT": "7", "FLOAT": "0.1F", "DECIMAL(10,2)": "1.5BD", "ARRAY<FLOAT>": "array(0.1F)"}
VALUES["STRUCT<x: INT>"] = "named_struct('x', 1)"
FORMATS = ("json", "csv", "string", "raw", "avro", "protobuf")


def list_formats(kind: str) -> list[str]:
    """Those that have a form for the type, before the change and behind it."""
    if kind.startswith("DECIMAL"):
        return [word for word in FORMATS if word not in ("raw", "protobuf")]
    if kind in ("INT", "FLOAT"):  # a registered field of Protobuf refuses the wider column
        return [word for word in FORMATS if word != "protobuf"]
    return ["json", "avro", "protobuf"] if kind.startswith("STRUCT") else ["json", "avro"]


@pytest.fixture
def registry_of_session(spark: Any) -> Any:
    registry, name = SchemaRegistry(), REGISTRY_CONF.removeprefix("spark.")
    spark.conf.set(name, json.dumps({part: {"url": registry.url} for part in ("key", "value")}))
    yield registry
    spark.conf.unset(name)
    registry.close()


@pytest.mark.parametrize("kind", CHANGES)
def test_form_of_a_key_is_another_one_just_where_its_bytes_are(spark: Any, registry_of_session: Any, kind: str) -> None:
    wider, changed = CHANGES[kind]
    added = "named_struct('x', 1, 'y', CAST(NULL AS STRING))" if kind.startswith("STRUCT") else VALUES[kind]
    found = {}
    for word in list_formats(kind):
        both = []
        for sql, type_name in ((VALUES[kind], kind), (added, wider)):
            rows = spark.sql(f"SELECT CAST({sql} AS {type_name}) AS k")
            part = RecordPart("key", word, {}, (f"t-{word}",), (WrittenColumn("k", rows.schema["k"].dataType, "k"),))
            data = bytes(rows.select(encode_part(spark, part).alias("key")).collect()[0]["key"])
            both.append((describe_key_form(spark, part), data))
        (form, data), (other_form, other_data) = both
        found[word] = (form != other_form, data != other_data)
    assert found == {word: (word in changed, word in changed) for word in list_formats(kind)}


def test_key_of_another_form_is_refused_and_none_that_was_not_noted() -> None:
    parts = (KeyPart(0, None), KeyPart(1, "{}", key_form="k integer"))
    job: Any = SimpleNamespace(publication="out", parts=parts, position=SimpleNamespace(to=5, mode=RunMode.CHANGES))
    refuse_other_keys(job, "k integer")
    with pytest.raises(
        GiveUp, match=r"key_form=k integer and now key_form=k double.*`bin/tidegate publish out --resync"
    ):
        refuse_other_keys(job, "k double")
    job.position.mode = RunMode.TOPIC
    refuse_other_keys(job, "k double")
    job.position.mode, job.parts = RunMode.CHANGES, (parts[0], replace(parts[1], key_form=""))
    refuse_other_keys(job, "k double")
    assert producer.KEY_FORM_HEADER == KEY_FORM_HEADER
