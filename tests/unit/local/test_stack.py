"""What `make up` refuses, and what it writes for others to read."""

import json
import stat
import subprocess
from collections import namedtuple
from pathlib import Path

import pytest

from local import ports, spark, stack
from local.__main__ import main
from local.bigquery import server as bigquery
from local.errors import StackError, find_relevant_line
from local.kafka.cluster import name_ports, plan_kafka
from local.kafka.security import Guard
from local.kafka.storage import Broker, build_settings
from local.layout import ROOT, RunDir
from local.processes import Identity
from local.server import build_java_command
from local.state import State, read_env_file, render_env_file
from local.supervisor import Request, plan_stack

Usage = namedtuple("Usage", "total used free")


def test_a_full_disk_is_refused_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.stack.shutil.disk_usage", lambda _: Usage(10**12, 10**12, 3 * 10**8))
    with pytest.raises(StackError, match="disk full: 300 MB free"):
        stack.start_stack(tmp_path)
    assert not (tmp_path / "stack.json").exists()


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"unknown parts=\['flink'\]"):
        stack.start_stack(tmp_path, {"kafka", "flink"})


@pytest.mark.parametrize("arguments", ["", "-XX:TieredStopAtLevel=1 -Da=b"])
def test_jvm_options_of_the_environment_reach_the_brokers_and_the_spark_server(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_STACK_JVM_OPTIONS", arguments)
    monkeypatch.setenv("JAVA_HOME", "/jdk")
    assert build_java_command("kafka", "Main")[: -len(["-cp", "jars", "Main"])] == ("/jdk/bin/java", *arguments.split())
    command = spark.build_server(RunDir(tmp_path), 1).command
    (options,) = (part for part in command if part.startswith("spark.driver.extraJavaOptions="))
    assert [option for option in arguments.split() if option not in options.split()] == []
    assert ("-Da=b" in options) == bool(arguments)


def test_a_taken_port_is_one_line_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ports.socket.socket() as listener:
        listener.bind((ports.HOST, 0))
        listener.listen()
        monkeypatch.setenv("TIDEGATE_RUN", str(tmp_path))
        monkeypatch.setenv("TIDEGATE_KAFKA_PORT", str(listener.getsockname()[1]))
        assert main(["up"]) == 1
    assert capsys.readouterr().err.startswith("up: port taken: TIDEGATE_KAFKA_PORT=")
    assert not (tmp_path / "env").exists()


def test_bigquery_without_its_environment_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.bigquery.environment.is_built", lambda: False)
    with pytest.raises(StackError, match=r"^bigquery: .* run make setup WITH=bigquery"):
        bigquery.build_server(RunDir(tmp_path), 1, 2)


def test_down_without_a_stack_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_RUN", str(tmp_path / "never"))
    assert main(["down"]) == 0


def test_a_state_of_a_dead_supervisor_does_not_count_as_up(tmp_path: Path) -> None:
    State("mark", Identity(2**22 - 1, 1.0, "mark"), ["kafka"], phase="up").write(tmp_path / "stack.json")
    assert not stack.is_up(tmp_path)


def test_half_a_state_file_is_no_state(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text('{"mark": "x", "superv')
    assert State.read(tmp_path / "stack.json") is None


def test_the_env_file_means_the_same_to_a_shell_and_to_us(tmp_path: Path) -> None:
    exported = spark.build_connection(5678)
    (tmp_path / "env").write_text(render_env_file({"KAFKA_BOOTSTRAP": "127.0.0.1:1234", "KAFKA_PID": "17"}, exported))
    script = f'. {tmp_path}/env; printf "%s\\n" "$KAFKA_PID"; env'
    output = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    env_file = read_env_file(tmp_path / "env")
    assert output.startswith("17\n")
    assert f"AIRFLOW_CONN_SPARK_DEFAULT={env_file['AIRFLOW_CONN_SPARK_DEFAULT']}\n" in output
    assert json.loads(env_file["AIRFLOW_CONN_SPARK_DEFAULT"])["port"] == 5678
    assert env_file["KAFKA_BOOTSTRAP"] == "127.0.0.1:1234"


def test_env_file_leads_commands_to_the_pipelines_of_this_stack(tmp_path: Path) -> None:
    """The commands that the page shows are typed in a shell that has sourced the file."""
    own, checkout = tmp_path / "include", ROOT / "include"
    plans = [
        plan_stack(Request(str(tmp_path / f"{number}"), ["kafka", "airflow"], include=str(include)))
        for number, include in enumerate((own, checkout))
    ]
    assert [plan.exported.get("TIDEGATE_INCLUDE") for plan in plans] == [str(own), None]


def test_free_ports_differ_and_stay_out_of_the_range_for_outgoing_connections() -> None:
    port_numbers = ports.choose_ports([f"server{number}" for number in range(50)]).values()
    assert len(set(port_numbers)) == 50
    assert all(20000 <= port < 32000 for port in port_numbers)


def test_the_error_of_a_log_is_preferred_to_its_last_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("INFO start\nERROR no space left on device\n  at a.b.c\nINFO shutting down\n")
    assert find_relevant_line(log) == "ERROR no space left on device"


def test_three_brokers_behind_a_guard_find_each_other_and_show_no_password(tmp_path: Path) -> None:
    parts = ["kafka", "brokers", "secure"]
    names = name_ports(parts)
    assert names == [
        *("kafka", "controller", "inner", "kafka_2", "controller_2", "inner_2", "kafka_3", "controller_3", "inner_3")
    ]
    plan = plan_kafka(RunDir(tmp_path), parts, {name: port for port, name in enumerate(names, start=1001)})
    assert plan.bootstrap == "127.0.0.1:1001,127.0.0.1:1004,127.0.0.1:1007"
    assert [server.name for server in plan.servers] == ["kafka", "kafka_2", "kafka_3"]
    assert [server.variable for server in plan.servers] == ["KAFKA_PID", "KAFKA_2_PID", "KAFKA_3_PID"]
    extra = json.loads(plan.variables["AIRFLOW_CONN_KAFKA_DEFAULT"])["extra"]
    assert (extra["bootstrap.servers"], extra["security.protocol"]) == (plan.bootstrap, "SASL_SSL")
    administrator = Path(plan.variables["KAFKA_ADMIN_FILE"])
    assert "sasl.username=admin\n" in administrator.read_text()
    assert stat.S_IMODE(administrator.stat().st_mode) == 0o600
    plan_text = str([(server.command, dict(server.env)) for server in plan.servers])
    assert extra["sasl.password"] not in plan_text


def test_each_broker_has_its_own_number_and_ports_and_the_same_quorum(tmp_path: Path) -> None:
    ports = {"kafka": 1, "controller": 2, "inner": 3}
    open_settings, guarded_settings = (
        build_settings(tmp_path, Broker(2, ports, "1@a:1,2@b:2", 3, "cluster", guard))
        for guard in (None, Guard(tmp_path, {"admin": "p4ss", "tidegate": "w0rd"}))
    )
    assert (open_settings["node.id"], open_settings["controller.quorum.voters"]) == (2, "1@a:1,2@b:2")
    assert (open_settings["default.replication.factor"], open_settings["min.insync.replicas"]) == (3, 2)
    assert open_settings["listeners"] == "CLIENTS://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
    assert open_settings["inter.broker.listener.name"] == "CLIENTS"
    assert "authorizer.class.name" not in open_settings
    assert guarded_settings["listener.security.protocol.map"] == "CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT,INNER:PLAINTEXT"
    assert guarded_settings["advertised.listeners"] == "CLIENTS://127.0.0.1:1,INNER://127.0.0.1:3"
    assert guarded_settings["inter.broker.listener.name"] == "INNER"
    assert 'user_admin="p4ss" user_tidegate="w0rd"' in str(
        guarded_settings["listener.name.clients.plain.sasl.jaas.config"]
    )


def test_users_of_a_spark_server_with_a_token_find_it_by_name_as_its_client_demands() -> None:
    assert spark.build_remote(7) == "sc://127.0.0.1:7"
    assert spark.build_remote(7, "t0ken") == "sc://localhost:7/;token=t0ken"
    connection = json.loads(spark.build_connection(7, "t0ken")["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert connection == {"conn_type": "spark_connect", "host": "sc://localhost", "port": 7, "password": "t0ken"}
