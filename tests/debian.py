"""Debian's packages, for what the tests need and a bare machine lacks: a build server may be new."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

LOCK = Path(tempfile.gettempdir()) / "tidegate-tests-apt.lock"  # tests run in several processes, apt-get in one


def install(*packages: str) -> None:
    """Install the packages where we may, by `apt-get` as root; whether it worked is for the caller to see."""
    if _may_install():
        _update_lists()
        _run_together(["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages])


def unpack(package: str, folder: Path) -> None:
    """Lay the files of a package into a folder, and install nothing; where that worked is for the caller to see."""
    unpack_all([package], folder)


def unpack_all(packages: Sequence[str], folder: Path) -> None:
    """The same of packages that belong together."""
    if not _may_install():
        return
    folder.mkdir(parents=True, exist_ok=True)
    _update_lists()
    _run_together(["apt-get", "download", "-q", *packages], folder=folder)
    for archive in folder.glob("*.deb"):
        _run_together(["dpkg-deb", "-x", str(archive), str(folder)])
        archive.unlink()


def _may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


@cache
def _update_lists() -> None:
    """Once a process is enough."""
    _run_together(["apt-get", "update", "-q"])


def _run_together(*commands: list[str], folder: Path | None = None) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in commands:
            # a build has no standard input, and nobody who could answer a question
            subprocess.run(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=900,
                check=False,
            )
