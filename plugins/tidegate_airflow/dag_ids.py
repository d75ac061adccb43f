"""Which DAGs belong to a pipeline, and which pipeline a DAG belongs to."""

from collections.abc import Collection

KINDS = ("backfill", "replay", "maintenance")
PREFIX = "tidegate_"


def flush_dag_of(pipeline: str) -> str:
    """The DAG that flushes a pipeline."""
    return PREFIX + pipeline


def publish_dag_of(publication: str) -> str:
    """The DAG that runs a publication."""
    return f"{PREFIX}publish_{publication}"


def dags_of(pipeline: str) -> dict[str, str]:
    """Every DAG that a pipeline may have, by what it does."""
    return {"flush": flush_dag_of(pipeline), **{kind: f"{PREFIX}{pipeline}_{kind}" for kind in KINDS}}


def publication_of(dag_id: str, publications: Collection[str]) -> str | None:
    """The publication that a DAG runs, None for any other DAG."""
    return next((name for name in publications if publish_dag_of(name) == dag_id), None)


def pipeline_of(dag_id: str, pipelines: Collection[str]) -> str | None:
    """The pipeline that a DAG works for, None for any other DAG."""
    if not dag_id.startswith(PREFIX):
        return None
    name = dag_id.removeprefix(PREFIX)
    shorter = (name.removesuffix(f"_{kind}") for kind in KINDS)
    return next((found for found in (name, *shorter) if found in pipelines), None)
