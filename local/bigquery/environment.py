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
LOCK = setup.ROOT / "local" / "bigquery" / "requirements.txt"
VERSION = "3.13"
MISSING = f"no Python {VERSION} was found: install it (python{VERSION}, pyenv or `uv python install {VERSION}`)"


def build() -> bool:
    """Build what is missing; True when something was built. SetupError when there is no Python 3.13."""
    return setup.unless_stamped(FOLDER, setup.digest(LOCK), "the BigQuery server's packages (a minute)", _install)


def is_built() -> bool:
    """Whether the environment stands as the lock wants it."""
    stamp = FOLDER / setup.STAMP
    return stamp.exists() and stamp.read_text() == setup.digest(LOCK)


def _install() -> None:
    found = next(_pythons(), None)
    if found is None:
        raise setup.SetupError(MISSING)
    shutil.rmtree(FOLDER, ignore_errors=True)
    setup.run("create the BigQuery server's environment", [found, "-m", "venv", str(FOLDER)])
    sync = [str(setup.VENV / "bin" / "uv"), "pip", "sync", "--require-hashes", "--python", str(PYTHON), str(LOCK)]
    setup.run("install the BigQuery server", sync, setup.uv_settings(setup.VENV / "bin" / "python"))


def _pythons() -> Iterator[str]:
    """Interpreters of that version: on the path, known to uv, installed by pyenv; a shim may name one it lacks."""
    uv = str(setup.VENV / "bin" / "uv")
    asked = subprocess.run(
        [uv, "python", "find", "--no-project", VERSION], check=False, capture_output=True, text=True
    ).stdout.strip()
    installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{VERSION}*/bin/python{VERSION}"))
    for candidate in (shutil.which(f"python{VERSION}"), asked, *map(str, installed)):
        if candidate and _is_right(candidate):
            yield candidate


def _is_right(candidate: str) -> bool:
    code = "import ensurepip, sys; print(sys.version_info[:2])"
    try:
        asked = subprocess.run([candidate, "-c", code], check=False, capture_output=True, text=True)
    except OSError:
        return False
    return asked.stdout.strip() == str(tuple(map(int, VERSION.split("."))))
