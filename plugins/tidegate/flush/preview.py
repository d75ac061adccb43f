"""plan --preview: what the next batch of each table would change, by merging it onto a branch that is dropped again.

The batch is staged as a flush does it, and the next flush takes it over. Nothing is published, and no schema changed.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from tidegate.errors import CommitRefused, GiveUp, NothingToDo, RetryLater, TidegateError
from tidegate.flush.merge import BatchMerge, build_attempt
from tidegate.flush.merge_queue import choose_group
from tidegate.flush.plan import Delay, plan, to_refusals
from tidegate.flush.stage import stage_tables
from tidegate.jobs.statements_job import JobQuestions, StatementsJob
from tidegate.merge.attempt import try_attempt
from tidegate.merge.audits import BatchAudits
from tidegate.merge.hold import Diff, list_schema_changes, render_diff_question, render_sample_question
from tidegate.model import resource_names
from tidegate.model.batch import Refusal, StagedBatch
from tidegate.ports.session import Session
from tidegate.spec.table import TableMode
from tidegate.table.compatibility import check_is_destination, check_mergeable
from tidegate.table.observed_table import ObservedTable, observe_tables
from tidegate.table.position import resolve_position
from tidegate.table.queue import check_shape, combine_batches, has_rows
from tidegate.table.session import TableSession, expand_template, open_table


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a merge of `batch` would change. `counts` are empty, and `note` says why, where no diff can be made.

    `rules`: those of `approve` that would hold it. `columns`: how often each changes in updated rows. `samples`: the
    first changed rows, with content.
    """

    table: str
    batch: int
    counts: dict[str, int]
    rules: tuple[str, ...] = ()
    schema_changes: tuple[str, ...] = ()
    columns: tuple[dict[str, Any], ...] = ()
    samples: tuple[dict[str, Any], ...] = ()
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class PreviewResult(NamedTuple):
    """The previews, and the tables that cannot go on, with the reasons."""

    previews: list[Preview]
    refusals: tuple[Refusal, ...]


def preview_batches(session: Session) -> PreviewResult:
    """Stage what waits, and preview the next batch of each table; `NothingToDo` if no table has one.

    `GiveUp` where the destination has no branches. A table that the next flush would refuse is listed in `refusals`;
    its reason is raised if no other table has a preview.
    """
    for table in session.pipeline.entries:
        if not session.commits.has_branches(table.name):
            raise GiveUp(
                f"pipeline={session.pipeline.name} table={table.name}: a preview is merged onto a branch, and BigQuery "
                "has none; nothing was staged; leave --preview out"
            )
    reason = None
    refusals = tuple[Refusal, ...]()
    try:
        flush_plan = plan(session)
        refusals = (*flush_plan.refusals, *stage_tables(session, flush_plan).refusals)
    except NothingToDo as nothing:  # what waits may be held
        reason = nothing
    session = expand_template(session)  # staging may have found names of new tables in the records
    waiting = [table for table in observe_tables(session) if has_rows(table.queue)]
    if not waiting and not refusals:
        raise reason or NothingToDo(f"pipeline={session.pipeline.name}: no staged row waits")
    previews = list[Preview]()
    failures = list[Delay]()
    for observed in waiting:
        try:
            previews.append(_preview_table(session, observed))
        except (GiveUp, RetryLater) as failure:
            failures.append((observed.name, failure))
    return PreviewResult(previews, (*refusals, *to_refusals(session, failures, has_work=bool(previews))))


def _preview_table(session: Session, observed: ObservedTable) -> Preview:
    takes_one = observed.spec.approve is not None
    staged_batch = combine_batches(choose_group(session, observed.queue, takes_one=takes_one))
    table = open_table(session, observed.name).add_columns(staged_batch.added).refresh()
    staged = staged_batch.counts.staged
    inserted = {"inserted": staged, "updated": 0, "deleted": 0, "rows": staged}
    found = Preview(table=table.name, batch=staged_batch.batch, counts={})
    if table.state is None or table.state.snapshot_id is None:
        return replace(found, note=f"the table is made by its first batch, of staged={staged} rows")
    check_is_destination(table.prefix, table.state)
    check_mergeable(table)
    changes = list_schema_changes(table)
    found = replace(found, schema_changes=changes)
    if table.spec.mode == TableMode.APPEND:
        return replace(found, counts=inserted)
    if changes or not staged:
        note = "the schema is changed first, which readers would see, so rows are not compared" if changes else ""
        return replace(found, note=note or "it has no rows")
    check_shape(table, staged_batch)
    diff, samples = _compare(table, staged_batch)
    return replace(
        found,
        counts=diff.counts,
        rules=diff.list_rules(table.spec.approve) if table.spec.approve else (),
        columns=tuple(samples["columns"]),
        samples=tuple(samples["samples"]),
    )


def _compare(table: TableSession, staged_batch: StagedBatch) -> tuple[Diff, dict[str, Any]]:
    work = BatchMerge(table, staged_batch, started_ms=0)
    attempt, rows = build_attempt(work, staged_batch.compute_end_position(resolve_position(table)))
    questions = tuple(
        render(table, staged_batch, attempt.branch) for render in (render_diff_question, render_sample_question)
    )
    # of this attempt, and not of the staged one, whose answers a merge beside it waits for
    audit_property = resource_names.name_audit_property(attempt.id)
    texts = ("preview",) * len(questions)
    request = JobQuestions(
        questions, table=table.intermediate, property=audit_property, attempt=attempt.id, texts=texts
    )
    asked = BatchAudits((), request, attempt.id, advice="")
    try:
        answers = try_attempt(replace(attempt, audits=asked), *rows)
    except CommitRefused as refusal:
        raise RetryLater(f"{work.prefix}: main moved meanwhile: {refusal}; run it again") from refusal
    finally:
        # they hold rows; clean_up removes what is left of a killed preview
        statement = table.sql.render("forget_answers", target=table.intermediate, property=audit_property)
        with suppress(TidegateError):
            table.session.engine.run(StatementsJob(table.pipeline.name, 0, (statement,), table=table.name))
    return Diff.from_json(answers[0]), json.loads(answers[1])
