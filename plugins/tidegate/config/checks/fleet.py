"""Checks that a pipeline can flush in the fleet that its file names."""

from pathlib import Path

from tidegate.config.models.pipeline import PipelineModel
from tidegate.config.parsing.problems import Problems

OTHER_DAGS = ("actions", "backfill", "maintenance", "replay")  # of a pipeline, beside its flush


def check_fleet(path: Path, model: PipelineModel, findings: Problems) -> None:
    """Note what a fleet's one DAG cannot do for its members, and a name that is another DAG's."""
    fleet = model.fleet
    if fleet is None:
        return
    if model.spark.mode == "submit" and model.spark.master is None:
        findings.add(
            ("spark", "mode"),
            f"fleet={fleet}: a fleet submits no jobs, as each would start a driver; write mode: connect, or leave "
            "fleet out",
        )
    if model.complete is not None:
        findings.add(
            ("complete",),
            f"fleet={fleet}: each hour is an event of a task of its own, which a fleet does not have; leave complete "
            "or fleet out",
        )
    taken = next((name for name in _list_pipelines_with_dag(fleet) if path.with_name(f"{name}.yaml").exists()), None)
    if taken is not None:
        findings.add(("fleet",), f"pipeline={taken} has a DAG tidegate_fleet_{fleet}; give the fleet another name")


def _list_pipelines_with_dag(fleet: str) -> list[str]:
    """The pipelines that would have a DAG of the same id as the fleet."""
    name = f"fleet_{fleet}"
    return [name, *(name.removesuffix(f"_{kind}") for kind in OTHER_DAGS if name.endswith(f"_{kind}"))]
