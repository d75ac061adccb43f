"""Airflow, where it is set up in this environment: asked in a process of its own, which may be slow or hang."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tidegate.diagnosis.airflow import AirflowFacts, AirflowNeeds, judge_airflow
from tidegate.diagnosis.finding import Finding, make_error
from tidegate.diagnosis.probes import Probe
from tidegate.settings import PACKAGE
from tidegate.wiring.diagnosis.subjects import Subjects

MODULE = "tidegate_airflow.doctor_facts"
# Airflow takes seconds to import, on a busy machine ten and more
MIN_SECONDS = 40
MAX_SECONDS = 60


def has_airflow(environ: Mapping[str, str] | None = None) -> bool:
    """Whether an Airflow is set up here: its home has a configuration, or variables configure it."""
    variables = os.environ if environ is None else environ
    home = variables.get("AIRFLOW_HOME")
    is_configured = any(name.startswith("AIRFLOW__") for name in variables)
    has_file = home is not None and (Path(home).expanduser() / "airflow.cfg").exists()
    return (is_configured or has_file) and find_spec("airflow") is not None


def list_airflow_probes(subjects: Subjects) -> list[Probe]:
    """One probe where Airflow is here, else none."""
    if not has_airflow():
        return []
    users = (*subjects.pipelines, *subjects.publications)
    return [
        Probe(
            name="Airflow",
            check="airflow.environment",
            run=partial(_check_airflow, _list_needs(subjects)),
            used_by=users,
            least_seconds=MIN_SECONDS,
        )
    ]


def _list_needs(subjects: Subjects) -> AirflowNeeds:
    waiting_names = tuple(name for name, pipeline in subjects.pipelines.items() if pipeline.merge.records_threshold > 0)
    catalogs = {table.catalog for pipeline in subjects.pipelines.values() for table in pipeline.entries}
    catalogs |= {publication.catalog for publication in subjects.publications.values()}
    return AirflowNeeds(subjects.list_connections(), tuple(sorted(catalogs)), waiting_names)


def _check_airflow(needs: AirflowNeeds) -> Iterator[Finding]:
    paths = [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    completed = subprocess.run(
        [sys.executable, "-m", MODULE, json.dumps(sorted(needs.connections))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )
    lines = completed.stdout.strip().splitlines()
    if completed.returncode or not lines:
        reason = (completed.stderr.strip().splitlines() or ["no output"])[-1]
        advice = "run `airflow info`, and correct airflow.cfg or the environment"
        yield make_error("airflow.environment", f"Airflow does not start: {reason}", advice)
        return
    yield from judge_airflow(needs, AirflowFacts.from_dict(json.loads(lines[-1])))
