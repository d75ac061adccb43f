"""Checks that a pipeline can flush in the fleet that its file names, and which pipelines have a DAG of a name."""

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
    pipeline_name = find_pipeline_with_dag(path.parent, f"fleet_{fleet}")
    if pipeline_name is not None:
        findings.add(
            ("fleet",), f"pipeline={pipeline_name} has a DAG tidegate_fleet_{fleet}; give the fleet another name"
        )


def find_pipeline_with_dag(pipelines: Path, name: str) -> str | None:
    """The pipeline among the files of a folder that has a DAG ``tidegate_<name>``, None where none has."""
    shorter = (name.removesuffix(f"_{kind}") for kind in OTHER_DAGS if name.endswith(f"_{kind}"))
    return next((candidate for candidate in (name, *shorter) if (pipelines / f"{candidate}.yaml").exists()), None)
