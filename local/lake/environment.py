"""Owns the environment of the server that answers like S3, whose packages are nothing that the product needs.

Runs on a plain system Python, so it imports nothing but the standard library.
"""

import shutil
import sys

from local import setup

FOLDER = setup.CACHE / "s3"
SERVER = FOLDER / "bin" / "moto_server"
LOCK_FILE = setup.ROOT / "local" / "lake" / "requirements.txt"


def build_environment() -> bool:
    """Build what is missing; True when something was built."""
    return setup.build_unless_stamped(
        FOLDER, setup.compute_digest(LOCK_FILE), "the S3 server's packages (half a minute)", _install_packages
    )


def is_built() -> bool:
    """Whether the environment stands as the lock wants it."""
    stamp = FOLDER / setup.STAMP_NAME
    return stamp.exists() and stamp.read_text() == setup.compute_digest(LOCK_FILE)


def _install_packages() -> None:
    python = FOLDER / "bin" / "python"
    shutil.rmtree(FOLDER, ignore_errors=True)
    setup.run_command("create the S3 server's environment", [sys.executable, "-m", "venv", str(FOLDER)])
    sync = [str(setup.VENV / "bin" / "uv"), "pip", "sync", "--require-hashes", "--python", str(python), str(LOCK_FILE)]
    setup.run_command("install the S3 server", sync, setup.build_uv_settings(setup.VENV / "bin" / "python"))
