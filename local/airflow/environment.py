"""Owns the packages of Airflow's Celery executor, which are nothing that the product needs: a folder beside `.venv`.

Runs on a plain system Python, so it imports nothing but the standard library.
"""

import shutil

from local import setup

FOLDER = setup.CACHE / "celery"
LOCK_FILE = setup.ROOT / "local" / "airflow" / "celery" / "requirements.txt"


def build_environment() -> bool:
    """Install the packages if they are missing; True when they were installed."""
    return setup.build_unless_stamped(FOLDER, setup.compute_digest(LOCK_FILE), "Celery's packages", _install_packages)


def is_built() -> bool:
    """Whether the folder holds the packages of the lock file."""
    return setup.has_packages(FOLDER, LOCK_FILE)


def _install_packages() -> None:
    """Install only the packages of the lock. Their other dependencies are in `.venv` and must not exist twice."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    python = setup.VENV / "bin" / "python"
    install = [str(setup.VENV / "bin" / "uv"), "pip", "install", "--no-deps", "--require-hashes"]
    target_options = ["--python", str(python), "--target", str(FOLDER), "-r", str(LOCK_FILE)]
    setup.run_command("install Celery", [*install, *target_options], setup.build_uv_settings(python))
