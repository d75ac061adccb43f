"""How many examples a property is tried with: a quarter of them in `make test`, all of them in `make test-long`.

The first ones are the same in both where a test asks for the same examples each time.
"""

import os

ALL = "TIDEGATE_EXAMPLES"  # "all", as `make test-long` sets it
SHARE, LEAST = 4, 60


def choose_number(all_of_them: int) -> int:
    """The examples of a property in this run."""
    return all_of_them if os.environ.get(ALL) == "all" else min(all_of_them, max(LEAST, all_of_them // SHARE))
