"""Names that no other test of a run has, however often a module is imported that makes them: `conftest` is, twice."""

import itertools
import os

_numbers = itertools.count(1)


def make_unique_name() -> str:
    """A unique name for a topic or another object of a server."""
    return f"t{os.getpid()}-{next(_numbers)}"
