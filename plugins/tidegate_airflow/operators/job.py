"""One slice of a backfill, and one run of a publication: jobs that a task waits for, and tells the lineage of."""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseOperator, Context
from tidegate.lineage.dataset import TaskLineage
from tidegate.model.batch import PublishOutcome

from tidegate_airflow import tasks
from tidegate_airflow.assets import emit_change_event
from tidegate_airflow.errors import raise_airflow_errors, read_form_words
from tidegate_airflow.operators import lineage
from tidegate_airflow.operators.lineage import ReportsLineage

PUBLISH_WORDS = ("resynchronise", "again", "from", "to")


def check_publish_words(context: Context) -> None:
    from tidegate.actions.request import refuse_strange_words

    words = read_form_words(context)
    with raise_airflow_errors():
        refuse_strange_words(words, PUBLISH_WORDS)


def trace_job(verb: str, subject: str, work_item: Any, backfill: Mapping[str, Any] | None = None) -> TaskLineage:
    """Return what a task has read and written; of a merge a table's queue, of a backfill a slice."""
    if verb == "merge":
        queue = tasks.unwrap_queue(work_item)
        topics = lineage.find_topics_of_queue(queue) if queue else {}
        return lineage.trace_flushed_tables(subject, topics) if topics else TaskLineage()
    if verb == "backfill" and backfill is not None:
        return lineage.trace_flushed_tables(subject, lineage.find_topics_of_slice(backfill, work_item["number"]))
    return lineage.trace_published_topics(subject) if verb == "publish" else TaskLineage()


def run_slice(
    context: Context, pipeline: str, backfill: Any, work_item: Any, engine: Any = None
) -> list[dict[str, Any]]:
    """Apply one slice of a backfill; return what was done to each table.

    A table that got rows is an event of its asset, also if an earlier try has published them.
    """
    context["slice"] = work_item["slice"]
    applied_slices = tasks.run_backfill_slice(pipeline, backfill, work_item, engine)
    for applied_slice in applied_slices:
        if applied_slice["snapshot_id"] is not None or applied_slice["outcome"] == PublishOutcome.ALREADY_APPLIED:
            emit_change_event(context, "backfill", applied_slice)
    return applied_slices


class SliceOperator(ReportsLineage, BaseOperator):
    """Applies one slice of a backfill: `given` is an entry of its plan's batches."""

    template_fields = ("given", "backfill")

    def __init__(self, *, pipeline: str, given: Any, backfill: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.given = given
        self.backfill = backfill

    def execute(self, context: Context) -> list[dict[str, Any]]:
        return run_slice(context, self.pipeline, self.backfill, self.given)

    def trace_lineage(self) -> TaskLineage:
        return trace_job("backfill", self.pipeline, self.given, self.backfill)


class PublishOperator(ReportsLineage, BaseOperator):
    """Runs one publication, as its DAG's form asks."""

    def __init__(self, *, publication: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.publication = publication

    def execute(self, context: Context) -> dict[str, Any]:
        check_publish_words(context)
        return tasks.run_publish(self.publication, dict(context["params"]))

    def trace_lineage(self) -> TaskLineage:
        return trace_job("publish", self.publication, None)
