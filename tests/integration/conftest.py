"""Builds without PostgreSQL: allowed only by a setting, and with a loud message."""

import os

from postgres import ALLOWED_WITHOUT

NEEDING = ["test_debezium_postgres.py", "test_server_connections.py"]
collect_ignore = NEEDING if os.environ.get(ALLOWED_WITHOUT) else []


def pytest_report_header() -> list[str]:
    return (
        [f"{ALLOWED_WITHOUT} is set: NOT TESTED against a real Debezium connector, nor with a catalog in PostgreSQL"]
        if collect_ignore
        else []
    )
