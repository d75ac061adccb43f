"""What a machine lacks for the tests is said in one line each before any test runs, as is what is left out."""

from pathlib import Path

import machine
import postgres
import pytest

from local.bigquery import environment

LONG_STEPS = (machine.bring_rabbitmq, machine.bring_older_airflow, machine.bring_flink, machine.bring_engines)


def test_each_tool_that_is_missing_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert [line.split()[0] for line in machine.find_tools()] == ["a", "openssl:", "setpriv"]
    (tmp_path / "bin").mkdir()
    compiler = tmp_path / "bin" / "javac"
    compiler.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert len(machine.find_tools()) == 2


def test_build_without_bigquerys_server_has_to_be_allowed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "is_built", lambda: False)
    monkeypatch.delenv("TIDEGATE_WITHOUT_BIGQUERY", raising=False)
    monkeypatch.setenv("CI", "true")
    assert "TIDEGATE_WITHOUT_BIGQUERY=1" in machine.find_python()[0]
    monkeypatch.setenv("TIDEGATE_WITHOUT_BIGQUERY", "1")
    assert machine.find_python() == []
    assert "NOT TESTED: BigQuery" in capsys.readouterr().out


def test_postgres_is_left_out_aloud_or_missing_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(postgres, "find_binaries", lambda: None)
    monkeypatch.setattr(machine.debian, "install", lambda *packages: None)
    monkeypatch.delenv(postgres.ALLOWED_WITHOUT, raising=False)
    assert machine.bring_postgres() == [postgres.MISSING]
    monkeypatch.setenv(postgres.ALLOWED_WITHOUT, "1")
    assert machine.bring_postgres() == []
    assert "NOT TESTED: PostgreSQL" in capsys.readouterr().out


def test_every_line_of_what_is_missing_is_told_and_the_run_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in (
        "find_python",
        "bring_postgres",
        "bring_chromium",
        "bring_promtool",
        "bring_redis",
        "bring_debezium",
        "bring_s3mock",
        "bring_fab",
        "compile_analyzer",
    ):
        monkeypatch.setattr(machine, step, lambda: [])
    monkeypatch.setattr(machine, "find_tools", lambda: ["this", "that"])
    assert machine.main() == 1
    assert capsys.readouterr().err.splitlines() == ["test-setup: missing: this", "test-setup: missing: that"]
    monkeypatch.setattr(machine, "find_tools", lambda: [])
    assert machine.main() == 0


def test_what_only_long_tests_need_is_fetched_for_these_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in [name for name in vars(machine) if name.startswith(("find_", "bring_", "compile_"))]:
        monkeypatch.setattr(machine, step, lambda: [])
    fetches = list[str]()
    monkeypatch.setattr(machine.rabbitmq_server, "is_there", lambda: False)
    monkeypatch.setattr(machine.rabbitmq_server, "fetch", lambda: fetches.append("rabbitmq"))
    monkeypatch.setattr(machine.older_airflow, "bring", lambda: fetches.append("airflow"))
    monkeypatch.setattr(machine.flink, "bring", lambda: str(fetches.append("flink") or ""))
    monkeypatch.setattr(machine.engine_packages, "bring", lambda: fetches.append("engines"))
    for step in LONG_STEPS:
        monkeypatch.setattr(machine, step.__name__, step)
    for tests in ((), ("not long",)):
        assert machine.main(*tests) == 0
    assert fetches == []
    for number, tests in enumerate(("long", "long or not long"), 1):
        assert machine.main(tests) == 0
        assert sorted(fetches) == sorted(["airflow", "engines", "flink", "rabbitmq"] * number)  # beside each other
        assert "NOT TESTED: rabbitmq: no RabbitMQ was found" in capsys.readouterr().out
