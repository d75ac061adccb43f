"""Flink's script is cut where its tokens end: texts, backslashes and names keep their meaning, or are refused."""

import re
from typing import Any

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp
from tidegate.errors import ConfigurationError
from tidegate.migration.connector_config import Choices, read_config
from tidegate.migration.draft import Translation
from tidegate.migration.flink.statements import parse_script
from tidegate.migration.report import format_pipeline_file
from tidegate.migration.translate import translate
from tidegate.sinks.world import UnreachableWorld
from yaml import safe_load

SOURCE = """
CREATE TABLE src (id BIGINT, status STRING, host STRING, amount INT, `o.x` STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 't', 'key.format' = 'json', 'value.format' = 'json',
  'properties.bootstrap.servers' = 'b:9092', 'properties.group.id' = 'g');
CREATE TABLE sink (id BIGINT, status STRING) WITH ('connector' = 'iceberg', 'catalog-name' = 'lake',
  'catalog-type' = 'rest', 'uri' = 'http://r:8181', 'catalog-database' = 'shop');
"""


def import_script(insert: str, source: str = SOURCE) -> tuple[dict[str, Any], Translation]:
    translation = translate(read_config(f"{source}{insert}", "script"), Choices(), UnreachableWorld())
    return safe_load(format_pipeline_file(translation))["tables"][0], translation


def list_texts(condition: str) -> list[str]:
    """The texts of a condition, as Spark reads them."""
    tree = sqlglot.parse_one(condition, read="spark")
    return [node.this for node in tree.find_all(exp.Literal) if node.is_string]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("o.status = 'open (new)'", "status = 'open (new)'"),
        ("o.status IN ('a , b', 'x . y')", "status IN ('a , b', 'x . y')"),
        ("o.host = 'o.example.com' AND src_name IS NULL", "host = 'o.example.com' AND src_name IS NULL"),
        (r"REGEXP(o.status, '^\d+$')", r"REGEXP(status, '^\\d+$')"),
        ("o.status <> 'it''s'", r"status <> 'it\'s'"),
        ("`o`.`o.x` <> '' -- o.status ; is gone\n AND /* o.y */ o.amount>=-1.50", "`o.x` <> '' AND amount>=-1.50"),
        ("o.amount IS DISTINCT FROM 3 OR o.status = ' FROM t JOIN u '",
         "amount IS DISTINCT FROM 3 OR status = ' FROM t JOIN u '"),
    ],
)  # fmt: skip
def test_condition_keeps_texts_and_names(condition: str, expected: str) -> None:
    table, _ = import_script(f"INSERT INTO sink SELECT o.id, o.status FROM src AS o WHERE {condition}")
    assert table["when"] == expected


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=12))
def test_text_has_the_same_letters_in_spark(text: str) -> None:
    literal = "'" + text.replace("'", "''") + "'"
    table, _ = import_script(f"INSERT INTO sink SELECT id, {literal} FROM src WHERE status <> {literal}")
    for sql in (table["when"], table["select"]):
        (written,) = list_texts(sql)
        if not text.isprintable():  # sqlglot leaves escapes of code points to Spark
            written = re.sub(r"\\U([0-9a-f]{8})", lambda match: chr(int(match[1], 16)), written)
        assert written == text


def test_select_list_keeps_texts_and_names_and_casts_by_place() -> None:
    table, _ = import_script(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO sink (id, status) "
        r"SELECT o.id, CASE WHEN o.amount < 5 THEN 'a , ( b' ELSE `o`.host || '\n' END FROM src o; END"
    )
    assert table["select"].split("\n") == [
        "SELECT",
        "  `id`,",
        r"  CAST(CASE WHEN amount < 5 THEN 'a , ( b' ELSE host || '\\n' END AS STRING) AS `status`",
        "FROM record",
        "",
    ]


def test_column_that_is_a_word_of_a_value_is_computed() -> None:
    table, _ = import_script("INSERT INTO sink SELECT id, NULL FROM src")
    assert "CAST(NULL AS STRING) AS `status`" in table["select"]


@pytest.mark.parametrize(
    ("insert", "reason"),
    [
        ("INSERT INTO sink SELECT id, status FROM src WHERE amount / 2 > 1", "/: Flink divides whole numbers"),
        (r"INSERT INTO sink SELECT id, status FROM src WHERE status LIKE 'a\_b'", "LIKE: its pattern"),
        ("INSERT INTO sink SELECT id, status FROM src WHERE status SIMILAR TO 'a'", "SIMILAR: its pattern"),
        (r"INSERT INTO sink SELECT id, U&'\00e9' FROM src", "U&'...': write the letters"),
        ("INSERT INTO sink SELECT id, status FROM src /*+ OPTIONS('scan.startup.mode'='latest-offset') */", "a hint"),
        ("INSERT INTO sink SELECT DISTINCT id, status FROM src", "DISTINCT: a pipeline"),
        ("INSERT INTO sink SELECT id, status FROM src, other", ",: a pipeline"),
        ("INSERT INTO sink SELECT id, status FROM src WHERE id IN (SELECT id FROM other)", "SELECT: a pipeline"),
        ("INSERT INTO sink SELECT id, status FROM src FOR SYSTEM_TIME AS OF x", "FOR: a pipeline"),
        ("INSERT INTO `a.sink` SELECT id, status FROM src", "a name with a dot"),
    ],
)
def test_insert_that_spark_would_read_in_another_way_is_named(insert: str, reason: str) -> None:
    """Beside another INSERT that is imported."""
    other = "INSERT INTO lake2.s.y SELECT * FROM src;"
    catalog = "CREATE CATALOG lake2 WITH ('type'='iceberg', 'catalog-type'='rest', 'uri'='http://r:8181');"
    _, translation = import_script(f"{catalog}{other}{insert}")
    reasons = [s.reason for s in translation.settings if s.outcome == "not mapped" and s.name.startswith("INSERT")]
    assert len(reasons) == 1
    assert reasons[0].startswith(reason)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("CREATE TABLE a (x TIMESTAMP(3) WITH TIME ZONE)", "WITH behind the type of x"),
        ("CREATE TABLE a (x ROW<b INT ARRAY>)", "ARRAY behind the type INT"),
        ("CREATE TABLE a (x INT) WITH ('k'='v') LIKE b", "LIKE behind WITH"),
        ('INSERT INTO a SELECT "x" FROM b', "a double quote"),
        ("INSERT INTO a SELECT 'x FROM b", "no closing quote"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_statement(script: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as error_info:
        parse_script(script)
    assert reason in str(error_info.value)


def test_comparison_in_a_computed_column_hides_no_other_column() -> None:
    script = parse_script(
        "CREATE TABLE a (x INT, y AS CASE WHEN x < 5 THEN ';' END, "
        "m MAP<STRING, ROW<`a``b` INT NOT NULL 'c, d'>>, z INT)"
    )
    columns = {column.name: column.type for column in script.tables["a"].columns}
    assert columns == {"x": "INT", "y": "", "m": "MAP<STRING, STRUCT<`a``b`: INT>>", "z": "INT"}


def test_metadata_keep_the_types_that_the_script_declares() -> None:
    columns = "`at` BIGINT METADATA FROM 'timestamp', `ltz` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', "
    columns += "`ntz` TIMESTAMP(3) METADATA FROM 'timestamp', `partition` BIGINT METADATA, `offset` INT METADATA, "
    source = SOURCE.replace("CREATE TABLE src (", f"CREATE TABLE src ({columns}")
    _, translation = import_script("INSERT INTO sink SELECT id, status FROM src", source)
    assert safe_load(format_pipeline_file(translation))["source"]["metadata"] == {
        "at": {"from": "timestamp", "type": "BIGINT"},
        "ltz": "timestamp",
        "ntz": {"from": "timestamp", "type": "TIMESTAMP_NTZ"},
        "partition": {"from": "partition", "type": "BIGINT"},
        "offset": "offset",
    }
