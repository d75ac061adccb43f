"""Three brokers of one test: it kills them, loses them for good and replaces them. Their controller is another process.

The local stack's brokers are the quorum too: without two of them it could elect no leader.
"""

import base64
import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, OffsetSpec
from conftest import wait_until
from unique_names import make_unique_name

from local.kafka.cluster import BROKERS, CONNECTION, HEAP_SIZE
from local.kafka.storage import Broker, build_settings
from local.layout import LOG4J
from local.ports import HOST, choose_ports, is_answering
from local.processes import start_process
from local.server import build_clean_environment, build_java_command

NUMBERS = range(1, BROKERS + 1)
CONTROLLER = BROKERS + 1
BROKERS_OWN = ("advertised.listeners", "inter.broker.listener.name")  # a controller would not start with them


class BrokerCluster:
    """Brokers by their numbers, 1 to 3; `variables` are what the local stack would tell of them."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._running = folder, dict[int, subprocess.Popen[bytes]]()
        self._identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._session = choose_ports([*(f"lost_{number}" for number in NUMBERS), "quorum"])
        self.addresses = {number: f"{HOST}:{self._session[f'lost_{number}']}" for number in NUMBERS}
        self.bootstrap = ",".join(self.addresses.values())
        connection = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap}})
        self.variables = {"KAFKA_BOOTSTRAP": self.bootstrap, CONNECTION: connection}

    def open_admin(self) -> Any:
        """A client that has no memory of brokers that went; keep it for as long as an answer is to come."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def name_first(self, number: int) -> str:
        """The bootstrap list that begins with this broker."""
        other_addresses = [address for n, address in self.addresses.items() if n != number]
        return ",".join([self.addresses[number], *other_addresses])

    # brokers

    def start_all(self) -> None:
        """Start them on empty disks."""
        for number in (CONTROLLER, *NUMBERS):
            self._format(number)
            self._start(number)
        for number in NUMBERS:
            wait_until(lambda: self._is_registered(number), f"broker {number} answers")  # noqa: B023

    def end_all(self) -> None:
        """Kill what runs."""
        for process in self._running.values():
            process.kill()
            process.wait(60)

    def kill(self, number: int) -> None:
        """As a machine that loses its power."""
        process = self._running.pop(number)
        process.kill()
        process.wait(60)

    def stop(self, number: int) -> None:
        """Let it hand over what it leads, and end."""
        process = self._running.pop(number)
        process.terminate()
        process.wait(120)

    def lose(self, number: int) -> None:
        """Kill the broker and remove its disk."""
        self.kill(number)
        shutil.rmtree(self._folder / str(number))

    def start(self, number: int) -> None:
        """Start it over what it holds; returns when it is one of the brokers again."""
        self._start(number)
        wait_until(lambda: self._is_registered(number), f"broker {number} is back")

    def replace(self, number: int) -> None:
        """Start one on an empty disk under the number of one that was lost."""
        self._format(number)
        self.start(number)

    def start_missing(self) -> None:
        """Start each broker that an earlier test stopped or lost."""
        for number in NUMBERS:
            if number not in self._running:
                self.start(number) if (self._folder / str(number)).exists() else self.replace(number)

    def _format(self, number: int) -> None:
        folder = self._folder / str(number)
        folder.mkdir(parents=True)
        settings = self._build_settings(number, folder / "data")
        (folder / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        words = ("format", "-c", "server.properties", f"--cluster-id={self._identity}")
        tool = build_java_command("kafka", "kafka.tools.StorageTool", *words)
        subprocess.run(tool, cwd=folder, env=build_clean_environment(), check=True, capture_output=True)

    def _build_settings(self, number: int, data: Path) -> Mapping[str, object]:
        door = {"kafka": self._session.get(f"lost_{number}", 0), "controller": self._session["quorum"]}
        quorum = f"{CONTROLLER}@{HOST}:{self._session['quorum']}"
        settings = build_settings(data, Broker(number, door, quorum, BROKERS, self._identity))
        is_broker = number in NUMBERS
        doors = str(settings["listeners"]).split(",")
        listener = next(door for door in doors if door.startswith("CONTROLLER") != is_broker)
        settings |= {"process.roles": "broker" if is_broker else "controller", "listeners": listener}
        return {name: value for name, value in settings.items() if is_broker or name not in BROKERS_OWN}

    def _start(self, number: int) -> None:
        command = build_java_command(
            "kafka", f"-Xmx{HEAP_SIZE}", f"-Dlog4j2.configurationFile={LOG4J}", "kafka.Kafka", "server.properties"
        )
        folder = self._folder / str(number)
        log = self._folder / f"{number}.log"
        self._running[number] = start_process(command, build_clean_environment(), folder, log)

    def _is_registered(self, number: int) -> bool:
        assert self._running[number].poll() is None, f"broker {number} has ended"
        if not is_answering(self._session[f"lost_{number}"]):
            return False
        try:
            return number in self.open_admin().list_topics(timeout=10).brokers
        except KafkaException:  # it may be the only one
            return False

    # topics

    def topic(self, *replicas: list[int], **config: str) -> str:
        """A topic with these replicas for each partition, the one that leads first; returns its name."""
        name = make_unique_name()
        new = NewTopic(name, num_partitions=len(replicas), replica_assignment=list(replicas), config=config)
        admin = self.open_admin()
        admin.create_topics([new])[name].result(30)
        wait_until(
            lambda: self.list_leaders(name) == [replica[0] for replica in replicas], f"topic={name} has its leaders"
        )
        return name

    def configure(self, topic: str, **config: str) -> None:
        """Set these of a topic's settings; the others stay."""
        changes = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in config.items()]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
        admin = self.open_admin()
        admin.incremental_alter_configs([resource])[resource].result(30)

    def list_leaders(self, topic: str) -> list[int]:
        """The broker that leads each partition; -1 for none."""
        return [partition.leader for partition in self._list_partitions(topic)]

    def list_in_sync(self, topic: str) -> list[list[int]]:
        """The replicas of each partition that have all of its records."""
        return [sorted(partition.isrs) for partition in self._list_partitions(topic)]

    def _list_partitions(self, topic: str) -> list[Any]:
        partitions = self.open_admin().list_topics(topic, timeout=30).topics[topic].partitions
        return [partitions[number] for number in sorted(partitions)]

    def read_ends(self, topic: str) -> list[int]:
        """The end of each partition's log, as a reader sees it."""
        places = [TopicPartition(topic, number) for number in range(len(self._list_partitions(topic)))]
        admin = self.open_admin()
        offsets = admin.list_offsets({place: OffsetSpec.latest() for place in places}, request_timeout=30)
        return [offsets[place].result(60).offset for place in places]


@contextmanager
def run_brokers(folder: Path) -> Iterator[BrokerCluster]:
    """The brokers; they end with the block."""
    cluster = BrokerCluster(folder)
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.end_all()
