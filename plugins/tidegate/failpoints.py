"""Named places between two effects of a job or an adapter, where a test may kill, fail or stop the process.

Outside tests nothing is installed and `hit_failpoint` does nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_visit: Callable[[str], None] | None = None


def hit_failpoint(point: str) -> None:
    """Mark that the effect before this line has happened and the one after it has not."""
    if _visit is not None:
        _visit(point)


@contextmanager
def install_visitor(visit: Callable[[str], None]) -> Iterator[None]:
    """Call `visit` at every point; tests only."""
    global _visit  # noqa: PLW0603 (one process runs one flush; a context variable would not reach its threads)
    before = _visit
    _visit = visit
    try:
        yield
    finally:
        _visit = before
