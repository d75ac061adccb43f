"""Writes the password file of Airflow's simple auth manager from ``AIRFLOW_ADMIN_PASSWORD``, for its owner only."""

import json
import os
import sys


def write(path: str, password: str) -> None:
    """One user, ``admin``."""
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        json.dump({"admin": password}, file)


if __name__ == "__main__":
    write(sys.argv[1], os.environ["AIRFLOW_ADMIN_PASSWORD"])
