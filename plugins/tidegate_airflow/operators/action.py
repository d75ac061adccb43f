"""The steps that a form asks for: a pipeline's actions, which are shown before they are done, and replay."""

import logging
from collections.abc import Mapping
from typing import Any

from airflow.sdk import Context

from tidegate_airflow import tasks
from tidegate_airflow.assets import emit_change_event
from tidegate_airflow.errors import raise_airflow_errors, read_form_words

log = logging.getLogger(__name__)
PREVIEW_KEY = "preview"  # a result: what would be done, or why there is nothing to do
MAX_PREVIEW_CHARACTERS = 20_000  # the whole stands in the log


def run_action(context: Context, pipeline: str, engine: Any = None) -> dict[str, Any]:
    """Show what the form asks for, and do it unless only a preview is wanted; what was done, by whom.

    Refused where something else would be done than a preview showed whose digest was given as `previewed`, and where a
    person clears a run to which none was given.
    """
    from tidegate.actions.request import (
        FORM_WORDS,
        ActionKind,
        check_unchanged,
        propose_action,
        refuse_strange_words,
        refuse_unseen_repeat,
    )
    from tidegate.errors import NothingToDo

    params, by = read_form_words(context), _find_user(context)
    with raise_airflow_errors():
        refuse_strange_words(params, FORM_WORDS)
        try:
            proposed = propose_action(tasks.assemble_ports(pipeline, engine), params)
        except NothingToDo as reason:
            _push_preview(context, {"text": str(reason), "digest": None, "pins": {}})
            raise
        log.info("action=%s by=%s\n%s", params["action"], by, proposed.preview)
        _push_preview(context, {"text": proposed.preview, "digest": proposed.digest, "pins": proposed.pins})
        if params["preview"]:
            return {"action": params["action"], "done": "only a preview: nothing was changed", "by": by}
        if context["dag_run"].clear_number:
            refuse_unseen_repeat(params["action"], params["previewed"])
        check_unchanged(proposed, params["previewed"] or "")
        proposed.perform(by)
    if params["action"] == ActionKind.UNDO_ROLLBACK:
        for table in proposed.data["tables"]:
            emit_change_event(
                context, params["action"], {"table": table["table"], "snapshot_id": table["goes_to_snapshot_id"]}
            )
    return {"action": params["action"], "done": proposed.done, "by": by}


def run_replay_form(context: Context, pipeline: str, engine: Any = None) -> list[dict[str, Any]]:
    """Replay the dead letters that the form chooses; a table into which some came is an event of its asset."""
    from tidegate.actions.request import LETTER_WORDS, refuse_strange_words

    words = read_form_words(context)
    with raise_airflow_errors():
        refuse_strange_words(words, LETTER_WORDS)
    results = tasks.run_replay(pipeline, words, engine)
    for result in results:
        if result["replayed"]:
            emit_change_event(context, "replay", result)
    return results


FORM_STEPS = {"act": run_action, "replay": run_replay_form}  # what a DAG's form alone tells what to do


def _find_user(context: Context) -> str:
    """Who started the run, as Airflow knows them; runs that a program of nobody starts are Airflow's own."""
    return str(context["dag_run"].triggering_user_name or "airflow")


def _push_preview(context: Context, preview: Mapping[str, Any]) -> None:
    text = preview["text"]
    more = "\n... the rest stands in the log of this task" if len(text) > MAX_PREVIEW_CHARACTERS else ""
    context["ti"].xcom_push(key=PREVIEW_KEY, value={**preview, "text": text[:MAX_PREVIEW_CHARACTERS] + more})
