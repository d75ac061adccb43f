"""nginx, which puts TLS before a Spark Connect server: on the `PATH`, or from Debian's package, unpacked."""

import shutil
from pathlib import Path

import debian

from local.setup import CACHE

FOLDER = CACHE / "nginx"
MISSING = "nginx, which puts TLS before Spark Connect: install it (Debian: apt-get install nginx)"


def find() -> Path | None:
    """Where it is; None where it is not."""
    installed, unpacked = shutil.which("nginx"), FOLDER / "usr" / "sbin" / "nginx"
    return Path(installed) if installed else unpacked if unpacked.is_file() else None


def fetch() -> None:
    """Unpack Debian's package where we may; whether it worked is for the caller to see."""
    debian.unpack("nginx", FOLDER)
