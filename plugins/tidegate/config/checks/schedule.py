"""Checks when a record's flush runs and where its Spark jobs go."""

from pathlib import Path

from tidegate.adapters.server_probe import explain_address
from tidegate.adapters.spark.target import explain_master
from tidegate.config.models.pipeline import PipelineModel
from tidegate.config.models.settings import SparkModel
from tidegate.config.parsing.problems import Problems, refuse_secrets
from tidegate.redaction import has_secret, is_secret_name
from tidegate.spec.pipeline import DAG_KINDS
from tidegate.spec.table_template import is_template

WAP_PROBLEM = (
    "makes Spark write outside of the branch that is published; leave it out, and use the table's branch: or audits:"
)
SECRET_PROBLEM = "a secret in a file; put it into the Spark connection"


def check_timing_and_spark(model: PipelineModel, findings: Problems) -> None:
    """Impossible intervals, and contradicting places for Spark."""
    if model.merge.interval == 0:
        findings.add(("merge", "interval"), "out of range; must be at least 1s, or -1 to disable")
    if model.merge.interval == -1 and model.merge.records_threshold == -1:
        findings.add(("merge", "interval"), "nothing would ever flush: records_threshold is -1 too; set one of them")
    if model.merge.records_threshold == 0:
        findings.add(("merge", "records_threshold"), "out of range; must be at least 1, or -1 to disable")
    if isinstance(model.stage.interval, int) and model.stage.interval <= 0:
        findings.add(("stage", "interval"), "out of range; must be at least 1s; leave it out to stage in each flush")
    if model.verify.interval > 0 and any(is_template(table.name) for table in model.tables):
        findings.add(("verify",), "verify does not know tables that records name; leave it out, or write interval: -1")
    if model.complete is not None and any(is_template(table.name) for table in model.tables):
        findings.add(("complete",), "not for tables that records name, as Airflow must know them first; leave it out")
    for key, notifiers in (("on_failure", model.on_failure), ("on_recovery", model.on_recovery)):
        for index, notifier in enumerate(notifiers):
            refuse_secrets(notifier.kwargs, (key, index, "kwargs"), findings, "an Airflow connection")
    check_spark(model.spark, findings)


def check_spark(spark: SparkModel, findings: Problems) -> None:
    """Contradicting places, and settings that are none or that hold a secret."""
    refuse_secrets(spark.connection, ("spark", "connection"), findings, "the Spark connection, and write its id here")
    if spark.remote is not None and spark.master is not None:
        findings.add(("spark", "master"), "remote is given too; keep remote for Connect or master for spark-submit")
    refuse_secrets(spark.master, ("spark", "master"), findings, "the Spark connection")
    if spark.remote is not None and has_secret(spark.remote):
        findings.add(("spark", "remote"), SECRET_PROBLEM)
    elif spark.remote is not None and not spark.remote.startswith("sc://"):
        findings.add(("spark", "remote"), "not a Spark Connect address; write sc://host:port")
    elif spark.remote is not None and (problem := explain_address(spark.remote)) is not None:
        findings.add(("spark", "remote"), problem)
    if spark.master is not None and (problem := explain_master(spark.master)) is not None:
        findings.add(("spark", "master"), problem)
    if spark.remote is not None and spark.mode == "submit":
        findings.add(("spark", "remote"), "spark-submit has no remote; use master, or mode: connect")
    if spark.master is not None and "mode" in spark.model_fields_set and spark.mode == "connect":
        findings.add(("spark", "master"), "Spark Connect has no master; use remote, or mode: submit")
    for name, value in spark.conf.items():
        if name.startswith("spark.wap."):
            findings.add(("spark", "conf", name), WAP_PROBLEM)
        elif is_secret_name(name) or has_secret(value):
            findings.add(("spark", "conf", name), SECRET_PROBLEM)
        elif not name.startswith("spark."):
            findings.add(
                ("spark", "conf", name), f"not a Spark setting; their names start with spark., e.g. spark.{name}"
            )


def check_fleet(path: Path, model: PipelineModel, findings: Problems) -> None:
    """What a fleet's one DAG cannot do for its members, and a name that another DAG has."""
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
    """The pipeline in the folder with a DAG ``tidegate_<name>``, or None."""
    shorter = (name.removesuffix(f"_{kind}") for kind in DAG_KINDS if name.endswith(f"_{kind}"))
    return next((candidate for candidate in (name, *shorter) if (pipelines / f"{candidate}.yaml").exists()), None)
