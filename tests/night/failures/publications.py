"""Publications whose topic does not take what they produce."""

from typing import Any

import yaml
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from conftest import Workbench
from e2e.airflow_client import wait_until

from night.failure import VALUE, Failure
from night.scene import Doors, Scene


class _Publication(Failure):
    """A publication of a pipeline's table; the pipeline flushes once, before."""

    @property
    def out(self) -> str:
        """The publication, and its topic."""
        return f"{self.name}_out"

    @property
    def line(self) -> str:
        return self.out

    @property
    def dag(self) -> str:
        return f"tidegate_publish_{self.out}"

    def write_files(self, bench: Workbench, doors: Doors) -> None:
        super().write_files(bench, doors)
        content = {"table": self.table, "topic": self.out, "key": {"fields": ["id"]}, "interval": "5s"}
        (bench.include / "publications" / f"{self.out}.yaml").write_text(yaml.safe_dump(content))

    def fill(self, scene: Scene) -> None:
        self.make_topic(scene, "compact")
        super().fill(scene)
        scene.airflow.unpause(f"tidegate_{self.name}")

    def make_topic(self, scene: Scene, policy: str) -> None:
        """The publication's own."""
        config = {"cleanup.policy": policy, "max.message.bytes": "2000"}
        scene.bench.admin.create_topics([NewTopic(self.out, 2, 1, config=config)])[self.out].result(30)

    def set_topic(self, scene: Scene, name: str, value: str) -> None:
        """As ``kafka-configs --alter`` does."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.out, incremental_configs=[entry])
        for future in scene.bench.admin.incremental_alter_configs([resource]).values():
            future.result(30)

    def read_row(self, scene: Scene) -> dict[str, Any]:
        rows = scene.airflow.page("pipelines")["publications"]
        status_row = next((row for row in rows if row["publication"] == self.out), {})
        return {**status_row, "lag": status_row.get("snapshots_behind")}


class TopicNotCompacted(_Publication):
    """Somebody sets the topic to be deleted by age."""

    title = "a publication's topic is not compacted"
    sentence = r"cleanup\.policy=delete"
    remedy = "`cleanup.policy=compact` for the topic; nothing with Tidegate"
    step = r"set it to compact"
    page = "publication-refused"

    def provoke(self, scene: Scene) -> None:
        self.set_topic(scene, "cleanup.policy", "delete")
        self.produce(scene, {7: 7})

    def fix(self, scene: Scene) -> int:
        self.set_topic(scene, "cleanup.policy", "compact")
        return 0


class RecordTooLarge(_Publication):
    """A row becomes a record that the publication's topic does not take."""

    title = "too large a record for a publication's topic"
    sentence = r"refuse a record as too large"
    remedy = "`max.message.bytes` of the topic; nothing with Tidegate"
    step = r"max\.message\.bytes"
    page = "publication-refused"

    def write_files(self, bench: Workbench, doors: Doors) -> None:
        super().write_files(bench, doors)
        file = bench.include / "pipelines" / f"{self.name}.yaml"
        file.write_text(file.read_text().replace(VALUE["schema"], "id BIGINT, score STRING"))

    def produce(self, scene: Scene, scores: dict[int, Any]) -> None:
        super().produce(scene, {number: str(score) for number, score in scores.items()})

    def provoke(self, scene: Scene) -> None:
        self.produce(scene, {7: "x" * 20_000})
        wait_until(lambda: self.is_right(scene), "the large row in the table")

    def fix(self, scene: Scene) -> int:
        self.set_topic(scene, "max.message.bytes", "1000000")
        return 0
