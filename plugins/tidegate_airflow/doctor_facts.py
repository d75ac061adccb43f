"""What Airflow lacks for the DAGs, for ``tidegate doctor``: findings as a line of JSON, the last of standard output.

A process of its own, because Airflow takes seconds to import. Its argument is a JSON list of pipelines that a trigger
waits for.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate.diagnosis.finding import Finding, make_error, make_ok, make_warning

from tidegate_airflow.dag_ids import JANITOR_DAG_ID

MIN_VERSION = (3, 3)  # tasks use its stores of state and its metrics
MIN_VERSION_TEXT = ".".join(map(str, MIN_VERSION))
DAG_WORDS = "tidegate_airflow"
PLUGIN_NAME = "tidegate"
SERVICES = {
    "SchedulerJob": "airflow scheduler",
    "DagProcessorJob": "airflow dag-processor",
    "TriggererJob": "airflow triggerer",
}
MAX_REASON_CHARACTERS = 300


def is_too_old(version: str) -> bool:
    return tuple(map(int, version.split(".")[:2])) < MIN_VERSION


def check_airflow(triggered: tuple[str, ...]) -> Iterator[Finding]:
    import airflow
    from airflow import plugins_manager
    from airflow.configuration import AIRFLOW_HOME, conf
    from airflow.utils.session import create_session

    if is_too_old(airflow.__version__):
        text = f"airflow={airflow.__version__} is too old; install Airflow {MIN_VERSION_TEXT} or newer"
        yield make_error("airflow.environment", text)
        return
    plugins_manager.ensure_plugins_loaded()
    if all(plugin["name"] != PLUGIN_NAME for plugin in plugins_manager.get_plugin_info()):
        errors = [str(text) for file, text in plugins_manager.get_import_errors().items() if PLUGIN_NAME in str(file)]
        reason = f": {errors[0][:MAX_REASON_CHARACTERS]}" if errors else ""
        text = f"AIRFLOW_HOME={AIRFLOW_HOME} plugins_folder={conf.get('core', 'plugins_folder')}"
        advice = "set [core] plugins_folder to plugins/, or install the package"
        yield make_error("airflow.plugin", f"{text}: Airflow has not loaded Tidegate's plugin{reason}; {advice}")
    folder = Path(conf.get("core", "dags_folder"))
    limit_seconds = 2 * conf.getint("scheduler", "scheduler_health_check_threshold")
    try:
        with create_session() as session:
            findings = [*_check_dags(session, folder), *_check_services(session, limit_seconds, triggered)]
    except Exception as error:  # what the database says, without the statement and its parameters
        reason = " ".join(str(getattr(error, "orig", None) or error).split())[:MAX_REASON_CHARACTERS]
        text = f"AIRFLOW_HOME={AIRFLOW_HOME}: Airflow's database does not answer: {type(error).__name__}: {reason}"
        yield make_error("airflow.environment", f"{text}; start the database, or run `airflow db migrate`")
        return
    yield make_ok("airflow.environment", f"AIRFLOW_HOME={AIRFLOW_HOME} airflow={airflow.__version__}: it answers")
    yield from findings


def _check_dags(session: Any, folder: Path) -> Iterator[Finding]:
    from airflow.models.dag import DagModel

    janitor = session.query(DagModel.dag_id).filter(DagModel.dag_id == JANITOR_DAG_ID, DagModel.is_stale.is_(False))
    if not has_dags(folder) and janitor.first() is None:  # Airflow may have it from a bundle elsewhere
        text = f"dags_folder={folder} has no DAG file of Tidegate"
        yield make_error("airflow.plugin", f"{text}; set [core] dags_folder to dags/, or copy its files there")


def has_dags(folder: Path) -> bool:
    for path in folder.rglob("*.py"):
        with suppress(OSError):
            if path.is_file() and DAG_WORDS in path.read_text(encoding="utf-8", errors="replace"):
                return True
    return False


def _check_services(session: Any, limit_seconds: float, triggered: tuple[str, ...]) -> Iterator[Finding]:
    # without a triggerer, only pipelines that wait for a number of records are not flushed
    from airflow.jobs.job import Job

    for name, command in SERVICES.items():
        beats = session.query(Job.latest_heartbeat).filter(Job.job_type == name, Job.state == "running")
        row = beats.order_by(Job.latest_heartbeat.desc()).first()
        age = None if row is None or row[0] is None else (datetime.now(UTC) - row[0]).total_seconds()
        if age is None or age > limit_seconds:
            users = triggered if name == "TriggererJob" else ()
            make = make_warning if name == "TriggererJob" and not users else make_error
            last = "never" if age is None else f"{age:.0f} s ago"
            finding = make("airflow.services", f"{name} gave its last sign of life={last}; start it: {command}")
            yield replace(finding, used_by=users)


def main() -> None:
    """Print the findings last, after whatever Airflow prints when it starts."""
    findings = [asdict(finding) for finding in check_airflow(tuple(json.loads(sys.argv[1])))]
    sys.stdout.flush()
    print(json.dumps(findings), flush=True)
    os._exit(0)  # Airflow's own clean-up at the end takes longer than everything before


if __name__ == "__main__":
    main()
