"""One failure: from a pipeline that is well to one that is well again, with the seconds until the page says so."""

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from e2e.airflow_client import wait_until

from night.failure import Failure
from night.operator_hand import Sight
from night.scene import Scene

GOAL_SECONDS, GOAL_CLICKS = 15, 2
TIDY_SECONDS = 30
POLL_SECONDS = 0.5
GOING = ("current", "catching up")


@dataclass(frozen=True)
class Observation:
    """What was seen. Seconds and clicks are None where there was nothing to wait for, or it never came."""

    name: str
    title: str
    sentence: str = ""
    reaction_seconds: float | None = None
    remedy: str = ""
    clicks: int | None = None
    pixels: int | None = None
    recovery_seconds: float | None = None
    leftovers: tuple[str, ...] = ()
    problem: str = ""

    @classmethod
    def from_problem(cls, failure: Failure, problem: Exception) -> "Observation":
        """Something did not come that should have."""
        text = " ".join(str(problem).split())
        return cls(failure.name, failure.title, remedy=failure.remedy, problem=text[:300])

    @property
    def is_good(self) -> bool:
        """Whether the page named the failure, the failure was fixed, and nothing remains. Seconds are only recorded."""
        return not self.problem and not self.leftovers


def observe(failure: Failure, scene: Scene) -> Observation:
    """Provoke the failure and follow the page's way out of it."""
    if reason := failure.explain_skip(scene):
        return Observation(failure.name, failure.title, sentence=f"not provoked here: {reason}")
    failure.fill(scene)
    scene.airflow.unpause(failure.dag)
    try:
        wait_until(lambda: is_well(failure, scene), f"{failure.name} to go well before it is broken")
        failure.provoke(scene)
        start_seconds, since = time.monotonic(), datetime.now(UTC)
        row, reaction_seconds = await_sentence(failure, scene, start_seconds)
        problem = find_wrong_page(failure, row)
        sight = scene.hand.find_remedy(failure.line, failure.step) if failure.step else None
        clicks = max(failure.fix(scene), sight.clicks if sight else 0)
        problem = problem or find_far_remedy(clicks, sight)
        well = await_well(failure, scene)
        print_tasks(failure, scene, since)
        leftovers = find_leftovers(failure, scene)
    finally:
        failure.pause_dags(scene)
    sentence = shorten(str(row.get("reason") or "").replace(str(scene.bench.folder), "…"))
    return Observation(
        name=failure.name,
        title=failure.title,
        sentence=sentence,
        reaction_seconds=reaction_seconds,
        remedy=failure.remedy,
        clicks=clicks if sight else None,
        pixels=sight.pixels if sight else None,
        recovery_seconds=well,
        leftovers=leftovers,
        problem=problem,
    )


def print_tasks(failure: Failure, scene: Scene, since: datetime) -> None:
    """Where the seconds went: when each task was queued, began and ended, in seconds after the failure."""
    query = {"start_date_gte": since.isoformat(), "order_by": "start_date", "limit": 100}
    for task in scene.airflow.get(f"dags/{failure.dag}/dagRuns/~/taskInstances", **query)["task_instances"]:
        moments = [task[time_field] for time_field in ("queued_when", "start_date", "end_date")]
        after = [
            (datetime.fromisoformat(moment_text) - since).total_seconds() if moment_text else float("nan")
            for moment_text in moments
        ]
        delays = " ".join(f"{delay:6.1f}" for delay in after)
        print(f"    {delays}  {task['task_id']} {task['state']} {task['dag_run_id']}")


def find_leftovers(failure: Failure, scene: Scene) -> tuple[str, ...]:
    """Branches and staged rows that still exist after the next runs could clean up."""
    with suppress(AssertionError):
        wait_until(lambda: not failure.list_leftovers(scene), "nothing to be left", TIDY_SECONDS)
    return tuple(failure.list_leftovers(scene))


def await_sentence(failure: Failure, scene: Scene, start_seconds: float) -> tuple[dict[str, Any], float | None]:
    """The page's line with the sentence, and the seconds until it appeared."""
    if not failure.sentence:
        return failure.read_row(scene), None
    row = await_page(failure, scene, f"says {failure.sentence}", lambda page_row: is_described(failure, page_row))
    reaction_seconds = time.monotonic() - start_seconds
    return row, reaction_seconds


def find_wrong_page(failure: Failure, row: dict[str, Any]) -> str:
    """Where the line leads to another page of the runbook than it should."""
    is_right = not failure.page or row["runbook"] == failure.page
    return "" if is_right else f"leads to {row['runbook']} and not to {failure.page}: {shorten(str(row['reason']))}"


def find_far_remedy(clicks: int, sight: Sight | None) -> str:
    """Where the remedy needs more clicks than the goal, or has to be looked for by scrolling."""
    if sight is not None and not sight.is_whole:
        return f"the remedy lies {sight.pixels} pixels down, and is not whole in the window"
    return f"the remedy takes {clicks} clicks" if clicks > GOAL_CLICKS else ""


def await_well(failure: Failure, scene: Scene) -> float:
    """Seconds until the page's line is no longer red, for good: it is not again before the table is right."""
    start_seconds, well = time.monotonic(), None

    def is_over(row: dict[str, Any]) -> bool:
        nonlocal well
        if row.get("state") not in GOING:
            well = None
        elif well is None:
            well = time.monotonic() - start_seconds
        return is_row_well(row) and failure.is_right(scene)

    await_page(failure, scene, "is seen as well again", is_over)
    assert well is not None
    return well


def is_described(failure: Failure, row: dict[str, Any]) -> bool:
    """Whether the line is red, and has the words."""
    return row.get("state") in failure.states and re.search(failure.sentence, str(row.get("reason"))) is not None


def is_row_well(row: dict[str, Any]) -> bool:
    """Whether the line reports no failure and no waiting records."""
    return row.get("state") == "current" and not row.get("lag")


def is_well(failure: Failure, scene: Scene) -> bool:
    """Whether the table is right and the page reports that it is."""
    return is_row_well(failure.read_row(scene)) and failure.is_right(scene)


def await_page(failure: Failure, scene: Scene, condition_text: str, condition: Any) -> dict[str, Any]:
    """The first line of the page that meets the condition."""
    start_seconds = time.monotonic()
    last_row: dict[str, Any] = {}
    while True:
        row = failure.read_row(scene)
        if condition(row):
            print(f"    it is {row.get('state')}: {row.get('reason')}", flush=True)
            return row
        if (row.get("state"), row.get("reason")) != (last_row.get("state"), last_row.get("reason")):
            print(f"    {time.monotonic() - start_seconds:5.1f} s {row.get('state')}: {row.get('reason')}", flush=True)
        last_row = row
        is_late = time.monotonic() > start_seconds + failure.patience_seconds
        assert not is_late, f"never {condition_text}; it is {row.get('state')}: {row.get('reason')}"
        time.sleep(POLL_SECONDS)


def shorten(text: str, limit: int = 420) -> str:
    """One line that a table can hold."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit].rsplit(' ', 1)[0]} …"
