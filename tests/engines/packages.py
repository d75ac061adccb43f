"""DuckDB with its extensions, and ClickHouse: packages below `.cache`, each for a process of its own."""

import shutil
from pathlib import Path

from local import setup

FOLDER = setup.CACHE / "engines"
LOCK_FILE = Path(__file__).parent / "requirements.txt"
MISSING = "the engines that read the tables are missing: run make test-engines, which fetches them"


def is_there() -> bool:
    """Whether the packages of the lock are installed in their folder."""
    stamp = FOLDER / setup.STAMP_NAME
    return stamp.exists() and stamp.read_text() == setup.compute_digest(LOCK_FILE)


def bring() -> None:
    """Fetch them unless they are there as the lock says."""
    setup.build_unless_stamped(FOLDER, setup.compute_digest(LOCK_FILE), "DuckDB and ClickHouse", _install_packages)


def _install_packages() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    python = setup.VENV / "bin" / "python"
    command = [str(setup.VENV / "bin" / "uv"), "pip", "install", "--require-hashes", "--no-deps"]
    command += ["--python", str(python), "--target", str(FOLDER), "-r", str(LOCK_FILE)]
    setup.run_command("install DuckDB and ClickHouse", command, setup.build_uv_settings(python))
