"""Prints the lock's entries of some packages, with their hashes: ``locked.py requirements.txt pyspark py4j``."""

import re
import sys
from pathlib import Path


def find_entry(lock: str, package: str) -> str:
    """The entry of one package; KeyError when the lock has none."""
    entry = re.search(rf"^{re.escape(package)}==.*(?:\n    --hash=.*)+", lock, re.MULTILINE)
    if entry is None:
        raise KeyError(f"no pinned entry with hashes for package={package}: run make lock")
    return entry.group(0)


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text()
    print("\n".join(find_entry(text, package) for package in sys.argv[2:]))
