"""Topics that are no longer what was read."""

import json
import shlex

from confluent_kafka import Producer

from night.failure import Failure
from night.scene import Scene


class TopicDeleted(Failure):
    """Somebody deletes the topic."""

    title = "the topic is deleted"
    sentence = r"does not exist"
    remedy = "create the topic; then *Move the position*"
    step = "create it"
    page = "topic-missing"

    def provoke(self, scene: Scene) -> None:
        scene.bench.admin.delete_topics([self.topic])[self.topic].result(30)

    def fix(self, scene: Scene) -> int:
        scene.bench.topic(name=self.topic)
        self.produce(scene, {1: 100, 7: 700})
        scene.hand.press(self.name, "Move the position")
        return scene.hand.clicks


class TopicRecreated(Failure):
    """The topic is another one of the same name."""

    title = "the topic is deleted and made again"
    sentence = r"was deleted and created again"
    remedy = "the printed `bin/tidegate rebase NAME --to earliest`"
    step = "tidegate rebase"
    page = "log-changed"

    def provoke(self, scene: Scene) -> None:
        scene.bench.recreate(self.topic, 2)
        self.produce(scene, {number: number * 10 for number in range(1, 4)})

    def fix(self, scene: Scene) -> int:
        command = scene.hand.copy_command(self.name, f"bin/tidegate rebase {shlex.quote(self.name)}")
        scene.run_printed(command)
        return scene.hand.clicks


class PartitionsGrown(Failure):
    """The topic gets more partitions."""

    title = "the topic's partitions grow"
    sentence = r"has a new partition="
    remedy = "`on_partition_growth: accept` in the pipeline file"
    step = "on_partition_growth: accept"
    page = "partitions-grown"

    def provoke(self, scene: Scene) -> None:
        scene.bench.grow(self.topic, 4)
        producer = Producer({"bootstrap.servers": scene.bench.stack.kafka_bootstrap})  # the other one has old metadata
        producer.produce(self.topic, json.dumps({"id": 30, "score": 30}), json.dumps({"id": 30}), partition=3)
        assert producer.flush(60) == 0
        self.rows[30] = 30

    def fix(self, scene: Scene) -> int:
        self.edit_file(scene, "merge:", "on_partition_growth: accept\nmerge:")
        return 0


class RetentionPassed(Failure):
    """Records are gone before being read."""

    title = "retention has passed before records were read"
    sentence = r"gone before being read"
    remedy = "*Move the position*"
    step = "Move the position"
    page = "records-gone"

    def provoke(self, scene: Scene) -> None:
        scene.airflow.unpause(self.dag, paused=True)  # a run that is under way waits
        records = [({"id": key}, {"id": key, "score": key}, {"partition": key % 2}) for key in range(40, 48)]
        scene.bench.produce(self.topic, *records)
        ends = scene.bench.read_ends(self.topic)[self.topic]
        for partition, end in ends.items():
            scene.bench.retain_from(self.topic, end, partition)
        self.produce(scene, {50: 50, 51: 51})
        scene.airflow.unpause(self.dag)

    def fix(self, scene: Scene) -> int:
        preview = scene.hand.press(self.name, "Move the position")
        assert "skip" in preview, preview
        return scene.hand.clicks
