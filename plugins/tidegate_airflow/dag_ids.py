"""Which DAGs belong to a pipeline, and which pipeline a DAG belongs to."""

from collections.abc import Collection

from tidegate.spec.pipeline import DAG_KINDS

DAG_ID_PREFIX = "tidegate_"
JANITOR_DAG_ID = "tidegate-janitor"  # no pipeline's DAG can have it: theirs begin with tidegate_
HEARTBEATS_DAG_ID = "tidegate-heartbeats"


def format_flush_dag_id(pipeline: str) -> str:
    return DAG_ID_PREFIX + pipeline


def name_stage(pipeline: str) -> str:
    """Name staging on a clock of its own: in the ids of its DAG and of its backlog."""
    return f"{pipeline}_stage"


def name_fleet(fleet: str) -> str:
    """Name a fleet where else a pipeline's name stands: in the ids of its DAG, its alias and its backlog."""
    return f"fleet_{fleet}"


def name_flush(pipeline: str, fleet: str | None) -> str:
    """Name what flushes a pipeline, itself or its fleet: in the ids of its DAG, its alias and its backlog."""
    return pipeline if fleet is None else name_fleet(fleet)


def format_fleet_dag_id(fleet: str) -> str:
    return DAG_ID_PREFIX + name_fleet(fleet)


def find_fleet_of_dag(dag_id: str, pipelines: Collection[str]) -> str | None:
    """Return the fleet that a DAG flushes, or None. A pipeline's name may begin as a fleet's DAG does."""
    if not dag_id.startswith(format_fleet_dag_id("")) or find_pipeline(dag_id, pipelines) is not None:
        return None
    return dag_id.removeprefix(format_fleet_dag_id(""))


def format_publish_dag_id(publication: str) -> str:
    return f"{DAG_ID_PREFIX}publish_{publication}"


def list_dag_ids(pipeline: str, fleet: str | None = None) -> dict[str, str]:
    flush = format_flush_dag_id(name_flush(pipeline, fleet))
    return {"flush": flush, **{kind: f"{DAG_ID_PREFIX}{pipeline}_{kind}" for kind in DAG_KINDS}}


def find_publication(dag_id: str, publications: Collection[str]) -> str | None:
    return next((name for name in publications if format_publish_dag_id(name) == dag_id), None)


def find_pipeline(dag_id: str, pipelines: Collection[str]) -> str | None:
    if not dag_id.startswith(DAG_ID_PREFIX):
        return None
    name = dag_id.removeprefix(DAG_ID_PREFIX)
    candidates = {name, *(name.removesuffix(f"_{kind}") for kind in DAG_KINDS)}
    # a pipeline whose name is that of another one's DAG is refused, and must not take that DAG from it
    return min(candidates & {*pipelines}, key=len, default=None)
