"""Debian's packages, for what the tests need and a bare machine lacks: a build server may be new."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

LOCK = Path(tempfile.gettempdir()) / "tidegate-tests-apt.lock"  # tests run in several processes, apt-get in one


def install(*packages: str) -> None:
    """Install the packages where we may, by `apt-get` as root; whether it worked is for the caller to see."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    wanted = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (["apt-get", "update", "-q"], wanted):
            # a build has no standard input, and nobody who could answer a question
            subprocess.run(
                command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=900, check=False
            )
