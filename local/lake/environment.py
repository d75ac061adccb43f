"""Owns the environment of the server that answers like S3, whose packages are nothing that the product needs.

Runs on a plain system Python, so it imports nothing but the standard library.
"""

import sys

from local import setup

FOLDER = setup.CACHE / "s3"
SERVER = FOLDER / "bin" / "moto_server"
LOCK_FILE = setup.ROOT / "local" / "lake" / "requirements.txt"


def build_environment() -> bool:
    """Build the environment if it is missing; True when it was built."""
    return setup.build_unless_stamped(
        FOLDER, setup.compute_digest(LOCK_FILE), "the S3 server's packages (half a minute)", _install_packages
    )


def is_built() -> bool:
    """Whether the environment has the packages of the lock file."""
    return setup.has_packages(FOLDER, LOCK_FILE)


def _install_packages() -> None:
    setup.install_packages(FOLDER, sys.executable, LOCK_FILE, "S3 server")
