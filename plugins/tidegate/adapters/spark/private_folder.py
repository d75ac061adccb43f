"""A folder with what a submitted job needs, secrets too: it goes with the job, a killed process's with the next job."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "tidegate-submit-"
LOCK = "lock"


@contextmanager
def open_private_folder() -> Iterator[Path]:
    """A folder that this user alone can read, removed afterwards.

    A process that is killed leaves its folder, with the job's settings in it. So each holds a lock in its own, which
    ends with the process, and removes first those that nobody holds.
    """
    _remove_leftovers()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        folder = Path(name)
        young = folder / f"{LOCK}.new"
        with young.open("w") as locked_file:
            fcntl.flock(locked_file, fcntl.LOCK_EX)
            young.rename(folder / LOCK)  # from now on others may try it
            yield folder


def _remove_leftovers() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), (folder / LOCK).open() as lock:  # of another user, just made, or held
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
