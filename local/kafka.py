"""Owns the Kafka broker: one KRaft node on this machine, small, forgetting everything when the stack goes down."""

import base64
import shutil
import subprocess
import uuid
from pathlib import Path

from local.errors import StackError, find_relevant_line
from local.layout import LOG4J, RunDir
from local.ports import HOST, is_answering
from local.server import Server, build_clean_environment, build_java_command, create_log, run_probe

HEAP_SIZE = "512m"


def build_server(run: RunDir, port: int, controller_port: int) -> Server:
    """The broker, with clients on `port` and its own quorum of one on `controller_port`."""
    folder, log = run.path / "kafka", create_log(run, "kafka")
    return Server(
        name="kafka",
        command=build_java_command(
            "kafka", "-Xmx" + HEAP_SIZE, f"-Dlog4j2.configurationFile={LOG4J}", "kafka.Kafka", "server.properties"
        ),
        folder=folder,
        log=log,
        probe=lambda _: is_answering(port) and run_probe("local.kafka_probe", f"{HOST}:{port}", run),
        env=build_clean_environment(),
        variable="KAFKA_PID",
        prepare=lambda: _format_storage(folder, log, port, controller_port),
    )


def _format_storage(folder: Path, log: Path, port: int, controller_port: int) -> None:
    """Empty the broker's folder and write its settings and its storage's identity."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "server.properties").write_text(_render_properties(folder / "data", port, controller_port))
    # given as --name=value: one id in 64 begins with a dash and would be read as an option
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    words = (f"-Dlog4j2.configurationFile={LOG4J}", "kafka.tools.StorageTool", "format", "-c", "server.properties")
    tool = build_java_command("kafka", *words)
    with log.open("ab") as output:
        result = subprocess.run(
            [*tool, f"--cluster-id={cluster}"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    if result.returncode:
        raise StackError(f"kafka: its storage cannot be formatted: {find_relevant_line(log)} (log: {log})")


def _render_properties(data: Path, port: int, controller_port: int) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": data,
        "auto.create.topics.enable": "false",  # a mistyped topic is an error, here as in production
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "broker.session.timeout.ms": 4000,  # a killed broker may come back under its id only after this
        "broker.heartbeat.interval.ms": 1000,
        "log.retention.ms": -1,  # records with old timestamps stay: examples and tests like to use them
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
