"""What a person may ask of one flush, and how a run knows what it was asked."""

from typing import Any

from airflow.sdk import Context, Param
from tidegate.actions.request import refuse_strange_words

from tidegate_airflow.errors import raise_airflow_errors, read_form_words

PARAM_NAMES = ("max_records", "until_current", "dry_run")


def build_form() -> dict[str, Param]:
    """What the trigger form asks for; Airflow refuses what does not fit before a run begins."""
    return {
        "max_records": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Records",
            description="At most this many records in a batch, instead of merge.max_records of the pipeline file.",
        ),
        "until_current": Param(
            True,
            type="boolean",
            title="Until current",
            description="While a batch leaves records behind, go on with the next run at once. Without it, one batch.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Only show the next batch, as `planned` of the task plan; read and write nothing.",
        ),
    }


def check_run_words(context: Context, *more_words: str) -> None:
    """AirflowFailException for a word that the form has not, or that Airflow holds back: a dry run would flush.

    `more_words` are the form's words beside those of a flush.
    """
    words = read_form_words(context)
    with raise_airflow_errors():
        refuse_strange_words(words, (*more_words, *PARAM_NAMES))


def read_run_params(context: Context) -> dict[str, Any]:
    """What this run was asked for: by its form, or by the run before it that could not finish."""
    words = {word: context["params"][word] for word in PARAM_NAMES}
    for events in dict(context.get("triggering_asset_events") or {}).values():
        for event in events:
            words |= event.extra.get("asked", {})
    if words["max_records"] is not None:
        words["max_records"] = int(words["max_records"])  # the form's schema takes 1e3 for a whole number, too
    return words
