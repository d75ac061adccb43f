"""Writes the password file of Airflow's simple auth manager, for its owner only: ``passwords.py FILE SECRET``."""

import json
import os
import sys
from pathlib import Path


def write(path: str, password: str) -> None:
    """One user, ``admin``."""
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        json.dump({"admin": password}, file)


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]).read_text().strip())
