"""Owns the packages of Airflow's Celery executor, which are nothing that the product needs: a folder beside `.venv`.

Runs on a plain system Python, so it imports nothing but the standard library.
"""

import shutil

from local import setup

FOLDER = setup.CACHE / "celery"
LOCK_FILE = setup.ROOT / "local" / "airflow" / "celery" / "requirements.txt"


def build_environment() -> bool:
    """Build what is missing; True when something was built."""
    return setup.build_unless_stamped(FOLDER, setup.compute_digest(LOCK_FILE), "Celery's packages", _install_packages)


def is_built() -> bool:
    """Whether the folder holds what the lock says."""
    return setup.has_packages(FOLDER, LOCK_FILE)


def _install_packages() -> None:
    """Only the packages of the lock: what these need besides is in `.venv`, and must be there once."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    python = setup.VENV / "bin" / "python"
    install = [str(setup.VENV / "bin" / "uv"), "pip", "install", "--no-deps", "--require-hashes"]
    where = ["--python", str(python), "--target", str(FOLDER), "-r", str(LOCK_FILE)]
    setup.run_command("install Celery", [*install, *where], setup.build_uv_settings(python))
