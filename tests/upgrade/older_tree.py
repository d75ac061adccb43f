"""The files of the version before, out of this repository's own history."""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSION = "55612a2"  # the last 0.1 before its packages were moved; `tests/upgrade` holds what it left
FOLDERS = ("dags", "plugins", "jobs", "include/sql", "pyproject.toml")


def is_there() -> bool:
    """Whether this checkout has its history: a shallow clone, or an archive, has none."""
    command = ["git", "-C", str(ROOT), "cat-file", "-e", f"{VERSION}^{{commit}}"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def unpack(folder: Path) -> Path:
    """Lay what Airflow runs of it into the folder."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", VERSION, *FOLDERS]
    process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    with tarfile.open(fileobj=BytesIO(process.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder
