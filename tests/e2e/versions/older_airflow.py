"""The oldest Airflow that is supported, out of which a test upgrades to that of the lock: packages below `.cache`."""

import os
import shutil
from pathlib import Path

from local import setup
from local.layout import ROOT

VERSION = "3.3.0"
FOLDER = Path(os.environ.get("TIDEGATE_OLDER_AIRFLOW") or setup.CACHE / "older-airflow")  # another one with these
LOCK_FILE = Path(__file__).parent / "requirements.txt"
MISSING = f"Airflow {VERSION}, out of which a test upgrades: run make test-setup TESTS=long, which fetches it"
NOT_LINKED = (setup.STAMP_NAME, "__pycache__", "bin", ".lock")


def is_there() -> bool:
    """Whether the packages are installed in their folder."""
    return (FOLDER / f"apache_airflow_core-{VERSION}.dist-info").is_dir()


def bring() -> None:
    """Install the packages, unless those of the lock are installed."""
    setup.build_unless_stamped(FOLDER, setup.compute_digest(LOCK_FILE), f"Airflow {VERSION}", _install_packages)


def lay_tree(folder: Path) -> Path:
    """A tree of this version of the product, before whose jobs, on the path of Airflow's services, lie the packages.

    What these need besides is in the environment of the lock.
    """
    jobs = folder / "jobs"
    jobs.mkdir(parents=True)
    for name in ("dags", "plugins", "include"):
        (folder / name).symlink_to(ROOT / name)
    for path in (*(ROOT / "jobs").iterdir(), *FOLDER.iterdir()):
        if path.name not in NOT_LINKED:
            (jobs / path.name).symlink_to(path)
    return folder


def _install_packages() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    python = setup.VENV / "bin" / "python"
    command = [str(setup.VENV / "bin" / "uv"), "pip", "install", "--require-hashes", "--no-deps"]
    command += ["--python", str(python), "--target", str(FOLDER), "-r", str(LOCK_FILE)]
    setup.run_command(f"install Airflow {VERSION}", command, setup.build_uv_settings(python))
