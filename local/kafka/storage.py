"""Writes a broker's settings and formats its empty storage, before the broker starts."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from local.errors import StackError, find_relevant_line
from local.kafka.security import Guard
from local.layout import LOG4J
from local.ports import HOST
from local.server import build_java_command, run_logged


@dataclass(frozen=True)
class Broker:
    """One of `count` nodes, broker and controller in one process.

    `ports` has one for clients (`kafka`), one for the `quorum` (`controller`), and with a `guard` one for other brokers
    (`inner`).
    """

    number: int
    ports: Mapping[str, int]
    quorum: str
    count: int
    cluster: str
    guard: Guard | None = None


def format_storage(folder: Path, log: Path, broker: Broker) -> None:
    """Empty the broker's folder and write its settings and its storage's identity."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = "".join(f"{name}={value}\n" for name, value in build_settings(folder / "data", broker).items())
    settings = folder / "server.properties"
    settings.touch(mode=0o600)  # it may hold passwords
    settings.write_text(text)
    words = (f"-Dlog4j2.configurationFile={LOG4J}", "kafka.tools.StorageTool", "format", "-c", "server.properties")
    tool = build_java_command("kafka", *words)
    if run_logged([*tool, f"--cluster-id={broker.cluster}"], folder, log):
        raise StackError(f"kafka: its storage cannot be formatted: {find_relevant_line(log)} (log: {log})")


def build_settings(data: Path, broker: Broker) -> dict[str, object]:
    """Its `server.properties`, with the storage in `data`."""
    replicas = broker.count
    in_sync = max(1, replicas - 1)
    return {
        "process.roles": "broker,controller",
        "node.id": broker.number,
        "controller.quorum.voters": broker.quorum,
        "controller.listener.names": "CONTROLLER",
        **_build_listeners(broker),
        "log.dirs": data,
        "auto.create.topics.enable": "false",  # a mistyped topic is an error, here as in production
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": 0,
        "broker.session.timeout.ms": 4000,  # a killed broker may come back under its id only after this
        "broker.heartbeat.interval.ms": 1000,
        "log.retention.ms": -1,  # records with old timestamps stay: examples and tests like to use them
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
    }


def _build_listeners(broker: Broker) -> dict[str, object]:
    """The listeners. Clients get an open one on this machine, or one with log-ins; then brokers get their own."""
    clients = "CLIENTS"
    doors = {clients: broker.ports["kafka"], "CONTROLLER": broker.ports["controller"]}
    if broker.guard:
        doors["INNER"] = broker.ports["inner"]
    listeners = {name: f"{name}://{HOST}:{port}" for name, port in doors.items()}
    protocols = {name: "SASL_SSL" if broker.guard and name == clients else "PLAINTEXT" for name in doors}
    return {
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": ",".join(place for name, place in listeners.items() if name != "CONTROLLER"),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name": "INNER" if broker.guard else clients,
        **(broker.guard.build_settings(clients) if broker.guard else {}),
    }
