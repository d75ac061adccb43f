"""A JSON key with one field, on real Spark: reading it from its text gives the same value as the parser."""

import itertools
import random

import decoding
import pytest
from tidegate.schema.data_types import Column
from tidegate.spec.source import ValueFormat
from tidegate_spark.fields.json.keys import render_plain_key

# the column's name, its type, and texts that are read off
PLAIN = {
    ("id", "BIGINT"): [
        '{"id": 5}', '{"id":5}', "5", "-5", "0", "9223372036854775807", '{"id":-9223372036854775808 }',
    ],
    ("id", "INT"): ['{"id": 5}', "2147483647", '{"id":-1}'],
    ("id", "STRING"): ['{"id": "a-7"}', '{"id":"a"}', '"a b"', '""', '{"id":""}', '" "', '{"id": "}{[],:"}'],
    ("größe", "BIGINT"): ['{"gr\\u00f6\\u00dfe": 5}', "5"],
    ('a"b', "STRING"): ['{"a\\"b": "x"}'],
}  # fmt: skip
# texts that are no such key, or are spelled so that only a parser can tell
PARSED = {
    "BIGINT": [
        "05", "+5", "-0", "5.0", "5e0", " 5", "5 ", '"5"', '{"id": 05}', '{"id": "5"}', '{ "id": 5}', ' {"id":5}',
        '{"id": 5, "id": 6}', '{"id": 5}{"id": 6}', '{"id": 5}}', '{"id": 5', '{"id": }', '{"id":}', "{}", "{", "",
        '{"id": null}', "null", "true", '{"ID": 5}', '{"x": 1, "id": 5}', '{"id": 5, "x": 1}', "[5]", "5L", "٣",
        "9223372036854775808", '{"id": 9223372036854775808}', '{"payload": {"id": 5}}', '{"id": {"id": 5}}',
        "5\n", '{"id": 5\n}', '{"id": 5}\n',
    ],
    "INT": ["2147483648", '{"id": 2147483648}', "5.0", '"5"'],
    "STRING": [
        r'"a\u0041"', r'{"id": "a\"b"}', '"a\tb"', "5", '{"id": 5}', "true", "abc", '"a', 'a"', '"', '"a","b"', "'a'",
        '{"id": "a", "b": "c"}', '{"id": ["a"]}', '{"id": {"id": "a"}}', '{"id": null}', '"a" "b"', '"\x7f"', '"é"',
        '"a"\n', '"a"\r\n', '{"id": "a"\n}', '{"id":"a"\r}', '{"id": "a"}\n', '"a"\u2028', '"a"\x85',
    ],
}  # fmt: skip
SEED, RANDOM_TEXTS = 7, 500


def decode_keys(spark, texts: list[bytes], type: str, name: str = "id") -> list[tuple[object, str | None]]:
    table = decoding.build_stage_table(
        ValueFormat("json"), (Column("x", "INT"),), (Column(name, type, nullable=False),)
    )
    return decoding.decode_keys(spark, table, texts)


def decode_keys_by_parser(spark, texts: list[bytes], type: str, name: str = "id") -> list[tuple[object, str | None]]:
    """The same without the short way."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tidegate_spark.formats.json.render_plain_key", lambda *_: None)
        return decode_keys(spark, texts, type, name)


def read_plain_keys(spark, texts: list[str], type: str, name: str) -> list[object]:
    frame = spark.createDataFrame(list(enumerate(texts)), "n INT, text STRING")
    rows = frame.selectExpr("n", f"{render_plain_key((Column(name, type),), 'text')} AS plain").collect()
    return [row["plain"] for row in sorted(rows, key=lambda row: row["n"])]


def list_random_texts() -> list[bytes]:
    """Pairs and longer rows of pieces that a key may have."""
    pieces = [
        b'{"id":', b'"id"', b"{", b"}", b'"', b":", b",", b" ", b"\t", b"\n", b"\r", b"\\", b"5", b"0", b"-", b".",
        b"e", b"null", b"a", b"'", b"\xff", b"\xc3\xa9", b"\x00", b"2147483648", b'{"id": 5}', b'"a"', b"[", b"]",
    ]  # fmt: skip
    chance = random.Random(SEED)
    pairs = [b"".join(pair) for pair in itertools.product(pieces, repeat=2)]
    longer = [b"".join(chance.choices(pieces, k=chance.randint(3, 6))) for _ in range(RANDOM_TEXTS)]
    objects = [b'{"id":' + b"".join(chance.choices(pieces, k=chance.randint(1, 3))) + b"}" for _ in range(RANDOM_TEXTS)]
    return [*pairs, *longer, *objects]


@pytest.mark.guard(
    "a number is a plain key only if it is spelled as Spark writes it",
    file="jobs/tidegate_spark/fields/json/keys.py",
    text="CASE WHEN CAST({number} AS STRING) = {inside} THEN {number} END",
    off="{number}",
    case="id-BIGINT",
)
@pytest.mark.repeats(
    "test_usual_spelling_is_read_off_and_any_text_is_what_the_parser_makes_of_it[id-BIGINT]",
    "id-SMALLINT",
    "id-INT",
    "id-STRING",
    "gr\\xf6\\xdfe-BIGINT",
    'a"b-STRING',
)
@pytest.mark.parametrize(("name", "type"), [("id", "BIGINT"), ("id", "INT"), ("id", "STRING"), ("id", "SMALLINT"),
                                            ("größe", "BIGINT"), ('a"b', "STRING")])  # fmt: skip
def test_usual_spelling_is_read_off_and_any_text_is_what_the_parser_makes_of_it(spark, name: str, type: str) -> None:
    plain = PLAIN.get((name, type), [])
    parsed = PARSED.get(type, []) if name == "id" else []
    values = read_plain_keys(spark, [*plain, *parsed], type, name) if plain else []
    assert [text for text, value in zip(plain, values, strict=False) if value is None] == []
    assert values[len(plain) :] == [None] * len(parsed), "no such key, or in a spelling that a parser alone can read"
    texts = [text.encode() for text in (*plain, *parsed)] + (list_random_texts() if name == "id" else [])
    keys = decode_keys(spark, texts, type, name)
    assert keys == decode_keys_by_parser(spark, texts, type, name)
    assert keys[: len(plain)] == [(value, None) for value in values[: len(plain)]]
