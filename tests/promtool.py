"""Prometheus's own tool, which reads alert rules and plays time against them: on the `PATH`, or from Debian's package.

The package is unpacked and not installed: installing it would start a server.
"""

import os
import shutil
import subprocess
from pathlib import Path

import debian

from local.setup import CACHE

FOLDER = CACHE / "promtool"
MISSING = "promtool, which judges the alert rules: install Prometheus (Debian: apt-get install prometheus)"


def find() -> Path | None:
    """Where it is; None where it is not."""
    installed = shutil.which("promtool")
    unpacked = FOLDER / "usr" / "bin" / "promtool"
    return Path(installed) if installed else unpacked if unpacked.is_file() else None


def fetch() -> None:
    """Unpack Debian's package where we may; whether it worked is for the caller to see."""
    debian.unpack("prometheus", FOLDER)


def run(*words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run it in a folder."""
    tool = find()
    assert tool, MISSING
    return subprocess.run(
        [str(tool), *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ)
    )
