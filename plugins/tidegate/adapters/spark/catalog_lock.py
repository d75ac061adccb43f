"""Whether a job could commit to its SQLite catalogs: asked before Spark, which waits long and does not say why."""

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tidegate.adapters.server_probe import Patience
from tidegate.errors import RetryLater

CATALOG_URI_PATTERN = re.compile(r"spark\.sql\.catalog\.([^.]+)\.uri")
SQLITE_PREFIX = "jdbc:sqlite:"
LOCK_SECONDS = 8.0  # a commit holds the lock for milliseconds, and many may stand in front of this look


def require_free_catalogs(conf: Mapping[str, str]) -> None:
    """Return where nobody keeps the lock of a SQLite catalog of the session; `RetryLater` where somebody does.

    Takes each lock for a moment and gives it back; writes nothing. A file that is not on this machine is not looked at.
    """
    seconds = max(LOCK_SECONDS, Patience.seconds)
    for key, uri in conf.items():
        match = CATALOG_URI_PATTERN.fullmatch(key)
        if match and uri.startswith(SQLITE_PREFIX):
            path = Path(uri.removeprefix(SQLITE_PREFIX).partition("?")[0])
            if path.is_file() and _is_locked(path, seconds):
                raise RetryLater(
                    f"catalog={match[1]} file={path}: another program has kept its lock for {seconds:.0f} s, so "
                    "nothing can be committed; end that program; it will be tried again"
                )


def _is_locked(path: Path, seconds: float) -> bool:
    with closing(sqlite3.connect(path, timeout=seconds, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.DatabaseError as error:  # what else is wrong with it the job says
            return error.sqlite_errorcode == sqlite3.SQLITE_BUSY
    return False
