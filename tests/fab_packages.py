"""Airflow's FAB auth manager, whose roles and rights to single DAGs a test goes through: packages below `.cache`."""

import os
import shutil
from pathlib import Path

from local import setup

FOLDER = Path(os.environ.get("TIDEGATE_FAB") or setup.CACHE / "fab")  # another folder with these packages
LOCK_FILE = Path(__file__).parent / "fab" / "requirements.txt"
MISSING = "Airflow's FAB auth manager, whose roles a test goes through: run make test-setup, which fetches it"


def is_there() -> bool:
    """Whether the packages are installed in their folder."""
    return (FOLDER / "airflow" / "providers" / "fab").is_dir()


def bring() -> None:
    """Fetch them unless they are there as the lock says."""
    digest = setup.compute_digest(LOCK_FILE)
    setup.build_unless_stamped(FOLDER, digest, "Airflow's FAB auth manager", _install_packages)


def _install_packages() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    python = setup.VENV / "bin" / "python"
    command = [str(setup.VENV / "bin" / "uv"), "pip", "install", "--require-hashes", "--no-deps"]
    command += ["--python", str(python), "--target", str(FOLDER), "-r", str(LOCK_FILE)]
    setup.run_command("install Airflow's FAB auth manager", command, setup.build_uv_settings(python))
