"""Records that cannot be taken."""

from typing import Any

from night.failure import INTERVAL, Failure
from night.scene import Doors, Scene

TOO_LARGE_FOR_INT = 5_000_000_000


class PoisonRecord(Failure):
    """One record of many does not fit its column."""

    title = "a poison record"
    sentence = r"cannot be decoded.* --at night\.poison_record:\d+:\d+"
    remedy = "*Skip this record*"
    step = "Skip this record"
    page = "bad-record"

    def provoke(self, scene: Scene) -> None:
        scene.bench.produce(self.topic, ({"id": 7}, {"id": 7, "score": 1.5}))
        self.produce(scene, {8: 8, 9: 9})

    def fix(self, scene: Scene) -> int:
        preview = scene.hand.press(self.name, "Skip this record")
        assert "value.schema, fields: score" in preview, preview
        scene.airflow.trigger(self.dag)
        return scene.hand.clicks


class DeadLetterFlood(Failure):
    """More bad records than a batch may have: the schema is wrong, not a record."""

    title = "a flood of dead letters"
    sentence = r"max_per_batch"
    remedy = "`score BIGINT` in the pipeline file"
    step = "correct format or schema in the pipeline file"
    page = "bad-record"

    def describe(self, doors: Doors) -> dict[str, Any]:
        return {
            "source": {"errors": {"tolerance": "all", "max_per_batch": 5}},
            "merge": {"interval": INTERVAL},
            "tables": [{"name": self.table}],
        }

    def provoke(self, scene: Scene) -> None:
        self.produce(scene, {number: TOO_LARGE_FOR_INT + number for number in range(20, 40)})

    def fix(self, scene: Scene) -> int:
        self.edit_file(scene, "score INT", "score BIGINT")
        return 0
