"""Starts the process that reads the DAG files, over an include folder."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def read(folder: Path, **variables: str) -> dict[str, Any]:
    """The report of the DAG processor about an include folder, or of a task's process if `variables` say so."""
    path = os.pathsep.join(str(ROOT / part) for part in ("plugins", "jobs", "tests"))
    own = {"AIRFLOW_HOME": str(folder / "airflow"), "TIDEGATE_INCLUDE": str(folder), "PYTHONPATH": path}
    quiet = {"AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR", "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    process = subprocess.run(
        [sys.executable, "-m", "dag_reading"],
        env={**os.environ, **own, **quiet, **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    [line] = [line for line in process.stdout.splitlines() if line.startswith("SEEN ")]
    report: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
    return report
