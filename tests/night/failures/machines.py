"""The machines and files around: disks, clocks, the pipeline file, a second runner."""

import subprocess
import time

from e2e.airflow_client import wait_until

from night.failure import Failure
from night.scene import Scene

HOUR_MS = 3_600_000


class DiskFull(Failure):
    """The file system of the tables has no space left."""

    title = "the tables' disk is full"
    sentence = r"[Nn]o space"
    remedy = "make space; nothing with Tidegate"
    step = r"make space"
    page = "failed-task"
    catalog = "small"

    def explain_skip(self, scene: Scene) -> str:
        return "" if scene.doors.small_disk else "only root may mount a small file system"

    def provoke(self, scene: Scene) -> None:
        assert scene.doors.small_disk
        self.filler = scene.doors.small_disk / "filler"
        with self.filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(65536))
            except OSError:
                pass
        self.produce(scene, {7: 7, 8: 8})

    def fix(self, scene: Scene) -> int:
        self.filler.unlink()
        return 0


class ClockSkew(Failure):
    """A producer's clock is an hour ahead."""

    title = "a producer's clock is an hour ahead"
    sentence = r""
    remedy = "the table is right as the log orders it; `bin/tidegate doctor` says that a clock is ahead"
    step = r""

    def provoke(self, scene: Scene) -> None:
        ahead = {"timestamp": int(time.time() * 1000) + HOUR_MS}
        scene.bench.produce(self.topic, ({"id": 1}, {"id": 1, "score": 11}, ahead))
        self.rows[1] = 11
        self.produce(scene, {2: 22})

    def fix(self, scene: Scene) -> int:
        output = scene.bench.run_process("doctor", self.name).stdout
        assert "kafka.clock" in output, output
        return 0


class WrongFile(Failure):
    """Somebody saves a pipeline file with a mistake."""

    title = "a wrong pipeline file"
    sentence = r"colour"
    remedy = "correct the key that the sentence names"
    step = r"Correct \S+/wrong_file\.yaml"
    page = "pipeline-file"

    def provoke(self, scene: Scene) -> None:
        self.edit_file(scene, "merge:", "colour: red\nmerge:")

    def fix(self, scene: Scene) -> int:
        self.edit_file(scene, "colour: red\n", "")
        return 0


class TwoRunners(Failure):
    """Somebody flushes by hand while Airflow does."""

    title = "two runners at once"
    sentence = r""
    remedy = "none is needed: one publishes, the other is told so"
    step = r""

    def provoke(self, scene: Scene) -> None:
        command = scene.bench.build_command("flush", self.name)
        for step in range(3):
            self.produce(scene, {number: step * 100 + number for number in range(1, 20)})
            scene.airflow.trigger(self.dag)
            process = subprocess.run(
                command, env=scene.bench.build_environment(), capture_output=True, text=True, check=False
            )
            assert process.returncode in (0, 3), process.stderr

    def fix(self, scene: Scene) -> int:
        wait_until(lambda: self.is_right(scene), "the rows of both")
        return 0
