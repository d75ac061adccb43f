"""The state of an action's task in Airflow: what its tries have done, so that the next repeats and omits nothing."""

import logging

from airflow.sdk import Context
from tidegate.actions.action_progress import ActionProgress
from tidegate.actions.proposed_action import ProposedAction
from tidegate.errors import RetryLater

log = logging.getLogger(__name__)
PROGRESS_KEY = "action"
CHANGED_KEY = "changed"
ENDED_KEY = "ended"  # how often the run had been cleared when its task came to its end


def forget_ended_tries(context: Context) -> None:
    """Forget what the run's tries have done if a person has cleared it after its task came to its end. Not for another
    try of a task whose success Airflow did not hear of: that try tells of the same once more.
    """
    store = context["task_state_store"]
    ended = store.get(ENDED_KEY)
    if ended is not None and ended != context["dag_run"].clear_number:
        for key in (PROGRESS_KEY, CHANGED_KEY, ENDED_KEY):  # the last one last: until then it is done again
            store.delete(key)


def note_end(context: Context) -> None:
    """Note that all is done. The state stays: Airflow may fail to store the task's result, and then tries it again."""
    try:
        context["task_state_store"].set(ENDED_KEY, context["dag_run"].clear_number)
    except Exception as fault:
        log.warning(
            "that all is done is not noted: %s; if the run is cleared, its events come twice", type(fault).__name__
        )


def read_action_progress(context: Context) -> ActionProgress | None:
    """What the tries of this run before this one have done; None if none of them began to change a table, and for a run
    that a person has cleared since it ended.
    """
    try:
        forget_ended_tries(context)
        data = context["task_state_store"].get(PROGRESS_KEY)
    except Exception as fault:
        raise RetryLater(
            f"what an earlier try of this run has done is not known: {type(fault).__name__}; nothing was changed; it "
            "is tried again"
        ) from fault
    return ActionProgress(**data) if data else None


def perform_with_notes(
    context: Context, proposed: ProposedAction, by: str, progress: ActionProgress | None = None
) -> ActionProgress:
    """Do it, and keep for another try what is begun and done; how far it has come.

    A table is changed only if it is noted before: without that note the next try could do it twice.
    """
    progress = progress or ActionProgress.start(proposed)

    def begin(table: str) -> None:
        progress.begun = table
        try:
            context["task_state_store"].set(PROGRESS_KEY, progress.to_dict())
        except Exception as fault:
            raise RetryLater(
                f"what this run does cannot be kept for another try: {type(fault).__name__}; nothing was changed "
                f"for table={table}; it is tried again"
            ) from fault

    proposed.perform(by, progress.done, begin)
    progress.begun = None
    try:
        context["task_state_store"].set(PROGRESS_KEY, progress.to_dict())
    except Exception as fault:
        log.warning(
            "that all is done is not kept: %s; if Airflow tries this again, it may say that nobody knows",
            type(fault).__name__,
        )
    return progress
