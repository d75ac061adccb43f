"""A named branch through real Kafka, Spark and Iceberg: main does not change until the branch is promoted."""

from typing import Any

import pytest
from tidegate.errors import AuditFailed

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}


def read_branch(workbench, branch: str) -> list[tuple[Any, ...]]:
    rows = workbench.run_spark_sql(f"SELECT id, name FROM lake.shop.b VERSION AS OF '{branch}'")
    return sorted(tuple(row) for row in rows)


@pytest.mark.repeats("unit/scenarios/test_named_branch.py::test_promoted_branch_is_gone_on_with_on_main")
def test_branch_of_a_table_is_written_audited_and_promoted(workbench) -> None:
    topic = workbench.topic()
    workbench.run_spark_sql("CREATE NAMESPACE lake.shop")
    workbench.run_spark_sql("CREATE TABLE lake.shop.b USING iceberg AS SELECT 1L AS id, 'theirs' AS name")
    table: dict[str, Any] = {"branch": "staging", "audits": ["name <> 'bad'", "SELECT count(*) > 1 FROM {table}"]}
    workbench.pipeline("b", [topic], key=KEY, value=VALUE, table=table)
    workbench.produce(topic, ({"id": 2}, {"id": 2, "name": "a"}), ({"id": 3}, {"id": 3, "name": "b"}))
    workbench.flush("b")
    workbench.run_spark_sql("INSERT INTO lake.shop.b VALUES (9, 'later')")
    workbench.produce(topic, ({"id": 1}, None), ({"id": 3}, {"id": 3, "name": "c"}))
    workbench.flush("b")
    assert read_branch(workbench, "staging") == [(2, "a"), (3, "c")]
    assert read_branch(workbench, "main") == [(1, "theirs"), (9, "later")]
    workbench.produce(topic, ({"id": 4}, {"id": 4, "name": "bad"}))
    with pytest.raises(AuditFailed):
        workbench.flush("b")
    workbench.pipeline("b", [topic], key=KEY, value=VALUE, table={**table, "audits": []})
    workbench.flush("b")
    assert read_branch(workbench, "staging") == [(2, "a"), (3, "c"), (4, "bad")]
    workbench.run_spark_sql(
        "ALTER TABLE lake.shop.b REPLACE BRANCH main AS OF VERSION " + read_head(workbench, "staging")
    )
    workbench.pipeline("b", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, ({"id": 4}, {"id": 4, "name": "good"}))
    workbench.flush("b")
    assert read_branch(workbench, "main") == [(2, "a"), (3, "c"), (4, "good")]
    assert read_branch(workbench, "staging") == [(2, "a"), (3, "c"), (4, "bad")]


def read_head(workbench, branch: str) -> str:
    return str(workbench.load_iceberg("shop.b").metadata.refs[branch].snapshot_id)


@pytest.mark.repeats("unit/scenarios/test_named_branch.py::test_table_that_is_made_for_a_branch_shows_nothing_on_main")
def test_table_that_is_made_for_a_branch_shows_nothing_on_main(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("b", [topic], key=KEY, value=VALUE, table={"branch": "staging"})
    for name in ("a", "b"):
        workbench.produce(topic, ({"id": 1}, {"id": 1, "name": name}))
        workbench.flush("b")
    assert read_branch(workbench, "staging") == [(1, "b")]
    assert workbench.run_spark_sql("SELECT * FROM lake.shop.b") == []
    process = workbench.run_cli("status", "b", "--json")
    assert '"rows": 1' in process.stdout, process
