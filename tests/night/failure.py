"""What a failure is: a pipeline that goes well, what breaks it, what the page must say then, and the way out."""

from contextlib import suppress
from typing import Any, ClassVar

from conftest import Workbench
from requests import HTTPError

from night.scene import Doors, Scene

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, score INT"}
INTERVAL = "5s"


class Failure:
    """One failure over a pipeline of its own, of two partitions; a subclass says what differs."""

    title: ClassVar[str]
    """What is provoked, for the table."""
    sentence: ClassVar[str]
    """A pattern of what the page must say; empty where there is nothing to be told."""
    remedy: ClassVar[str]
    """The way out, for the table."""
    step: ClassVar[str]
    """A pattern of the remedy as the page says it, or of its button; empty where nobody has to do anything."""
    page: ClassVar[str] = ""
    """The runbook's page that the line must lead to."""
    states: ClassVar[tuple[str, ...]] = ("stuck", "failing", "unknown")
    catalog: ClassVar[str] = "lake"
    patience_seconds: ClassVar[float] = 150
    """How long the page may take to say anything, and the table to be right."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.topic = f"night.{name}"
        self.table = f"{self.catalog}.night.{name}"
        self.rows: dict[int, Any] = {}

    @property
    def line(self) -> str:
        """The name of its line on the page."""
        return self.name

    @property
    def dag(self) -> str:
        """What runs and is watched."""
        return f"tidegate_{self.name}"

    def write_files(self, bench: Workbench, doors: Doors) -> None:
        """The pipeline file, before the stack is up."""
        bench.pipeline(self.name, [self.topic], key=KEY, value=VALUE, **self.describe(doors))

    def describe(self, doors: Doors) -> dict[str, Any]:
        """The sections of the pipeline file."""
        return {"merge": {"interval": INTERVAL}, "tables": [{"name": self.table}]}

    def explain_skip(self, scene: Scene) -> str:
        """Why it cannot be provoked on this machine; empty where it can."""
        return ""

    def fill(self, scene: Scene) -> None:
        """Topics and records of a pipeline that is well."""
        scene.bench.topic(name=self.topic)
        self.produce(scene, {number: number for number in range(1, 7)})

    def produce(self, scene: Scene, scores: dict[int, Any]) -> None:
        """Records that the table must have in the end."""
        scene.bench.produce(self.topic, *(({"id": key}, {"id": key, "score": score}) for key, score in scores.items()))
        self.rows |= scores

    def provoke(self, scene: Scene) -> None:
        """Break it."""
        raise NotImplementedError

    def fix(self, scene: Scene) -> int:
        """Carry out the remedy, and return the number of clicks. A remedy in the sentence itself needs none."""
        raise NotImplementedError

    def pause_dags(self, scene: Scene) -> None:
        """Start no more runs: the others need the machine."""
        for dag in {self.dag, f"tidegate_{self.name}"}:
            with suppress(HTTPError):  # of a file that is still wrong there is no DAG
                scene.airflow.unpause(dag, paused=True)

    def edit_file(self, scene: Scene, before: str, after: str) -> None:
        """Change the pipeline file as a person does."""
        file = scene.bench.include / "pipelines" / f"{self.name}.yaml"
        text = file.read_text()
        assert before in text, f"{before} is not in {text}"
        file.write_text(text.replace(before, after))

    def read_row(self, scene: Scene) -> dict[str, Any]:
        """The page's line."""
        rows = scene.airflow.page("pipelines")["pipelines"]
        return next((row for row in rows if row["pipeline"] == self.name), {})

    def read_table(self, scene: Scene) -> dict[int, Any]:
        """The rows of the table, read through its catalog."""
        iceberg_table = scene.open_table(self.table)
        rows = iceberg_table.scan().to_arrow().to_pylist() if iceberg_table else []
        assert len({row["id"] for row in rows}) == len(rows), "a key stands twice"
        return {row["id"]: row["score"] for row in rows}

    def is_right(self, scene: Scene) -> bool:
        """Whether the table has the rows that follow from the log."""
        return self.read_table(scene) == self.rows

    def list_leftovers(self, scene: Scene) -> list[str]:
        """The remains of batches and attempts: branches, staged rows and counts, uncommitted queues."""
        iceberg_table = scene.open_table(self.table)
        staged = scene.open_table(f"{self.table}_{self.name}_tmp")
        refs = (
            []
            if iceberg_table is None
            else sorted(set(iceberg_table.metadata.refs) - {"main", f"tidegate_{self.name}"})
        )
        leftovers = [f"branch {ref}" for ref in refs if not ref.startswith("tidegate-publication")]
        if staged is not None:
            rows = staged.scan().count()
            leftovers += [f"{rows} staged rows"] if rows else []
            prefixes = ("tidegate.counted.", "tidegate.staged.", "tidegate.audit.")
            leftovers += [key for key in staged.properties if key.startswith(prefixes)]
        return leftovers
