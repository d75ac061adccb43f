"""What Airflow's OpenLineage provider is told of a task, without the provider."""

from tidegate_airflow.operators.step import RunsVerb


def test_failed_task_has_no_lineage_and_reads_nothing() -> None:
    """`trace_lineage` of this one would raise."""
    assert RunsVerb().get_openlineage_facets_on_failure(None) is None
