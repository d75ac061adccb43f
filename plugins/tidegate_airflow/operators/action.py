"""The steps that a form asks for: a pipeline's actions, which are shown before they are done, and replay."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from tidegate_airflow import tasks
from tidegate_airflow.assets import emit_change_event
from tidegate_airflow.errors import raise_airflow_errors, read_form_params

if TYPE_CHECKING:
    from tidegate.ports.session import Session
    from tidegate.reprocess.proposed_action import ProposedAction

log = logging.getLogger(__name__)
PREVIEW_KEY = "preview"  # a result: what would be done, or why there is nothing to do
MAX_PREVIEW_CHARACTERS = 20_000  # the whole stands in the log
CHANGED_KEY = "changed"
ENDED_KEY = "ended"  # how often the run had been cleared when its task came to its end


def forget_ended_tries(context: Context) -> None:
    """Forget what the run's tries have done if a person has cleared it after its task ended."""
    store = context["task_state_store"]
    ended = store.get(ENDED_KEY)
    # not for another try of a task whose success Airflow did not hear of
    if ended is not None and ended != context["dag_run"].clear_number:
        for key in (CHANGED_KEY, ENDED_KEY):  # the last one last: until then it is done again
            store.delete(key)


def note_end(context: Context) -> None:
    """Note that all is done. The state stays: Airflow may fail to store the task's result, and then tries it again."""
    try:
        context["task_state_store"].set(ENDED_KEY, context["dag_run"].clear_number)
    except Exception as fault:
        log.warning(
            "the end of this run was not noted: %s; if the run is cleared, its events come twice", type(fault).__name__
        )


def run_action(context: Context, pipeline: str, engine: Any = None) -> dict[str, Any]:
    """Show what the form asks for, and do it unless only a preview is wanted; return what was done, by whom.

    Refused if it would differ from the preview whose digest is `previewed`, and if a person clears a run without one.
    """
    from tidegate.reprocess.request import FORM_PARAM_NAMES, check_unchanged, refuse_unseen_repeat

    params = read_form_params(context, FORM_PARAM_NAMES)
    by = str(context["dag_run"].triggering_user_name or "airflow")  # runs that a program starts are Airflow's own
    with raise_airflow_errors():
        proposed = _propose_action(context, tasks.assemble_session(pipeline, engine), params, by)
        if params["preview"]:
            return {"action": params["action"], "done": "only a preview: nothing was changed", "by": by}
        if context["dag_run"].clear_number:
            refuse_unseen_repeat(params["action"], params["previewed"])
        check_unchanged(proposed, params["previewed"] or "")
        proposed.perform(by)
    for part in proposed.parts:
        if "goes_to_snapshot_id" in part.facts:
            changed_table = {"table": part.table, "snapshot_id": part.facts["goes_to_snapshot_id"]}
            emit_change_event(context, params["action"], changed_table)
    return {"action": params["action"], "done": proposed.success_message, "by": by}


def _propose_action(context: Context, session: "Session", params: Mapping[str, Any], by: str) -> "ProposedAction":
    from tidegate.errors import NothingToDo
    from tidegate.reprocess.request import propose_action

    try:
        proposed = propose_action(session, params)
    except NothingToDo as reason:
        _push_preview(context, {"text": str(reason), "digest": None, "pins": {}})
        raise
    log.info("action=%s by=%s\n%s", params["action"], by, proposed.preview)
    _push_preview(context, {"text": proposed.preview, "digest": proposed.digest, "pins": proposed.pinned_params})
    return proposed


def run_replay_form(context: Context, pipeline: str, engine: Any = None) -> list[dict[str, Any]]:
    """Replay the dead letters that the form chooses; emit an event for each table that got some.

    Return the counts of each table, with those of earlier tries.
    """
    from tidegate.reprocess.replay import replay_dead_letters
    from tidegate.reprocess.request import LETTER_PARAM_NAMES, build_letter_filter

    params = read_form_params(context, LETTER_PARAM_NAMES)
    # Airflow drops the events of a try that fails, and a letter comes in once: the task's state keeps them
    changed = ChangedTables.read(context)
    with raise_airflow_errors():
        letters = build_letter_filter(params)
        session = tasks.assemble_session(pipeline, engine)
        replayed = replay_dead_letters(session, letters, lambda part: changed.add(part.to_dict()))
    for table in changed.tables.values():
        emit_change_event(context, "replay", table)
    note_end(context)
    return changed.add_earlier([part.to_dict() for part in replayed])


@dataclass
class ChangedTables:
    """The tables that this task's tries have changed so far, by name: their counts, and the last snapshot."""

    context: Context
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, context: Context) -> "ChangedTables":
        try:
            forget_ended_tries(context)
            return cls(context, dict(context["task_state_store"].get(CHANGED_KEY) or {}))
        except Exception as fault:
            log.warning(
                "what an earlier try has changed is not known: %s; DAGs that wait for a table hear of its next change",
                type(fault).__name__,
            )
            return cls(context)

    def add(self, part: Mapping[str, Any]) -> None:
        if not part["replayed"]:
            return
        before = self.tables.get(part["table"], {})
        counts = {name: before.get(name, 0) + part[name] for name in ("inserted", "updated", "deleted")}
        snapshot = part["snapshot_id"] or before.get("snapshot_id")
        known = before.get("replayed", 0)
        # without a snapshot it may be what an earlier try has published, and not marked
        replayed = known + part["replayed"] if part["snapshot_id"] else max(known, part["replayed"])
        self.tables[part["table"]] = {"table": part["table"], "snapshot_id": snapshot, "replayed": replayed, **counts}
        try:
            self.context["task_state_store"].set(CHANGED_KEY, self.tables)
        except Exception as fault:
            log.warning(
                "what was changed is not kept for another try: %s; if this one fails, DAGs that wait for table=%s hear "
                "of its next change",
                type(fault).__name__,
                part["table"],
            )

    def add_earlier(self, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the results of a try with what the tries before it have changed."""
        by_table = {result["table"]: result for result in results}
        for name, totals in self.tables.items():
            result = by_table.get(name, {"tried": 0, "replayed": 0, "still_bad": 0, "of_old_topics": 0})
            earlier = max(0, totals["replayed"] - result["replayed"])
            letters = {"tried": result["tried"] + earlier, "replayed": result["replayed"] + earlier}
            by_table[name] = {**result, **totals, **letters}
        return list(by_table.values())


def run_verify_form(context: Context, pipeline: str, engine: Any = None) -> list[dict[str, Any]]:
    """Verify the table that the form names, or each; return the counts of each."""
    return tasks.run_verify(pipeline, read_form_params(context, ("table",))["table"] or None, engine)


def _push_preview(context: Context, preview: Mapping[str, Any]) -> None:
    text = preview["text"]
    more = "\n... the rest stands in the log of this task" if len(text) > MAX_PREVIEW_CHARACTERS else ""
    context["ti"].xcom_push(key=PREVIEW_KEY, value={**preview, "text": text[:MAX_PREVIEW_CHARACTERS] + more})
