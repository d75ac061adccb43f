"""What `validate` knows of Spark, against Spark itself: its functions, its casts, how it reads names in a layout."""

from itertools import product
from typing import Any

import pytest
from examples import choose_part
from pyspark.errors import AnalysisException
from tidegate.config.checks.select import can_cast
from tidegate.config.parsing.publication_sql import ALLOWED_FUNCTIONS
from tidegate.config.parsing.spark_sql import (
    AGGREGATE_FUNCTIONS,
    GRAMMAR_FUNCTIONS,
    ROW_FUNCTIONS,
    SCALAR_FUNCTIONS,
    SPARK_FUNCTIONS,
    SYNTAX_WORDS,
    TYPE_WORDS,
    WINDOW_FUNCTIONS,
)
from tidegate.schema.data_types import PRIMITIVE_NAMES, parse_type

CONTAINERS = (
    *("ARRAY<INT>", "ARRAY<DATE>", "STRUCT<a: INT>", "STRUCT<b: STRING>", "STRUCT<a: INT, b: INT>", "STRUCT<a: DATE>"),
    *("MAP<STRING, INT>", "MAP<STRING, DATE>", "MAP<BINARY, INT>", "MAP<INT, INT>", "ARRAY<MAP<STRING, INT>>"),
    *("ARRAY<MAP<INT, INT>>", "INT", "STRING"),
)


def test_functions_that_validate_knows_are_those_that_spark_lists(spark: Any) -> None:
    names = {row[0] for row in spark.sql("SHOW FUNCTIONS").collect() if row[0].isidentifier()}
    assert names == SPARK_FUNCTIONS - GRAMMAR_FUNCTIONS
    kinds = (SCALAR_FUNCTIONS, AGGREGATE_FUNCTIONS, WINDOW_FUNCTIONS, ROW_FUNCTIONS, GRAMMAR_FUNCTIONS)
    assert sum(map(len, kinds)) == len(SPARK_FUNCTIONS), "each is of one kind"
    assert ALLOWED_FUNCTIONS - TYPE_WORDS - SYNTAX_WORDS <= SPARK_FUNCTIONS, "publications allow no other"
    for name in choose_part(sorted(SCALAR_FUNCTIONS), 0, 4):
        described = " ".join(row[0] for row in spark.sql(f"DESCRIBE FUNCTION `{name}`").collect())
        assert ".aggregate." not in described, name


def test_casts_that_validate_refuses_are_those_that_spark_refuses(spark: Any) -> None:
    pairs = [*product(sorted({*PRIMITIVE_NAMES, "DECIMAL(10,2)"}), repeat=2), *product(CONTAINERS, repeat=2)]
    for source, target in choose_part(pairs, 0, 3):
        statement = f"SELECT try_cast(c AS {target}) FROM (SELECT CAST(NULL AS {source}) AS c)"
        assert can_cast(parse_type(source), parse_type(target)) == _is_read(spark, statement), (source, target)


def _is_read(spark: Any, statement: str) -> bool:
    try:
        return bool(spark.sql(statement).schema)
    except AnalysisException:
        return False


@pytest.mark.repeats("integration/test_columns.py::test_column_names_that_need_quoting_work_in_every_statement")
def test_layout_by_odd_names_is_made_as_validate_takes_it(workbench: Any) -> None:
    topic = workbench.topic(2)
    schema = "id BIGINT, `order-id` STRING, `x AS y` INT, `a.b` STRING, s STRUCT<`p q`: INT, größe: BIGINT>"
    create = {
        "partition_by": ["truncate(2, `order-id`)", "bucket(4, `a.b`)", "`s`.`p q`"],
        "cluster_by": ["`x AS y`", "`s`.`größe`", "a.b"],
        "properties": {"write.merge.mode": "copy-on-write", "write.distribution-mode": "HASH"},
    }
    workbench.pipeline(
        "odd",
        [topic],
        key={"fields": ["id"], "schema": "id BIGINT"},
        value={"schema": schema},
        table={"create": create},
    )
    row = {"order-id": "abc", "x AS y": 1, "a.b": "z", "s": {"p q": 2, "größe": 3}}
    for number in (1, 2):
        changed = {**row, "x AS y": number}
        workbench.produce(topic, *(({"id": n}, {"id": n, **changed}, {"partition": n % 2}) for n in range(2 * number)))
        workbench.flush("odd")
    assert workbench.read_rows("shop.odd") == [{"id": n, **row, "x AS y": 2} for n in range(4)]
    spec = workbench.load_iceberg("shop.odd").spec()
    assert [str(field.transform) for field in spec.fields] == ["truncate[2]", "bucket[4]", "identity"]
