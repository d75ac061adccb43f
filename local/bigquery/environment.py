"""Owns the environment of the server that answers like BigQuery: it needs Python 3.13, the product does not.

Runs on a plain system Python, so it imports nothing but the standard library.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from local import setup

FOLDER = setup.CACHE / "bigquery"
PYTHON = FOLDER / "bin" / "python"
LOCK_FILE = setup.ROOT / "local" / "bigquery" / "requirements.txt"
PYTHON_VERSION = "3.13"
MISSING_PYTHON = (
    f"no Python {PYTHON_VERSION} was found: install it "
    f"(python{PYTHON_VERSION}, pyenv or `uv python install {PYTHON_VERSION}`)"
)


def build_environment() -> bool:
    """Build the environment if it is missing; True when it was built. SetupError without a Python 3.13."""
    return setup.build_unless_stamped(
        FOLDER, setup.compute_digest(LOCK_FILE), "the BigQuery server's packages (a minute)", _install_packages
    )


def is_built() -> bool:
    """Whether the environment has the packages of the lock file."""
    return setup.has_packages(FOLDER, LOCK_FILE)


def _install_packages() -> None:
    python = next(_find_pythons(), None)
    if python is None:
        raise setup.SetupError(MISSING_PYTHON)
    setup.install_packages(FOLDER, python, LOCK_FILE, "BigQuery server")


def _find_pythons() -> Iterator[str]:
    """Interpreters of that version: on the path, known to uv, installed by pyenv; a shim may name one it lacks."""
    uv = str(setup.VENV / "bin" / "uv")
    uv_python = subprocess.run(
        [uv, "python", "find", "--no-project", PYTHON_VERSION], check=False, capture_output=True, text=True
    ).stdout.strip()
    installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{PYTHON_VERSION}*/bin/python{PYTHON_VERSION}"))
    for candidate in (shutil.which(f"python{PYTHON_VERSION}"), uv_python, *map(str, installed)):
        if candidate and _is_right_version(candidate):
            yield candidate


def _is_right_version(candidate: str) -> bool:
    code = "import ensurepip, sys; print(sys.version_info[:2])"
    try:
        result = subprocess.run([candidate, "-c", code], check=False, capture_output=True, text=True)
    except OSError:
        return False
    return result.stdout.strip() == str(tuple(map(int, PYTHON_VERSION.split("."))))
