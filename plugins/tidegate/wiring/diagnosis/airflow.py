"""Airflow, where it is set up in this environment: asked in a process of its own, which may be slow or hang."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from tidegate.diagnosis.finding import Finding, Severity, make_error
from tidegate.settings import PACKAGE

MODULE = "tidegate_airflow.doctor_facts"
AIRFLOW_SECONDS = 60  # it takes seconds to import, on a busy machine ten and more


def has_airflow(environ: Mapping[str, str] | None = None) -> bool:
    """Whether an Airflow is set up here: its home has a configuration, or variables configure it."""
    variables = os.environ if environ is None else environ
    home = variables.get("AIRFLOW_HOME")
    is_configured = any(name.startswith("AIRFLOW__") for name in variables)
    has_file = home is not None and (Path(home).expanduser() / "airflow.cfg").exists()
    return (is_configured or has_file) and find_spec("airflow") is not None


def ask_airflow(triggered: list[str]) -> Iterator[Finding]:
    """What it lacks, or why it does not start. `triggered` are the pipelines that a trigger waits for."""
    paths = [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    completed = subprocess.run(
        [sys.executable, "-m", MODULE, json.dumps(triggered)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=AIRFLOW_SECONDS,
        check=False,
    )
    lines = completed.stdout.strip().splitlines()
    if completed.returncode or not lines:
        reason = (completed.stderr.strip().splitlines() or ["no output"])[-1]
        text = f"Airflow does not start: {reason}; run `airflow info`, and correct airflow.cfg or the environment"
        yield make_error("airflow.environment", text)
        return
    for row in json.loads(lines[-1]):
        yield Finding(**{**row, "severity": Severity(row["severity"]), "used_by": tuple(row["used_by"])})
