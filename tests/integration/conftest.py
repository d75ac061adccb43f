"""Builds without PostgreSQL: said loudly, and only where somebody allowed it."""

import os

from postgres import ALLOWED_WITHOUT

collect_ignore = ["test_debezium_postgres.py"] if os.environ.get(ALLOWED_WITHOUT) else []


def pytest_report_header() -> list[str]:
    return [f"{ALLOWED_WITHOUT} is set: NOT TESTED against a real Debezium connector"] if collect_ignore else []
