"""DuckDB with its extensions, and ClickHouse: packages below `.cache`, each for a process of its own."""

from pathlib import Path

from locked_packages import bring_packages

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
    bring_packages(FOLDER, LOCK_FILE, "DuckDB and ClickHouse")
