"""What a publication writes of a row tells all of it, on real Spark: keys of maps, blanks, bytes, NUL."""

import csv
import io
import json
import random
from types import SimpleNamespace
from typing import Any

import decoding
import pytest
from pyspark.sql import functions as F  # noqa: N812 (the name that every Spark user knows)
from tidegate.errors import ConfigurationError
from tidegate.schema.column import Column
from tidegate.spec.formats import ValueFormat
from tidegate.spec.publication import KeyOut, MetadataOut, ValueOut
from tidegate_spark.publish.encoders.record_part import RecordPart, WrittenColumn
from tidegate_spark.publish.encoders.registry import encode_part
from tidegate_spark.publish.record_encoding import encode_rows

SEED, MADE = 5, 300
SIGNS = ["a", '"', ",", "\0", "#", " ", "\n", "\r", "\\", "'", "\t", "é", "\ufeff", "😀", "\x7f", "\u2028"]
TEXTS = [" a ", "a ", "\0x", "\t", " ", "#x", 'a"b', "\n", "x\\", '\0"', '\\"', "  \n "]


def written(spark: Any, rows: Any, word: str, options: dict[str, Any] | None = None) -> list[bytes]:
    columns = tuple(WrittenColumn(f.name, f.dataType, f.name) for f in rows.schema if f.name != "n")
    part = RecordPart("value", word, options or {}, ("t",), columns)
    names = [F.col("n")] if "n" in rows.columns else []
    made = rows.select(*names, encode_part(spark, part).alias("value")).collect()
    return [bytes(row["value"]) for row in sorted(made, key=lambda row: row["n"] if names else 0)]


def list_texts() -> list[str]:
    chance = random.Random(SEED)
    return [*TEXTS, *("".join(chance.choices(SIGNS, k=chance.randint(1, 4))) for _ in range(MADE))]


@pytest.mark.parametrize("escape", [None, "\\"])
def test_csv_that_others_quote_keeps_every_character(spark: Any, escape: str | None) -> None:
    texts = [text for text in list_texts() if escape is None or "\\" not in text]
    columns, options = (Column("a", "STRING"), Column("b", "STRING")), {"null_literal": "NULL", "escape": escape}
    lines = [f'"{text.replace(chr(34), (escape or chr(34)) + chr(34))}",x'.encode() for text in texts]
    found = decoding.values(spark, decoding.a_stage(ValueFormat("csv", options=options), columns), lines)
    assert [(reason, tuple(row)) for reason, row in found] == [(None, (text, "x")) for text in texts]
