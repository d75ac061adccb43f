"""The state of an action's task in Airflow: what its tries have done, so that the next repeats and omits nothing."""

import logging

from airflow.sdk import Context
from tidegate.actions.action_progress import ActionProgress
from tidegate.actions.proposed_action import ProposedAction
from tidegate.errors import RetryLater

log = logging.getLogger(__name__)
PROGRESS_KEY = "action"


def read_action_progress(context: Context) -> ActionProgress | None:
    """What the tries of this run before this one have done; None if none of them began to change a table."""
    try:
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


def forget_action_progress(context: Context) -> None:
    """All is done, and told with the task's success."""
    try:
        context["task_state_store"].delete(PROGRESS_KEY)
    except Exception as fault:
        log.warning(
            "what was done stays in the task's state: %s; if the run is cleared, its events come twice",
            type(fault).__name__,
        )
