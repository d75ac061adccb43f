"""The DAGs that look after the tables of one pipeline, beside its flushes: maintenance, and verification."""

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, get_current_context, task
from airflow.sdk.bases.xcom import BaseXCom
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.connections import resolve_connection
from tidegate_airflow.dag_ids import JANITOR_DAG_ID
from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.actions import build_form_task
from tidegate_airflow.dags.dag_settings import (
    SHORT_TIMEOUT,
    build_dag_settings,
    build_job_task_settings,
    build_plain_settings,
    build_text_field,
    choose_operator,
    format_verify_pool_name,
)
from tidegate_airflow.dags.flush import to_params_dict
from tidegate_airflow.errors import raise_airflow_errors
from tidegate_airflow.operators.job import list_table_groups
from tidegate_airflow.operators.step import VerbOperator

Data = dict[str, Any]
log = logging.getLogger(__name__)


def build_maintenance_dag(pipeline: Pipeline) -> DAG:
    """Build the DAG ``tidegate_<pipeline>_maintenance``; without an interval it is started by hand."""
    seconds = pipeline.maintenance.interval_seconds
    with DAG(
        dag_id=f"tidegate_{pipeline.name}_maintenance",
        description=f"Keeps small: {', '.join(table.name for table in pipeline.entries)}",
        doc_md=task_docs.MAINTAIN,
        schedule=timedelta(seconds=seconds) if seconds > 0 else None,
        **build_dag_settings(pipeline.name, [pipeline], "maintenance"),
    ) as dag:
        tables = task(task_id="tables", execution_timeout=SHORT_TIMEOUT)(list_table_groups)(pipeline.name)
        settings = {
            **build_job_task_settings(pipeline, "maintain", task_docs.MAINTAIN),
            "max_active_tis_per_dagrun": 1,  # one rewrite at a time leaves room for the flushes
            "map_index_template": "{{ table }}",
        }
        operator, arguments = choose_operator(pipeline, VerbOperator, "maintain", **settings)
        operator.partial(**arguments).expand(given=tables)
    return dag


def build_verify_dag(pipeline: Pipeline) -> DAG:
    """Build the DAG ``tidegate_<pipeline>_verify`` of a pipeline with `verify.interval`; its form names one table."""
    with DAG(
        dag_id=f"tidegate_{pipeline.name}_verify",
        description=f"Compares with the log: {', '.join(table.name for table in pipeline.entries)}",
        doc_md=task_docs.VERIFY.format(pipeline=pipeline.name),
        schedule=timedelta(seconds=pipeline.verify.interval_seconds),
        **build_dag_settings(pipeline.name, [pipeline], "verify"),
    ) as dag:
        build_form_task(pipeline, "verify", task_docs.VERIFY_TASK, pool=format_verify_pool_name(pipeline))
    one_table = build_text_field("Table", "Only this one; empty for each.", "lake.shop.orders")
    dag.params = to_params_dict({"table": one_table})
    return dag


def build_janitor_dag() -> DAG:
    """Build one DAG for all catalogs, once a day. It changes nothing."""
    with DAG(
        dag_id=JANITOR_DAG_ID,
        description="Reports what pipelines without a file have left behind",
        doc_md=task_docs.JANITOR,
        schedule=timedelta(days=1),
        **build_plain_settings("maintenance"),
    ) as dag:
        task(task_id="leftovers", doc_md=task_docs.JANITOR)(report_leftovers)()
    return dag


def report_leftovers() -> list[Data]:
    """Return what pipelines without a file have left in the catalogs, with what removes it; skipped if nothing."""
    from tidegate.errors import NothingToDo, join_tables
    from tidegate.settings import find_include_folder
    from tidegate.wiring.pipeline import find_all_leftovers

    with raise_airflow_errors():
        pipelines, failures = find_all_leftovers(find_include_folder(), resolve_connection)
        for leftover in pipelines:
            log.warning("left behind: pipeline=%s: %s", leftover.pipeline, "; ".join(leftover.remove))
        leftovers = [vars(entry) for entry in pipelines]
        if failures:
            # a catalog, or a table, that cannot be read hides no other
            get_current_context()["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, leftovers)
            reasons = "\n".join(map(str, failures))
            raise join_tables(
                f"not everything could be read; of the rest see the result:\n{reasons}", map(type, failures)
            )
        if not leftovers:
            raise NothingToDo("every pipeline that wrote something has its file")
    return leftovers
