"""A broker that requires TLS, a password and a right for each request; it can forget offsets soon."""

import base64
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from background_server import tie_to_test
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from conftest import wait_until

from local.kafka.cluster import HEAP_SIZE
from local.kafka.security import make_certificates
from local.layout import LOG4J
from local.ports import HOST, choose_ports, is_answering
from local.server import build_clean_environment, build_java_command


@dataclass(frozen=True)
class GuardedBroker:
    """`guarded` is the door for users, `backdoor` that of the superuser without a name; `process` can be killed."""

    guarded: str
    backdoor: str
    authority: Path
    admin: Any
    process: "BrokerProcess"

    def settings(self, user: str, password: str) -> dict[str, str]:
        """librdkafka's settings of a user."""
        return {
            "bootstrap.servers": self.guarded,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority),
        }

    def add_user(self, user: str, password: str) -> None:
        """Make a user who may do nothing yet."""
        credential_info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        requests = [UserScramCredentialUpsertion(user, credential_info, password.encode())]
        for future in self.admin.alter_user_scram_credentials(requests).values():
            future.result(30)

    def allow_documented(self, user: str, *topics: str) -> None:
        """What docs/security.md says that a pipeline needs of these topics, and nothing else."""
        for topic in topics:
            self.allow(user, "TOPIC", topic, "READ", "DESCRIBE_CONFIGS")
        self.allow(user, "TOPIC", "connect-heartbeats", "CREATE", "WRITE")
        self.allow(user, "GROUP", "tidegate-", "READ", prefixed=True)

    def allow_publication(self, user: str, topic: str, state_topic: str) -> None:
        """What docs/security.md says that a publication needs, without its transactional ids."""
        for name in (topic, state_topic):
            self.allow(user, "TOPIC", name, "CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")
        self.allow(user, "GROUP", "tidegate-publications", "READ")

    def allow_exactly_once(self, user: str, state_topic: str) -> None:
        """What it needs besides with `delivery: exactly-once`."""
        self.allow(user, "TRANSACTIONAL_ID", f"{state_topic}-", "WRITE", prefixed=True)

    def allow(self, user: str, kind: str, name: str, *operations: str, prefixed: bool = False) -> None:
        """Give a user rights to a topic, a group or a transactional id, by its whole name or by the beginning of it."""
        pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
        for operation in operations:
            acl_words = (ResourceType[kind], name, pattern, f"User:{user}", "*")
            binding = AclBinding(*acl_words, AclOperation[operation], AclPermissionType.ALLOW)
            for future in self.admin.create_acls([binding]).values():
                future.result(30)


class BrokerProcess:
    """The broker over its folder: what it holds outlives it."""

    def __init__(self, folder: Path, doors: tuple[int, ...]) -> None:
        self._folder, self._doors = folder, doors
        self.start()

    def start(self) -> None:
        """Return when it answers."""
        command = build_java_command(
            "kafka", f"-Xmx{HEAP_SIZE}", f"-Dlog4j2.configurationFile={LOG4J}", "kafka.Kafka", "server.properties"
        )
        with (self._folder / "kafka.log").open("ab") as log:
            environment = build_clean_environment()
            self._process = subprocess.Popen(
                tie_to_test(command), cwd=self._folder, stdout=log, stderr=log, env=environment
            )
        wait_until(lambda: all(map(is_answering, self._doors)), "the guarded broker")

    def kill(self) -> None:
        """As a machine that loses its power."""
        self._process.kill()
        self._process.wait(60)

    def stop(self) -> None:
        """Let it end by itself."""
        self._process.terminate()
        self._process.wait(60)


@contextmanager
def run_guarded_broker(folder: Path, keep_offsets_minutes: int = 1) -> Iterator[GuardedBroker]:
    """The broker, running; it ends with the block."""
    folder.mkdir(parents=True)
    session = choose_ports(["guarded", "backdoor", "controller"])
    make_certificates(folder)
    (folder / "server.properties").write_text(_render_properties(folder, session, keep_offsets_minutes))
    identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    format_ = build_java_command(
        "kafka", "kafka.tools.StorageTool", "format", "-c", "server.properties", f"--cluster-id={identity}"
    )
    with (folder / "kafka.log").open("ab") as log:
        subprocess.run(format_, cwd=folder, stdout=log, stderr=log, env=build_clean_environment(), check=True)
    process = BrokerProcess(folder, (session["guarded"], session["backdoor"]))
    try:
        backdoor = f"{HOST}:{session['backdoor']}"
        admin = AdminClient({"bootstrap.servers": backdoor, "log_level": 0})
        yield GuardedBroker(f"{HOST}:{session['guarded']}", backdoor, folder / "ca.pem", admin, process)
    finally:
        process.stop()


def _render_properties(folder: Path, session: dict[str, int], keep_offsets_minutes: int) -> str:
    doors = ",".join(f"{name.upper()}://{HOST}:{port}" for name, port in session.items())
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{session['controller']}",
        "listeners": doors,
        "advertised.listeners": ",".join(door for door in doors.split(",") if not door.startswith("CONTROLLER")),
        "listener.security.protocol.map": "GUARDED:SASL_SSL,BACKDOOR:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BACKDOOR",
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.guarded.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": folder / "broker.pem",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
        "log.dirs": folder / "data",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.retention.minutes": keep_offsets_minutes,
        "offsets.retention.check.interval.ms": 1000,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
