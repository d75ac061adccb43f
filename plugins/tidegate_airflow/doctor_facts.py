"""What Airflow tells of itself, for ``tidegate doctor``: one line of JSON, the last of standard output.

A process of its own, because Airflow takes seconds to import. Its argument is a list of connections' ids as JSON.
"""

import json
import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate.diagnosis.airflow import is_too_old

from tidegate_airflow.dag_ids import JANITOR_DAG_ID

PLUGIN_FILE = "tidegate_plugin.py"
DAG_WORDS = "tidegate_airflow"
PLUGIN_NAME = "tidegate"
SERVICES = ("SchedulerJob", "DagProcessorJob", "TriggererJob")
MAX_REASON_CHARACTERS = 300


def read_airflow_facts(connections: Iterable[str]) -> dict[str, Any]:
    """The fields of `AirflowFacts`."""
    import airflow
    from airflow.configuration import AIRFLOW_HOME, conf

    if is_too_old(airflow.__version__):
        return {"version": airflow.__version__, "home": AIRFLOW_HOME}
    dags_folder = conf.get("core", "dags_folder")
    facts = {
        "version": airflow.__version__,
        "home": AIRFLOW_HOME,
        "dags_folder": dags_folder,
        "plugins_folder": conf.get("core", "plugins_folder"),
        "has_dags": has_dags(Path(dags_folder)),
        "parallelism": conf.getint("core", "parallelism"),
        "threshold_seconds": 2.0 * conf.getint("scheduler", "scheduler_health_check_threshold"),
        **_read_plugins(),
    }
    try:
        facts |= _read_database(Path(dags_folder))
        facts["has_dags"] = facts["has_dags"] or _knows_dags()
        facts["known_connections"] = [name for name in connections if _is_known(name)]
    except Exception as error:
        facts["database_problem"] = _format_reason(error)
    return facts


def has_dags(folder: Path) -> bool:
    """Whether one of the folder's files makes the product's DAGs."""
    files = (path for path in folder.rglob("*.py") if path.is_file()) if folder.is_dir() else ()
    return any(map(_makes_dags, files))


def _makes_dags(file: Path) -> bool:
    try:
        return DAG_WORDS in file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _knows_dags() -> bool:
    """Whether Airflow has read the janitor's DAG, from wherever its bundles bring DAG files."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        known = session.query(DagModel.dag_id).filter(DagModel.dag_id == JANITOR_DAG_ID, DagModel.is_stale.is_(False))
        return known.first() is not None


def _read_plugins() -> dict[str, Any]:
    from airflow import plugins_manager

    plugins_manager.ensure_plugins_loaded()
    plugins = plugins_manager.get_plugin_info()
    errors = plugins_manager.get_import_errors()
    own_errors = [reason for file, reason in errors.items() if PLUGIN_NAME in str(file)]
    return {
        "has_plugin": any(plugin["name"] == PLUGIN_NAME for plugin in plugins),
        "plugin_error": str(own_errors[0])[:MAX_REASON_CHARACTERS] if own_errors else "",
    }


def _read_database(dags_folder: Path) -> dict[str, Any]:
    from airflow.jobs.job import Job
    from airflow.models.errors import ParseImportError
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session

    with create_session() as session:
        pools = {pool.pool: int(pool.slots) for pool in session.query(Pool)}
        beats = {name: _find_age(session, Job, name) for name in SERVICES}
        errors = {
            str(error.filename): _find_last_line(str(error.stacktrace))
            for error in session.query(ParseImportError)
            if _is_ours(dags_folder / str(error.filename), str(error.stacktrace))
        }
    return {"pools": pools, "services": beats, "import_errors": errors}


def _is_ours(file: Path, trace: str) -> bool:
    """Whether a DAG file that Airflow cannot read is to make the product's DAGs: its error came from there, or the file
    says so. Those of others are theirs to correct.
    """
    return DAG_WORDS in trace or _makes_dags(file)


def _find_age(session: Any, job: Any, name: str) -> float | None:
    newest = session.query(job.latest_heartbeat).filter(job.job_type == name, job.state == "running")
    row = newest.order_by(job.latest_heartbeat.desc()).first()
    return None if row is None or row[0] is None else (datetime.now(UTC) - row[0]).total_seconds()


def _is_known(connection: str) -> bool:
    from airflow.exceptions import AirflowNotFoundException
    from airflow.models.connection import Connection

    try:
        return Connection.get_connection_from_secrets(connection) is not None
    except AirflowNotFoundException:
        return False


def _find_last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:MAX_REASON_CHARACTERS]


def _format_reason(error: Exception) -> str:
    """What the database says, without the statement and its parameters."""
    text = " ".join(str(getattr(error, "orig", None) or error).split())
    return f"{type(error).__name__}: {text}"[:MAX_REASON_CHARACTERS]


def main() -> None:
    """Print the facts; whatever Airflow prints when it starts stands before them."""
    sys.stdout.flush()
    print(json.dumps(read_airflow_facts(json.loads(sys.argv[1]))), flush=True)
    os._exit(0)  # Airflow's own clean-up at the end takes longer than everything before


if __name__ == "__main__":
    main()
