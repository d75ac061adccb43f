"""What the process says of itself."""

import os
import socket

import pytest
from tidegate.settings import describe_run, find_user


def test_run_is_named_by_airflow_and_else_by_user_machine_and_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AIRFLOW_CTX_DAG_ID", "AIRFLOW_CTX_DAG_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    process = f"{find_user()}@{socket.gethostname()} pid={os.getpid()}"
    assert describe_run() == process
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "tidegate_Shop")
    assert describe_run() == process, "a DAG that only was parsed runs nothing"
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "scheduled__2026-01-01T00:00:00+00:00")
    assert describe_run() == "tidegate_Shop scheduled__2026-01-01T00:00:00+00:00"


def test_user_is_the_one_who_became_root_and_a_number_where_nobody_has_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SUDO_USER", "Ann")
    assert find_user() == "Ann"
    monkeypatch.delenv("SUDO_USER")

    def refuse() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", refuse)
    assert find_user() == f"uid {os.getuid()}"
