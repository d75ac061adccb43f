"""Audits: what must hold on the branch before a batch is published; asked by the merge job, judged by the worker."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.errors import AuditFailed, RetryLater
from tidegate.jobs.statements_job import JobQuestions
from tidegate.merge.hold import render_diff_question
from tidegate.merge.statements import build_merge_input
from tidegate.merge.write_mode import is_folded
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.ports.destination import StagingStore
from tidegate.spec.table import DeleteMode
from tidegate.table.session import TableSession

PLACEHOLDER = "{table}"
# what a query gives that is neither true nor false, by the numbers of the statement audit_query
QUERY_PROBLEMS = {
    2: ": it gives no row, or several, and must give one",
    3: ": it gives NULL, and must give true or false",
    4: ": it gives neither true nor false, but a value of another type",
}
MAX_SHOWN_CHARACTERS = 200  # of an audit in a message


@dataclass(frozen=True)
class BatchAudits:
    """The audits of one staged batch in one attempt to publish it; `texts` are the user's words, in order.

    The merge job runs `request`. The answers lie beside the rows of `staged_attempt`.
    """

    texts: tuple[str, ...]
    request: JobQuestions
    staged_attempt: str
    advice: str  # what to do about one that does not hold
    asks_diff: bool = False  # the last question is that of the diff, see `merge/hold.py`


def prepare_audits(table: TableSession, staged_batch: StagedBatch, branch: str, attempt: str) -> BatchAudits | None:
    """Return one question for each audit; None for a table without audits, or for a batch without rows.

    `attempt` is the merge's: an answer that another attempt left does not count.
    """
    audits = table.spec.audits
    asks_diff = table.spec.approve is not None
    if not (audits or asks_diff) or not staged_batch.counts.staged:
        return None
    values = build_merge_input(table, staged_batch, branch)
    spec = table.resolved
    # among the staged rows, unless these may be changed on their way
    is_changed = spec.sequence_by or spec.history or spec.deletes == DeleteMode.SOFT or is_folded(spec, staged_batch)
    rows = "branch" if is_changed else "upsert" if spec.upsert else spec.mode
    questions = tuple(
        table.sql.render("audit_query", query=audit, target=values["target"], branch=values["branch"])
        if is_query(audit)
        else table.sql.render("audit_rows", condition=audit, rows=rows, **values)
        for audit in audits
    )
    advice = (
        "nothing was published and the batch stays staged; correct the audit in the pipeline file, or what the audit "
        "looks at; the next flush tries again"
    )
    if asks_diff:
        questions += (render_diff_question(table, staged_batch, branch),)
    asked = ask_audits(table, questions, values["source"], staged_batch.attempt, attempt=attempt, advice=advice)
    return replace(asked, asks_diff=asks_diff)


def ask_audits(  # noqa: PLR0913 - one argument per fact, two of them by name
    table: TableSession, questions: Sequence[str], source: str, staged_attempt: str, *, attempt: str, advice: str
) -> BatchAudits:
    """Return a request for answers to a question for each audit, to be left beside the staged rows in `source`."""
    audits = table.spec.audits
    audit_property = resource_names.name_audit_property(staged_attempt)
    texts = (*map(_shorten, audits), *(["approve"] * (len(questions) - len(audits))))
    request = JobQuestions(tuple(questions), table=source, property=audit_property, attempt=attempt, texts=texts)
    return BatchAudits(audits, request, staged_attempt, advice)


def is_query(audit: str) -> bool:
    """Whether an audit is a whole query over the branch, and not a condition on each row that the batch writes."""
    return PLACEHOLDER in audit


def check_audits(staging: StagingStore, place: str, audited: BatchAudits) -> None:
    """Read the answers that the merge job left: `AuditFailed` names every audit that does not hold.

    `RetryLater` if this attempt left no answer. Changes nothing; the batch stays staged.
    """
    answers = require_answers(staging, place, audited)
    broken = [
        f"audit={_shorten(audit)} does not hold{QUERY_PROBLEMS.get(rows, '') if is_query(audit) else f': rows={rows}'}"
        for audit, rows in zip(audited.texts, answers[: len(audited.texts)], strict=True)
        if rows
    ]
    if broken:
        raise AuditFailed(f"{place}: {'; '.join(broken)}; {audited.advice}")


def require_answers(staging: StagingStore, place: str, audited: BatchAudits) -> tuple[Any, ...]:
    """Return the answer to each question; `RetryLater` if this attempt left none."""
    answers = staging.read_job_answers(audited.request.table, audited.staged_attempt)
    if answers is None or answers.attempt != audited.request.attempt:
        raise RetryLater(
            f"{place}: the audits have no answer: attempt={audited.request.attempt}; it will be merged again"
        )
    return answers.broken


def _shorten(audit: str) -> str:
    text = " ".join(audit.split())
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 1] + "…"
