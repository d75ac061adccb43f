"""The backfill DAG of one pipeline: plan → one batch after the other → clean_up, started by hand from a form."""

from typing import Any

from airflow.configuration import conf
from airflow.sdk import DAG, Param, get_current_context, task
from tidegate.errors import ConfigurationError
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow import tasks
from tidegate_airflow.assets import build_own_alias
from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.dag_settings import (
    SHORT_TIMEOUT,
    build_dag_settings,
    build_job_task_settings,
    build_switch,
    build_text_field,
    choose_operator,
)
from tidegate_airflow.dags.flush import to_params_dict
from tidegate_airflow.errors import raise_airflow_errors, read_form_params, require_result
from tidegate_airflow.operators.step import VerbOperator

PARAM_NAMES = ("ranges", "from", "to", "tables", "dry_run")
OFFSET_RANGES_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "patternProperties": {
        "^[0-9]+$": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 2, "maxItems": 2}
    },
}

# Airflow looks at `format` in the form only; the pattern holds for runs that programs start, too.
TIME_SHAPE = {"format": "date-time", "pattern": r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d"}


def build_backfill_dag(pipeline: Pipeline) -> DAG:
    """Build the DAG ``tidegate_<pipeline>_backfill``. Opens no connection and imports nothing heavy."""
    with DAG(
        dag_id=f"tidegate_{pipeline.name}_backfill",
        description=f"Apply a part of the log of {pipeline.name} again, never over what is newer",
        doc_md=task_docs.BACKFILL.format(pipeline=pipeline.name, batch=pipeline.merge.max_records),
        schedule=None,
        **build_dag_settings(pipeline.name, [pipeline], "backfill"),
    ) as dag:

        @task(task_id="plan", doc_md=task_docs.BACKFILL_PLAN, execution_timeout=SHORT_TIMEOUT, multiple_outputs=False)
        def plan() -> list[dict[str, Any]]:
            context = get_current_context()
            proposal = plan_batches(pipeline.name, read_form_params(context, PARAM_NAMES))
            for key in ("tables", "backfill"):  # beside the result: tasks can be mapped over a whole result only
                context["ti"].xcom_push(key=key, value=proposal[key])
            batches: list[dict[str, Any]] = proposal["batches"]
            return batches

        @task(task_id="clean_up", doc_md=task_docs.BACKFILL_CLEAN_UP, execution_timeout=SHORT_TIMEOUT)
        def clean_up(backfill: dict[str, Any]) -> list[str]:
            return drop_backfill_tables(pipeline.name, backfill)

        batches: Any = plan()
        backfill = batches["backfill"]
        settings = {
            **build_job_task_settings(pipeline, "batch", task_docs.BACKFILL_BATCH),
            "max_active_tis_per_dagrun": 1,
            "map_index_template": "{{ slice }}",
            "outlets": [build_own_alias(pipeline)],
        }
        operator, arguments = choose_operator(pipeline, VerbOperator, "backfill", **settings)
        operator.partial(backfill=backfill, **arguments).expand(given=batches) >> clean_up(backfill)
    dag.params = to_params_dict(_build_form(pipeline))
    return dag


def _build_form(pipeline: Pipeline) -> dict[str, Param]:
    topic = next(iter(pipeline.source.topics), "topic")
    tables = [table.name for table in pipeline.entries]
    return {
        "ranges": Param(
            None,
            type=["null", "object"],
            title="Ranges",
            description="Half-open offset ranges by topic and partition: the second number is the first offset that "
            f'is not applied. Example: {{"{topic}": {{"0": [100, 900]}}}}. Leave it as it is for a range of times.',
            additionalProperties=OFFSET_RANGES_SCHEMA,
            examples=[{topic: {"0": [100, 900]}}],
        ),
        "from": build_text_field(
            "From",
            "Instead of ranges: records with this time or a later one; needs To.",
            "2026-01-01T00:00:00Z",
            **TIME_SHAPE,
        ),
        "to": build_text_field(
            "To",
            "Records before this time, and never beyond what is flushed; needs From.",
            "2026-01-02T00:00:00Z",
            **TIME_SHAPE,
        ),
        "tables": Param(
            [],
            type="array",
            items={"type": "string", "enum": tables},
            title="Tables",
            description="Only these tables; all when empty.",
            examples=tables,
        ),
        "dry_run": build_switch(
            "Dry run",
            "Only show ranges, records and batches, as `tables` of the task plan; write nothing. Begin with one; then "
            "start the same without.",
        ),
    }


def plan_batches(name: str, params: dict[str, Any]) -> dict[str, Any]:
    from tidegate.reprocess.backfill_plan import parse_request, propose_backfill

    with raise_airflow_errors():
        # the form's editor shows nothing as {}, and gives that back once somebody has clicked into it
        request = parse_request(params["ranges"] or None, params["from"], params["to"], tuple(params["tables"]))
        proposed = propose_backfill(tasks.assemble_session(name), request)
        batches = [] if params["dry_run"] else proposed.to_batches()
        most = conf.getint("core", "max_map_length")
        if len(batches) > most:
            raise ConfigurationError(
                f"pipeline={name}: the range makes {len(batches)} batches, and Airflow takes [core] max_map_length="
                f"{most} in a run; raise merge.max_records, name less, or run it with: tidegate backfill {name}"
            )
    return {**proposed.to_dict(), "backfill": proposed.backfill.to_dict(), "batches": batches}


def drop_backfill_tables(name: str, backfill: dict[str, Any] | None) -> list[str]:
    """Drop everything that the backfill kept, and return what that was. A repeat drops what is left."""
    from tidegate.reprocess.backfill import drop_backfill

    require_result(backfill, "plan")  # gone if Airflow's database was cleaned since
    with raise_airflow_errors():
        return drop_backfill(tasks.assemble_session(name), (backfill or {})["id"])
