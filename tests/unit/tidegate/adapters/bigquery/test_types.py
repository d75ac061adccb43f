"""What BigQuery holds for a Spark type, and what it has no exact home for."""

import pytest
from tidegate.adapters.bigquery.types import (
    read_table_struct,
    render_comparable,
    render_from_value,
    to_bigquery_schema,
    to_bigquery_type,
    to_column_type,
    to_columns,
    to_stored_columns,
)
from tidegate.errors import ConfigurationError, IncompatibleSchema
from tidegate.schema.data_types import Array, Column, MaxLength, Primitive, format_type, parse_type
from tidegate.schema.evolution import EvolutionRules, find_schema_changes, to_struct


@pytest.mark.parametrize(
    ("spark", "bigquery"),
    [
        ("TINYINT", "INT64"), ("BIGINT", "INT64"), ("FLOAT", "FLOAT64"), ("BOOLEAN", "BOOL"), ("BINARY", "BYTES"),
        ("TIMESTAMP", "TIMESTAMP"), ("TIMESTAMP_NTZ", "DATETIME"), ("DATE", "DATE"), ("STRING", "STRING"),
        ("DECIMAL(12,2)", "NUMERIC(12, 2)"), ("DECIMAL(38,9)", "NUMERIC(38, 9)"),
        ("DECIMAL(38,0)", "BIGNUMERIC(38, 0)"),
        ("DECIMAL(38,18)", "BIGNUMERIC(38, 18)"), ("DECIMAL(5,5)", "NUMERIC(5, 5)"),
        ("DECIMAL(38,38)", "BIGNUMERIC(38, 38)"),
        ("ARRAY<INT>", "ARRAY<INT64>"),
        ("MAP<STRING, INT>", "ARRAY<STRUCT<`key` STRING, `value` INT64>>"),
        ("STRUCT<`a b`: INT, c: DATE NOT NULL>", "STRUCT<`a b` INT64, `c` DATE NOT NULL>"),
    ],
)  # fmt: skip
def test_type_has_one_home(spark: str, bigquery: str) -> None:
    assert to_bigquery_type(spark) == bigquery


@pytest.mark.parametrize(
    ("spark", "bigquery"),
    [
        ("STRING", "STRING NOT NULL"),
        ("STRUCT<a: INT>", "STRUCT<`a` INT64> NOT NULL"),
        ("ARRAY<INT>", "ARRAY<INT64>"),
        ("MAP<STRING, INT>", "ARRAY<STRUCT<`key` STRING, `value` INT64>>"),
        (
            "STRUCT<a: ARRAY<STRUCT<m: MAP<STRING, INT> NOT NULL, n: INT NOT NULL>> NOT NULL>",
            "STRUCT<`a` ARRAY<STRUCT<`m` ARRAY<STRUCT<`key` STRING, `value` INT64>>, `n` INT64 NOT NULL>>> NOT NULL",
        ),
    ],
)
def test_required_array_or_map_is_a_column_without_not_null(spark: str, bigquery: str) -> None:
    """BigQuery refuses such a column: NOT NULL cannot be applied to ARRAY field; NULL arrays are stored as empty."""
    assert to_column_type(Column("c", spark, nullable=False)) == bigquery
    assert to_column_type(Column("c", spark)) == bigquery.removesuffix(" NOT NULL")


@pytest.mark.parametrize(
    "spark", ["ARRAY<ARRAY<INT>>", "ARRAY<MAP<STRING, INT>>", "INTERVAL", "VARIANT", "MAP<STRING, ARRAY<ARRAY<INT>>>"]
)
def test_type_without_an_exact_home_is_refused(spark: str) -> None:
    with pytest.raises(ConfigurationError, match="BigQuery"):
        to_bigquery_type(spark)


COLUMNS = (
    Column("id", "INT", nullable=False), Column("price", "DECIMAL(12,2)"), Column("big", "DECIMAL(38,0)"),
    Column("tags", "ARRAY<STRING>"), Column("counts", "MAP<STRING, BINARY>"),
    Column("nested", "STRUCT<`a`: FLOAT, `rows`: ARRAY<STRUCT<`b`: TIMESTAMP_NTZ NOT NULL>>>"),
)  # fmt: skip


def test_schema_of_the_api_and_back_is_what_is_stored() -> None:
    schema = to_bigquery_schema(COLUMNS)
    assert schema[0] == {"name": "id", "mode": "REQUIRED", "type": "INT64"}
    assert schema[1] == {"name": "price", "mode": "NULLABLE", "type": "NUMERIC", "precision": "12", "scale": "2"}
    assert schema[4]["mode"] == "REPEATED"
    assert [field["name"] for field in schema[4]["fields"]] == ["key", "value"]
    assert to_columns(schema) == to_stored_columns(COLUMNS)


def test_table_as_the_service_spells_its_types_is_the_same() -> None:
    """The API answers INTEGER, FLOAT, BOOLEAN and RECORD whatever was asked for."""
    fields = [
        {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
        {"name": "x", "type": "FLOAT"},
        {"name": "f", "type": "BOOLEAN", "mode": "NULLABLE"},
        {"name": "n", "type": "NUMERIC"},
        {"name": "r", "type": "RECORD", "mode": "REPEATED", "fields": [{"name": "d", "type": "DATETIME"}]},
    ]
    table_struct = read_table_struct(fields)
    assert table_struct.required == {"id"}
    assert format_type(table_struct) == (
        "STRUCT<`id`: BIGINT, `x`: DOUBLE, `f`: BOOLEAN, `n`: DECIMAL(38,9), `r`: ARRAY<STRUCT<`d`: TIMESTAMP_NTZ>>>"
    )


def test_table_that_was_made_for_the_columns_needs_no_change() -> None:
    table_struct = read_table_struct(to_bigquery_schema(COLUMNS))
    assert (
        find_schema_changes(
            "dwh.shop.orders",
            table_struct,
            to_stored_columns(COLUMNS),
            EvolutionRules(add=False, widen=False, relax=False),
        )
        == ()
    )
    assert parse_type(to_stored_columns(COLUMNS)[4].type) == dict(table_struct.fields)["counts"]


@pytest.mark.parametrize(
    "name", ["a.b", "a`b", "", "x" * 301, "_PARTITIONTIME", "_table_x", "what?", "a\nb", "__root__"]
)
def test_name_that_bigquery_takes_in_no_table_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="BigQuery"):
        to_bigquery_schema([Column(name, "INT")])


@pytest.mark.parametrize("name", ["order id", "größe", "it's", "名前", "select", "a-b", "50%"])
def test_flexible_names_are_taken(name: str) -> None:
    assert to_bigquery_schema([Column(name, "INT")])[0]["name"] == name


@pytest.mark.parametrize(
    ("numeric", "declared_type", "changes"),
    [
        ({"type": "NUMERIC"}, "DECIMAL(12,2)", []),
        ({"type": "NUMERIC"}, "DECIMAL(38,9)", []),
        ({"type": "NUMERIC", "precision": "10", "scale": "4"}, "DECIMAL(8,2)", []),
        ({"type": "BIGNUMERIC"}, "DECIMAL(38,18)", []),
        ({"type": "BIGNUMERIC", "mode": "REPEATED"}, "ARRAY<DECIMAL(38,0)>", []),
        (
            {"type": "NUMERIC", "precision": "10", "scale": "2"}, "DECIMAL(12,2)",
            ["widened a from DECIMAL(10,2) to DECIMAL(12,2)"],
        ),
        (
            {"type": "NUMERIC", "precision": "10", "scale": "2"}, "DECIMAL(38,9)",
            ["widened a from DECIMAL(10,2) to DECIMAL(38,9)"],
        ),
    ],
)  # fmt: skip
def test_decimal_goes_into_any_that_has_room_before_and_behind_the_point(
    numeric: dict[str, str], declared_type: str, changes: list[str]
) -> None:
    current = read_table_struct([{"name": "a", **numeric}])
    schema_changes = find_schema_changes(
        "t", current, to_stored_columns([Column("a", declared_type)]), EvolutionRules()
    )
    assert [str(change) for change in schema_changes] == changes


@pytest.mark.parametrize(
    ("numeric", "declared_type"),
    [
        ({"type": "NUMERIC"}, "DECIMAL(38,10)"),
        ({"type": "NUMERIC", "precision": "10", "scale": "2"}, "DECIMAL(10,4)"),
        ({"type": "NUMERIC", "precision": "10", "scale": "4"}, "DECIMAL(9,2)"),
    ],
)
def test_decimal_of_which_a_part_would_be_lost_is_refused(numeric: dict[str, str], declared_type: str) -> None:
    current = read_table_struct([{"name": "a", **numeric}])
    with pytest.raises(IncompatibleSchema, match="column=a: incompatible change"):
        find_schema_changes("t", current, to_stored_columns([Column("a", declared_type)]), EvolutionRules())


def test_length_that_a_column_allows_is_kept_and_is_no_other_type() -> None:
    fields = [
        {"name": "a", "type": "STRING", "maxLength": "3"},
        {"name": "b", "type": "BYTES", "maxLength": "2", "mode": "REPEATED"},
        {"name": "c", "type": "STRING"},
    ]
    table_struct = read_table_struct(fields)
    assert dict(table_struct.fields) == {
        "a": Primitive("STRING", form=MaxLength(3)),
        "b": Array(Primitive("BINARY", form=MaxLength(2))),
        "c": Primitive("STRING"),
    }
    columns = (Column("a", "STRING"), Column("b", "ARRAY<BINARY>"), Column("c", "STRING"))
    assert to_columns(fields) == columns
    assert find_schema_changes("t", table_struct, to_stored_columns(columns), EvolutionRules()) == ()


def test_required_column_that_the_table_fills_itself_needs_no_record_and_no_null() -> None:
    """A row that does not name it gets the default; a NULL that a record holds does not."""
    required_field = {"type": "STRING", "mode": "REQUIRED"}
    fields = [{"name": "a", **required_field, "defaultValueExpression": "'new'"}, {"name": "b", **required_field}]
    table_struct = read_table_struct(fields)
    b, both_columns = (
        Column("b", "STRING", nullable=False),
        (Column("a", "STRING"), Column("b", "STRING", nullable=False)),
    )
    assert find_schema_changes("t", table_struct, [b], EvolutionRules()) == ()
    assert [str(change) for change in find_schema_changes("t", table_struct, both_columns, EvolutionRules())] == [
        "relaxed a"
    ]
    with pytest.raises(IncompatibleSchema, match="column=b: required, and the pipeline does not fill it"):
        find_schema_changes("t", table_struct, [Column("a", "STRING", nullable=False)], EvolutionRules())


def test_value_is_cast_to_a_type_without_parameters_which_cast_does_not_take() -> None:
    parts = [
        {"name": "n", "type": "NUMERIC", "precision": "12", "scale": "2"},
        {"name": "text", "type": "STRING", "maxLength": "3"},
        {"name": "more", "type": "RECORD", "fields": [{"name": "b", "type": "BIGNUMERIC", "mode": "REQUIRED"}]},
    ]
    table_struct = read_table_struct(
        [{"name": "a", "type": "NUMERIC"}, {"name": "s", "type": "RECORD", "fields": parts}]
    )
    staged = to_struct([Column("a", "DECIMAL(12,2)"), Column("s", "STRUCT<n: DECIMAL(8,2)>")])
    assert render_from_value("a", (staged, table_struct)) == "CAST(value.`a` AS NUMERIC)"
    assert render_from_value("s", (staged, table_struct)) == (
        "IF(value.`s` IS NULL, NULL, STRUCT(CAST(value.`s`.`n` AS NUMERIC) AS `n`, CAST(NULL AS STRING) AS `text`, "
        "CAST(NULL AS STRUCT<`b` BIGNUMERIC>) AS `more`))"
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("DOUBLE", "TO_JSON_STRING(t.`Amount` + 0)"), ("FLOAT", "TO_JSON_STRING(t.`Amount` + 0)"),
        ("STRING", "t.`Amount`"), ("STRUCT<a: DOUBLE>", "TO_JSON_STRING(t.`Amount`)"),
    ],
)  # fmt: skip
def test_both_zeros_are_compared_as_one_value_and_not_a_number_with_itself(kind: str, text: str) -> None:
    """As JSON these are 0.0 and -0.0: a row of history ended where nothing had changed."""
    assert render_comparable(("Amount", parse_type(kind)), "t") == text
