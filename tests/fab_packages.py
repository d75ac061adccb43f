"""Airflow's FAB auth manager, whose roles and rights to single DAGs a test goes through: packages below `.cache`."""

import os
from pathlib import Path

from locked_packages import bring_packages

from local import setup

FOLDER = Path(os.environ.get("TIDEGATE_FAB") or setup.CACHE / "fab")  # another folder with these packages
LOCK_FILE = Path(__file__).parent / "fab" / "requirements.txt"
MISSING = "Airflow's FAB auth manager, whose roles a test goes through: run make test-setup, which fetches it"


def is_there() -> bool:
    """Whether the packages are installed in their folder."""
    return (FOLDER / "airflow" / "providers" / "fab").is_dir()


def bring() -> None:
    """Fetch them unless they are there as the lock says."""
    bring_packages(FOLDER, LOCK_FILE, "Airflow's FAB auth manager")
