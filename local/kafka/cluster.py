"""Plans the brokers of a stack: their number, their addresses, and the variables that users get."""

import base64
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from local.kafka import security
from local.kafka.storage import Broker, format_storage
from local.layout import LOG4J, RunDir
from local.ports import HOST, is_answering
from local.server import Server, build_clean_environment, build_java_command, create_log, run_probe

HEAP_SIZE = "512m"
BROKERS = 3  # with the part `brokers`
CONNECTION = "AIRFLOW_CONN_KAFKA_DEFAULT"
ADMIN_FILE = "KAFKA_ADMIN_FILE"


@dataclass
class KafkaPlan:
    """Servers, the bootstrap address, and the variables of their users: the connection, and where an administrator's
    settings are.
    """

    servers: list[Server] = field(default_factory=list)
    bootstrap: str = ""
    variables: dict[str, str] = field(default_factory=dict)


def name_ports(parts: list[str]) -> list[str]:
    """What ports are to be chosen for: clients and the quorum, and among brokers where clients' door is guarded."""
    doors = ("kafka", "controller", *(("inner",) if "secure" in parts else ()))
    return [door + _get_suffix(number) for number in _number_brokers(parts) for door in doors]


def plan_kafka(run: RunDir, parts: list[str], port_numbers: Mapping[str, int]) -> KafkaPlan:
    """The brokers on the ports that were chosen for them; StackError without `openssl`, where TLS is asked for."""
    numbers = _number_brokers(parts)
    plan = KafkaPlan(bootstrap=",".join(f"{HOST}:{port_numbers['kafka' + _get_suffix(number)]}" for number in numbers))
    guard = security.build_guard(run.path / "kafka" / "tls") if "secure" in parts else None
    probe = {"bootstrap.servers": plan.bootstrap}
    extra = dict(probe)
    if guard:
        extra = guard.build_client(plan.bootstrap, security.USER)
        probe = guard.build_client(plan.bootstrap, security.ADMINISTRATOR)
        plan.variables[ADMIN_FILE] = str(guard.write_client_file(probe))
    plan.variables[CONNECTION] = json.dumps({"conn_type": "kafka", "extra": extra})
    # given as --name=value: one id in 64 begins with a dash and would be read as an option
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    quorum = ",".join(f"{number}@{HOST}:{port_numbers['controller' + _get_suffix(number)]}" for number in numbers)
    for number in numbers:
        ports = {
            door: port_numbers[door + _get_suffix(number)]
            for door in ("kafka", "controller", "inner")
            if door + _get_suffix(number) in port_numbers
        }
        broker = Broker(number, ports, quorum, len(numbers), cluster, guard)
        plan.servers.append(_build_server(run, broker, probe))
    return plan


def _number_brokers(parts: list[str]) -> range:
    return range(1, (BROKERS if "brokers" in parts else 1) + 1)


def _get_suffix(number: int) -> str:
    """The first has the names that the only one has."""
    return "" if number == 1 else f"_{number}"


def _build_server(run: RunDir, broker: Broker, probe: Mapping[str, str]) -> Server:
    name = f"kafka{_get_suffix(broker.number)}"
    folder, log = run.path / "kafka" / str(broker.number), create_log(run, name)
    port = broker.ports["kafka"]
    return Server(
        name=name,
        command=build_java_command(
            "kafka", "-Xmx" + HEAP_SIZE, f"-Dlog4j2.configurationFile={LOG4J}", "kafka.Kafka", "server.properties"
        ),
        folder=folder,
        log=log,
        probe=lambda _: is_answering(port) and run_probe(name, "local.kafka.probe", json.dumps(probe), run),
        env=build_clean_environment(),
        variable=f"{name.upper()}_PID",
        prepare=lambda: format_storage(folder, log, broker),
    )
