"""How a pipeline stands, in numbers, for those who watch many."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.monitoring.overview import build_overview, count_waiting_letters
from tidegate.ports.context import Ports
from tidegate.table.pipeline_progress import PipelineProgress, read_pipeline_progress


@dataclass(frozen=True)
class RunMetrics:
    """What is measured at the end of a run. Ages are in seconds, None where nobody can tell them.

    `behind` is the age of the oldest record that is not published, 0 when there is none; `valid_through_age` that of
    the time up to which every table is complete. `problems` counts tables that cannot go on.
    """

    lag: int
    behind: float | None
    valid_through_age: float | None
    open_batches: int
    dead_letters: int | None
    problems: int

    def to_values(self) -> dict[str, float]:
        """By name, without what nobody can tell."""
        return {name: float(value) for name, value in vars(self).items() if value is not None}


def measure_pipeline(ports: Ports) -> RunMetrics:
    """Look at tables, log and dead letters; changes nothing."""
    progress = read_pipeline_progress(ports)
    row = build_overview(progress)
    return RunMetrics(
        lag=row["lag"],
        behind=row["lag_seconds"],
        valid_through_age=_compute_valid_through_age(progress),
        open_batches=row["open_batches"],
        dead_letters=count_waiting_letters(ports),
        problems=sum(table["problem"] is not None for table in row["tables"]),
    )


def _compute_valid_through_age(progress: PipelineProgress) -> float | None:
    times = [table_progress.valid_through_ms for table_progress in progress.tables]
    known_times = [time for time in times if time is not None]
    return (
        max(0.0, (progress.ports.now_ms() - min(known_times)) / 1000)
        if known_times and len(known_times) == len(times)
        else None
    )


def to_merge_metrics(published_batch: Mapping[str, Any]) -> dict[str, float]:
    """What is measured of one published queue: seconds, rows by what became of them, and bytes where they are known."""
    count_names = ("seconds", "staged", "inserted", "updated", "deleted", "bytes_written")
    return {f"batch.{name}": float(published_batch[name]) for name in count_names if published_batch[name] is not None}
