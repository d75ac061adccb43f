"""What Airflow's OpenLineage provider is told of a task, without the provider."""

from tidegate_airflow.operators.lineage import ReportsLineage


def test_failed_task_has_no_lineage_and_reads_nothing() -> None:
    """`trace_lineage` of this one would raise."""
    assert ReportsLineage().get_openlineage_facets_on_failure(None) is None
