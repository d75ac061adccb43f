"""Spark, brokers and registry that die."""

import json
import os
import signal
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from conftest import Workbench
from e2e.airflow_client import wait_until
from registered import build_record, encode_avro

from night.failure import INTERVAL, KEY, Failure
from night.scene import Doors, Scene


class SparkDeadMidMerge(Failure):
    """The Spark server dies under a merge, and comes back."""

    title = "the Spark server dies in the middle of a merge"
    sentence = r"Spark"
    remedy = "the server back; *Flush now* does not wait for the next try"
    step = "start the server|check that the server runs"
    page = "server-down"

    def provoke(self, scene: Scene) -> None:
        self.produce(scene, {number: -number for number in range(1, 2000)})
        server = scene.bench.stack.variables["SPARK_PID"]

        def is_merging() -> bool:
            run = scene.airflow.list_runs(self.dag)[0]["dag_run_id"]
            return scene.airflow.read_task_states(self.dag, run).get("merge") == ["running"]

        wait_until(is_merging, "a merge that runs", 120, pause=0.1)
        os.kill(int(server), signal.SIGKILL)

    def fix(self, scene: Scene) -> int:
        wait_until(lambda: is_answering(scene), "Spark to be back")
        return scene.hand.start_flush(self.name)


def is_answering(scene: Scene) -> bool:
    """Whether the Spark server runs a statement."""
    from pyspark.errors import PySparkException

    try:
        return bool(scene.bench.run_spark_sql("SELECT 1"))
    except PySparkException:
        return False


class SparkOutOfMemory(Failure):
    """A batch takes more than the driver has. Each of its jobs starts a Spark of its own."""

    title = "Spark runs out of memory"
    sentence = r"[mM]emory|heap"
    remedy = "`spark.driver.memory: 3g` in the pipeline file"
    step = "give it more"
    page = "failed-task"
    patience_seconds = 400

    def describe(self, doors: Doors) -> dict[str, Any]:
        conf = {"spark.driver.memory": "480m", "spark.driver.host": "127.0.0.1"}
        return {
            "merge": {"interval": INTERVAL},
            "tables": [{"name": self.table}],
            "spark": {"mode": "submit", "master": "local[2]", "conf": conf},
        }

    def fill(self, scene: Scene) -> None:
        scene.bench.topic(name=self.topic, **{"max.message.bytes": "70000000"})
        self.produce(scene, {number: number for number in range(1, 7)})

    def provoke(self, scene: Scene) -> None:
        settings = {"bootstrap.servers": scene.bench.stack.kafka_bootstrap, "message.max.bytes": 70_000_000}
        producer = Producer({**settings, "compression.type": "zstd"})
        for number in range(60, 62):  # one in each partition
            value = {"id": number, "score": number, "more": "x" * 50_000_000}
            producer.produce(self.topic, json.dumps(value), json.dumps({"id": number}), partition=number % 2)
            assert producer.flush(60) == 0
            self.rows[number] = number

    def fix(self, scene: Scene) -> int:
        self.edit_file(scene, "480m", "3g")
        return 0


class KafkaDead(Failure):
    """The broker dies, and is started again."""

    title = "the Kafka broker is dead"
    sentence = r"Kafka .*(took no connection|no answer)"
    remedy = "the broker back; nothing with Tidegate"
    step = "check that the server runs"
    page = "server-down"

    def describe(self, doors: Doors) -> dict[str, Any]:
        return {**super().describe(doors), "source": {"kafka": "kafka_guarded"}}

    def fill(self, scene: Scene) -> None:
        client = scene.doors.guarded
        client.admin.create_topics([NewTopic(self.topic, 2, 1)])[self.topic].result(30)
        client.allow_documented("tidegate", self.topic)
        self.produce(scene, {number: number for number in range(1, 7)})

    def produce(self, scene: Scene, scores: dict[int, Any]) -> None:
        producer = Producer({"bootstrap.servers": scene.doors.guarded.backdoor})
        for number, score in scores.items():
            producer.produce(self.topic, json.dumps({"id": number, "score": score}), json.dumps({"id": number}))
        assert producer.flush(60) == 0
        self.rows |= scores

    def provoke(self, scene: Scene) -> None:
        self.produce(scene, {7: 7, 8: 8})
        scene.doors.guarded.process.kill()

    def fix(self, scene: Scene) -> int:
        scene.doors.guarded.process.start()
        return 0


class RegistryDead(Failure):
    """The schema registry is gone."""

    title = "the schema registry is dead"
    sentence = r"registry"
    remedy = "the registry back; nothing with Tidegate"
    step = "check that the server runs"
    page = "server-down"
    schema = build_record(("id", "long"), ("score", "int"))

    def write_files(self, bench: Workbench, doors: Doors) -> None:
        value = {"format": "avro", "avro": {"registry": f"http://127.0.0.1:{doors.to_registry.port}"}}
        bench.pipeline(self.name, [self.topic], key=KEY, value=value, **self.describe(doors))

    def produce(self, scene: Scene, scores: dict[int, Any]) -> None:
        for number, score in scores.items():
            value = encode_avro(
                scene.doors.registry, f"{self.topic}-value", self.schema, {"id": number, "score": score}
            )
            scene.bench.produce(self.topic, ({"id": number}, value))
        self.rows |= scores

    def provoke(self, scene: Scene) -> None:
        scene.doors.to_registry.close()
        self.produce(scene, {7: 7, 8: 8})

    def fix(self, scene: Scene) -> int:
        scene.doors.to_registry.open()
        return 0
