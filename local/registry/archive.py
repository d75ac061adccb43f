"""Owns the program of the schema registry: its archive, fetched, verified and unpacked.

Runs on a plain system Python, so it imports nothing but the standard library.
"""

import tarfile
from pathlib import Path

from local import setup
from local.artifact import fetch_artifact, read_lock

FOLDER = setup.CACHE / "registry"
LOCK_FILE = Path(__file__).parent / "artifact.sha256"


def build_program() -> bool:
    """Fetch and unpack the archive if it is missing; True when it was fetched."""
    return setup.build_unless_stamped(
        FOLDER, read_lock(LOCK_FILE)[0], "the schema registry's program (109 MB)", _unpack_archive
    )


def is_built() -> bool:
    """Whether the program of the lock file is unpacked."""
    stamp = FOLDER / setup.STAMP_NAME
    return stamp.exists() and stamp.read_text() == read_lock(LOCK_FILE)[0]


def find_program() -> Path:
    """The jar that starts the registry. Its libraries are in the same folder."""
    (program,) = FOLDER.glob("*-runner.jar")
    return program


def _unpack_archive() -> None:
    archive = fetch_artifact(LOCK_FILE, FOLDER)
    with tarfile.open(archive) as packed:
        packed.extractall(FOLDER, filter="data")
    archive.unlink()
