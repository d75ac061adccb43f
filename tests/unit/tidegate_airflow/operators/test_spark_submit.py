"""A step whose Spark job is submitted: what Airflow's own operator must not do for it."""

from tidegate_airflow.operators.spark_submit import SubmitOperator


def test_second_job_of_a_step_is_never_taken_for_the_first() -> None:
    """Airflow would keep the first job's id for the task, and go back to it instead of submitting another."""
    merge = SubmitOperator(task_id="merge", verb="merge", pipeline="orders", given=[])
    assert merge.durable is False
