"""Which members other runs of a fleet are working on: a run leaves them out, so that a slow one holds up nobody.

`plan` notes in the fleet's memory which members it takes on. Whether their tasks have ended is asked of Airflow, and so
a run that is killed, removed or ended by a person keeps no member out.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from airflow.sdk import Context

log = logging.getLogger(__name__)
ENDED_STATES = {"success", "failed", "skipped", "upstream_failed", "removed"}
ROW_TASK = "merge"
SHARED_TASK = "clean_up"
LAST_TASK = "compact"
Data = dict[str, Any]
States = Mapping[str, str | None]


@dataclass(frozen=True)
class Taken:
    """That a run has taken a member on: in its mapped tasks of the index `place`, at a Unix time in seconds.

    `is_over`: nothing of that goes on any more.
    """

    run_id: str
    place: int
    at: float
    is_over: bool = False


def find_members_at_work(context: Context, taken: Mapping[str, Taken]) -> tuple[set[str], dict[str, Taken]]:
    """The members that other runs work on; and what was taken, with what is over by now.

    Where Airflow does not tell, nobody is at work: two runs of one pipeline do no harm.
    """
    others = {name: entry for name, entry in taken.items() if not entry.is_over and not _is_own(context, entry)}
    runs = sorted({entry.run_id for entry in others.values()})
    if not runs:
        return set(), dict(taken)
    task_instance = context["ti"]
    try:
        tasks = [ROW_TASK, SHARED_TASK, LAST_TASK]
        all_states = task_instance.get_task_states(dag_id=context["dag_run"].dag_id, run_ids=runs, task_ids=tasks)
    except Exception as fault:
        log.warning("what other runs are working on is not known; all are flushed: %s", type(fault).__name__)
        return set(), dict(taken)
    at_work = set[str]()
    known = dict(taken)
    for run_id in runs:
        places = {name: entry.place for name, entry in others.items() if entry.run_id == run_id}
        busy_names = _list_busy(places, all_states.get(run_id, {}), partial(_pull_compacted, context, run_id))
        at_work |= busy_names & places.keys()
        if not busy_names:
            known |= {name: Taken(run_id, place, others[name].at, is_over=True) for name, place in places.items()}
    return at_work, known


def _is_own(context: Context, entry: Taken) -> bool:
    return bool(entry.run_id == context["dag_run"].run_id)


def _list_busy(places: Mapping[str, int], states: States, list_compacted: Callable[[], Sequence[str]]) -> set[str]:
    """The members of one run that are at work; of a run that Airflow does not know any more nobody."""
    if not states:
        return set()
    unmerged = {name for name, place in places.items() if not _has_ended(states, ROW_TASK, place)}
    if unmerged:
        return unmerged  # one may take hours: the run tidies up behind the others when they have long gone on
    if not _has_ended(states, SHARED_TASK):
        return set(places)
    if all(state in ENDED_STATES for task, state in states.items() if task.startswith(LAST_TASK)):
        return set()
    return {name for number, name in enumerate(list_compacted()) if not _has_ended(states, LAST_TASK, number)}


def _has_ended(states: States, task: str, place: int = -1) -> bool:
    """Of a mapped task that Airflow has not expanded yet, the state of the whole; none is left of one that is gone."""
    whole = states.get(task, "removed")
    return (whole if place < 0 else states.get(f"{task}_{place}", whole)) in ENDED_STATES


def _pull_compacted(context: Context, run_id: str) -> list[str]:
    """The members that are compacted in another run, in the order of its mapped tasks."""
    compactions = context["ti"].xcom_pull(task_ids=SHARED_TASK, map_indexes=-1, run_id=run_id)
    return [compaction["pipeline"] for compaction in compactions or []]


def read_taken(data: Mapping[str, Any]) -> dict[str, Taken]:
    """Inverse of `to_data`; nothing of what another version has left."""
    try:
        return {name: Taken(**entry) for name, entry in data.items()}
    except TypeError:
        return {}


def to_data(taken: Mapping[str, Taken]) -> Data:
    """Plain data for Airflow's store."""
    return {name: asdict(entry) for name, entry in taken.items()}
