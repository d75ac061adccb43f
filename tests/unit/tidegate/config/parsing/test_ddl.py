"""A schema means exactly what Spark would make of it, or is refused before the first record."""

import pytest
from tidegate.config.parsing.ddl import check_audit, check_condition, parse_columns
from tidegate.schema.data_types import Column


@pytest.mark.parametrize(
    ("ddl", "expected"),
    [
        ("id LONG", [Column("id", "BIGINT")]),
        ("id INTEGER NOT NULL", [Column("id", "INT", nullable=False)]),
        ("a decimal(12, 2), b DECIMAL", [Column("a", "DECIMAL(12,2)"), Column("b", "DECIMAL(10,0)")]),
        ("t TIMESTAMP, n TIMESTAMP_NTZ", [Column("t", "TIMESTAMP"), Column("n", "TIMESTAMP_NTZ")]),
        ("l TIMESTAMP_LTZ", [Column("l", "TIMESTAMP")]),
        ("`a b` STRING, `c``d` INT", [Column("a b", "STRING"), Column("c`d", "INT")]),
        ("größe INT", [Column("größe", "INT")]),
        ("order INT, date DATE, key STRING", [Column("order", "INT"), Column("date", "DATE"), Column("key", "STRING")]),
        ("b BINARY, y TINYINT, s SMALLINT, f FLOAT, d DOUBLE, o BOOLEAN", [
            Column("b", "BINARY"), Column("y", "TINYINT"), Column("s", "SMALLINT"),
            Column("f", "FLOAT"), Column("d", "DOUBLE"), Column("o", "BOOLEAN"),
        ]),
        (
            "s STRUCT<a: LONG NOT NULL, `b c`: ARRAY<STRING>>",
            [Column("s", "STRUCT<`a`: BIGINT NOT NULL, `b c`: ARRAY<STRING>>")],
        ),
        ("s STRUCT<a BIGINT>", [Column("s", "STRUCT<`a`: BIGINT>")]),
        ("m MAP<STRING,DECIMAL(3,1)>", [Column("m", "MAP<STRING, DECIMAL(3,1)>")]),
        ("id BIGINT COMMENT 'the key', -- a remark\n name STRING", [Column("id", "BIGINT"), Column("name", "STRING")]),
    ],
)  # fmt: skip
def test_one_canonical_spelling(ddl: str, expected: list[Column]) -> None:
    assert list(parse_columns(ddl)) == expected


def test_canonical_text_reads_back_as_itself() -> None:
    column = parse_columns("s STRUCT<a: MAP<STRING, ARRAY<DECIMAL(3,1)>>, `x``y`: TIMESTAMP_NTZ>")[0]
    assert parse_columns(f"s {column.type}") == (column,)


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("", "not a list of columns"),
        ("id", "has no type"),
        ("id FOO", "near 'FOO'"),
        ("id INT name STRING", "near 'name'"),
        ("id INT, ID STRING", "given twice"),
        ("s STRUCT<a: INT", "not SQL"),
        ("id INT) AS SELECT (1", "not a list of columns"),
        ("id INT); DROP TABLE x; SELECT (1", "statements found"),
        ("id INT PRIMARY KEY", "only NOT NULL and COMMENT"),
        ("id INT DEFAULT 3", "only NOT NULL and COMMENT"),
        ("d DECIMAL(39,2)", "out of range"),
        ("d DECIMAL(3,4)", "out of range"),
        ("v VARCHAR(3)", "use STRING"),
        ("m MAP<STRING>", "not a type"),
        ("a ARRAY", "not a type"),
        ("i INTERVAL DAY", "not a type"),
        ("u UINT", "not a type"),
        ("v VARIANT", "not a type"),
    ],
)
def test_refused_with_a_reason(ddl: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_columns(ddl)


def test_what_sqlglot_takes_for_a_command_is_refused_without_its_own_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ValueError, match="not a list of columns"):
        parse_columns("id STRING) DECIMAL(,2)>")
    assert caplog.records == []


def test_error_of_sqlglots_own_over_what_is_no_sql_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="not SQL that Spark reads; write one condition"):
        check_condition("map(c) = 1")


def test_table_of_an_audit_is_called_as_the_user_wrote_it() -> None:
    with pytest.raises(ValueError, match=r"near '\{table\}'"):
        check_audit("SELECT count(*) FRM {table} =")


@pytest.mark.parametrize(
    "sql", ["a = 1", "__deleted = 'true'", "s.b['k'] > 2 OR x IS NULL", "lower(a) LIKE 'x%'", "a IN (1, 2)", "true"]
)
def test_conditions_on_one_record(sql: str) -> None:
    check_condition(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "amount >= 0",
        "SELECT count(*) > 0 FROM {table}",
        "WITH d AS (SELECT id FROM {table} GROUP BY id HAVING count(*) > 1) SELECT count(*) = 0 FROM d",
        "SELECT max(amount) < (SELECT max(l.amount) FROM lake.shop.limits l) FROM {table}",
    ],
)
def test_audits(sql: str) -> None:
    check_audit(sql)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT count(*) > 0 FROM lake.shop.orders", r"a query over \{table\}"),
        ("max(a) > 1", r"or a query over \{table\}"),
        ("DELETE FROM {table}", "not one query"),
        ("SELECT true FROM x WHERE a = '{table}'", "not one query"),
        ("SELECT true FROM {table}; DROP TABLE x", "one expression expected"),
        ("SELECT a, b FROM {table}", "one column"),
    ],
)
def test_what_is_no_audit(sql: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_audit(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "a =",
        "a = 1; b = 2",
        "SELECT 1",
        "max(a) > 1",
        "row_number() OVER (ORDER BY a) = 1",
        "a IN (SELECT b FROM c)",
        "DROP TABLE x",
    ],
)
def test_what_is_no_condition(sql: str) -> None:
    with pytest.raises(ValueError, match="write one condition"):
        check_condition(sql)
