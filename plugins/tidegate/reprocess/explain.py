"""explain: why the table has the row of one key, or has none. Changes nothing.

The key's records are staged from the log as verify stages all, and folded by the SQL of a merge; history and snapshots
tell in which batch each came. What cannot be told is called unknown: see `docs/explain.md`.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from tidegate.errors import (
    ConfigurationError,
    GiveUp,
    NothingToDo,
    RetryLater,
    TidegateError,
    Unverifiable,
    join_failures,
    try_tables,
)
from tidegate.merge.hold import UNREADABLE_COLUMNS
from tidegate.merge.scd2_statements import refuse_history, refuse_truncates
from tidegate.merge.statements import build_merge_input
from tidegate.merge.write_mode import is_folded, name_fold
from tidegate.model.batch import StagedBatch
from tidegate.model.kafka_log import Log
from tidegate.model.offsets import Offsets, Ranges, get_offset, iterate_offsets
from tidegate.model.position import Position
from tidegate.ports.session import Session
from tidegate.reprocess.explained_key import (
    Cause,
    Evidence,
    ExplainedRecord,
    Explanation,
    Passage,
    Passed,
    describe_fate,
    judge,
    list_unknowns,
    name_effects,
)
from tidegate.reprocess.key_records import read_key_records
from tidegate.reprocess.proposed_action import ProposedAction
from tidegate.reprocess.row_key import parse_row_key, render_of_row, render_of_staged_key
from tidegate.reprocess.verify import (
    SET_ALL_ASIDE,
    LogComparison,
    ask_spark,
    build_values,
    find_letters,
    find_refusal,
    find_start,
    parse_differences,
    stage_again,
)
from tidegate.spec.time_text import format_utc, to_utc_datetime
from tidegate.table.coverage import read_coverage
from tidegate.table.log import filter_table_log, read_log
from tidegate.table.position import check_read_log, require_position
from tidegate.table.scratch import ScratchKind, open_scratch_table
from tidegate.table.session import TableSession, open_table, refuse_template, select_tables

MAX_RECORDS = 100
MAX_ROWS = 10
MAX_CHARACTERS = 200  # of a row, a value, or a reason
BEFORE, AHEAD = 1, 2  # the numbers under which records up to the position, and behind it, are staged


@dataclass(frozen=True)
class _Question:
    """One key of one table, and what of the log is read for it."""

    work: LogComparison
    key: Mapping[str, Any]
    refusal: str  # why the rows are not compared; empty if they are
    before: Ranges
    ahead: Ranges
    is_log_whole: bool
    reaches_position: bool

    @property
    def table(self) -> TableSession:
        return self.work.table


def explain_key(session: Session, name: str, text: str, within: Ranges | None = None) -> Explanation:
    """Explain the row of the key in one table; `within` reads no other part of the log.

    1. Stage the key's records: those up to the position, and those behind it.
    2. Fold them with the merge's own SQL, and compare with the table at one snapshot.
    3. Look up batches, dead letters and moves of the position, and judge.

    `Unverifiable` says in a sentence what cannot be explained at all.
    """
    question = _open(session, name, text, within)
    with _stage(question) as (question, staged, tail):
        answers = _ask(question, staged, tail)
    evidence = _gather(question, answers)
    judgement = judge(evidence)
    return Explanation(
        table=question.table.name,
        key=dict(question.key),
        position=question.work.position.offsets,
        snapshot_id=question.table.require_state().snapshot_id or 0,
        row_count=evidence.rows,
        rows=tuple(answers["row"]["rows"]),
        cause=judgement.cause,
        because=judgement.because,
        decided_by=judgement.record.place if judgement.record else None,
        records=name_effects(evidence, judgement),
        record_count=evidence.count,
        limits=list_unknowns(evidence),
        differences=evidence.differences,
        other_tables=answers["others"],
    )


def _open(session: Session, name: str, text: str, within: Ranges | None) -> _Question:
    refuse_template(session.pipeline, "explain")
    table = open_table(session.tolerate(SET_ALL_ASIDE), name)
    if not table.has_branches:
        raise Unverifiable(f"{table.prefix}: explain does not know tables of BigQuery; compare it by hand")
    refuse_truncates(table.pipeline, "explain")
    table = table.refresh()
    position = require_position(table)
    topic_log = filter_table_log(read_log(session), table.spec)
    check_read_log(table, position, topic_log)
    key = parse_row_key(table.resolved, text)
    limits, refusal = _find_limits(table, position, topic_log)
    before, ahead = _list_ranges(position.offsets, topic_log, within)
    spans = [(before.get_range(topic, partition), end) for topic, partition, end in iterate_offsets(position.offsets)]
    begins = (
        f"topic={t} partition={p}: the log begins at offset={o}" for t, p, o in iterate_offsets(topic_log.begin) if o
    )
    limits = (*limits, *(begin for begin in begins if begin not in limits))
    if within is not None:
        limits = (*limits, "records outside of --range were not read")
    if not before.span + ahead.span:
        raise Unverifiable(
            f"{table.prefix}: the log holds no record of its topics any more, or none in --range; look at the table's "
            "snapshots"
        )
    work = LogComparison(
        table=table,
        position=position,
        log=topic_log,
        start=before.start,
        limits=limits,
        scratch=ScratchKind.EXPLAIN,
    )
    return _Question(
        work=work,
        key=key,
        refusal=refusal,
        before=before,
        ahead=ahead,
        is_log_whole=all(span == (0, end) for span, end in spans),
        reaches_position=all(stop == end for (_, stop), end in spans),
    )


def _find_limits(table: TableSession, position: Position, topic_log: Log) -> tuple[tuple[str, ...], str]:
    """Return what the log does not tell, and why the rows are not compared with it at all; empty if they are."""
    if reason := find_refusal(table):
        return (), f"the log alone does not tell {reason}"
    try:
        refuse_history(table.pipeline, (table.spec,), "explain")
        _, limits = find_start(table, position, topic_log)
    except GiveUp as problem:
        return (), str(problem)
    return limits, ""


def _list_ranges(position: Offsets, topic_log: Log, within: Ranges | None) -> tuple[Ranges, Ranges]:
    parts: list[tuple[str, int, tuple[int, int], tuple[int, int]]] = []
    for topic, partition, end in iterate_offsets(topic_log.end):
        begin = get_offset(topic_log.begin, topic, partition) or 0
        # nothing of a partition that the position does not have yet was read
        reached = get_offset(position, topic, partition) or 0
        first, last = (0, end) if within is None else within.get_range(topic, partition)
        lowest, highest = max(begin, first), min(end, last)
        parts.append((topic, partition, (lowest, min(highest, reached)), (max(lowest, reached), highest)))
    ranges: list[dict[str, dict[int, tuple[int, int]]]] = [{}, {}]
    for topic, partition, *spans in parts:
        for side, (start, stop) in zip(ranges, spans, strict=True):
            side.setdefault(topic, {})[partition] = (start, max(start, stop))
    return Ranges(ranges[0]), Ranges(ranges[1])


@contextmanager
def _stage(question: _Question) -> Iterator[tuple[_Question, StagedBatch, StagedBatch | None]]:
    work = question.work
    session = work.session
    of_key = render_of_staged_key(work.table.sql, work.table.resolved, question.key)
    with open_scratch_table(session, work.table.spec, work.scratch):
        # a job reads something: without a record before the position those behind it stand alone
        staged = [
            stage_again(work, number, ranges, of_key=of_key)
            for number, ranges in ((BEFORE, question.before), (AHEAD, question.ahead))
            if ranges.span
        ]
        if not session.staging.holds_rows(work.intermediate, staged):
            raise RetryLater(
                f"{work.prefix}: another row of the table is being explained; run it again when that has ended"
            )
        first = staged[0]
        if first.batch == AHEAD:
            question = replace(question, refusal=question.refusal or "the log holds no record up to the position")
        elif first.counts.gaps:
            gaps = f"offsets={first.counts.gaps} without a record: compacted, aborted, or of transactions"
            work = replace(work, limits=(*work.limits, gaps))
            question = replace(question, work=work, is_log_whole=False)
        yield question, first, staged[1] if len(staged) > 1 else None


def _ask(question: _Question, staged: StagedBatch, tail: StagedBatch | None) -> dict[str, Any]:
    """Return the answers by name: what is always asked, then what is asked of a row that is missing or differs."""
    work = question.work
    sql = work.table.sql
    values, refusal = _build_values(question, staged, tail)
    statements = {
        "records": sql.render("explain_records", **values),
        "row": sql.render("explain_row", **values),
        **({"letters": sql.render("explain_letters", **values)} if values["letters"] else {}),
    }
    if not refusal:
        statements["kind"] = sql.render("verify_counts", **values)
        statements["unlettered"] = sql.render("verify_letters", **values)
    if not refusal and values["form"] == "sequenced":
        statements["winner"] = sql.render("explain_winner", **values)
    answers = _ask_by_name(work, staged, statements)
    if refusal:
        answers["kind"] = None
    else:  # of one key, one kind is counted
        answers["kind"] = next((kind for kind, n in answers["kind"].items() if n and kind != "copied"), "")
    others = {} if answers["row"]["count"] else dict(_list_others(question))
    if answers["kind"] in ("missing", "surplus", "different", "unknowable"):
        others["differences"] = sql.render("verify_differences", **values)
    more = _ask_by_name(work, staged, others) if others else {}
    differences = more.pop("differences", [])
    tables = tuple(name for name, answer in more.items() if answer["count"])
    known = {"letters": [], "winner": {}, "unlettered": 0, "refusal": refusal, "form": values["form"]}
    return {**known, **answers, "differences": differences, "others": tables}


def _ask_by_name(work: LogComparison, staged: StagedBatch, statements: Mapping[str, str]) -> dict[str, Any]:
    texts = ask_spark(work, staged, tuple(statements.values()))
    # a count comes as a number
    answers = (text if isinstance(text, int) else json.loads(text or "null") for text in texts)
    return dict(zip(statements, answers, strict=True))


def _build_values(question: _Question, staged: StagedBatch, tail: StagedBatch | None) -> tuple[dict[str, Any], str]:
    """Return the values of the statements, and why table and log are not compared; empty if they can be."""
    work = question.work
    table = work.table
    spec = table.resolved
    refusal = question.refusal
    values: dict[str, Any] = {}
    if not refusal:
        try:
            values = build_values(work, staged, tail)
        except Unverifiable as problem:
            refusal = str(problem)
    names = [name for name, _ in table.require_state().struct.fields if name not in UNREADABLE_COLUMNS]
    own = {
        "form": name_fold(spec, is_folded=is_folded(spec, staged)),
        "columns": names,
        "table_snapshot_id": table.require_state().snapshot_id,
        "last_snapshot_id": (tail or staged).snapshot_id,
        "seen_parts": [*staged.parts, *(tail.parts if tail else ())],
    }
    values = values or {**build_merge_input(table, staged, "main"), **own, "source": work.intermediate}
    if "letters" not in values:
        found = find_letters(work)
        # Spark cannot read those that are in BigQuery
        values |= found if found["letters_snapshot_id"] else {"letters": None}
    values |= {
        "batch": BEFORE,
        "buckets": None,  # one key is compared whole
        "of_row": render_of_row(table.sql, spec, question.key),
        "max_records": MAX_RECORDS,
        "max_rows": MAX_ROWS,
        "max_characters": MAX_CHARACTERS,
        # whether keys stay in one partition is not seen from one key
        "is_plain": False,
    }
    return values, refusal


def _list_others(question: _Question) -> Iterator[tuple[str, str]]:
    """Yield for each other table of the pipeline how many rows of the key it has, as a statement."""
    session = question.work.session
    for spec in select_tables(session, None):
        if spec.name == question.table.name or not session.commits.has_branches(spec.name):
            continue
        other = open_table(session, spec.name).refresh()
        if other.state is None or other.state.snapshot_id is None:
            continue
        with suppress(ConfigurationError):  # it has another key
            key = parse_row_key(other.resolved, json.dumps(question.key))
            of_row = render_of_row(other.sql, other.resolved, key)
            yield (
                spec.name,
                other.sql.render(
                    "explain_row",
                    target=spec.name,
                    table_snapshot_id=other.state.snapshot_id,
                    of_row=of_row,
                    columns=list(key),
                    max_rows=1,
                    max_characters=1,
                ),
            )


def _gather(question: _Question, answers: Mapping[str, Any]) -> Evidence:
    work = question.work
    found = answers["records"]
    winner = answers["winner"] or {}
    deleted_at = winner.get("deleted_at") if winner.get("is_deleted") else None
    coverage = read_coverage(work.table.pipeline.name, work.table.state)
    return Evidence(
        rows=answers["row"]["count"],
        kind=answers["kind"],
        refusal=answers["refusal"],
        records=tuple(read_key_records(work, found["records"], answers["letters"])),
        count=found["count"],
        count_ahead=found["count_ahead"],
        partitions=found["partitions"],
        unreadable=found["unreadable"],
        unreadable_at=found.get("unreadable_at"),
        unlettered=answers["unlettered"],
        form=answers["form"],
        winner=(winner["topic"], winner["offset"]) if winner else None,
        deleted_at=(deleted_at["topic"], deleted_at["offset"]) if deleted_at else None,
        is_log_whole=question.is_log_whole,
        reaches_position=question.reaches_position,
        followed_from=coverage.start if coverage else None,
        limits=work.limits,
        differences=tuple(parse_differences(answers["differences"])),
    )


# ---- the action, and its answer in words

Refusals = dict[str, TidegateError]


def propose_explain(session: Session, key: str, table: str | None = None) -> ProposedAction:
    """`NothingToDo` with the answer, without a value of row or record: it is kept by Airflow."""
    explanations, refusals = explain_tables(session, key, table)
    raise NothingToDo("\n".join(format_answer(explanations, refusals, with_values=False)))


def explain_tables(
    session: Session, key: str, name: str | None = None, within: Ranges | None = None
) -> tuple[list[Explanation], Refusals]:
    """Explain the key in each table, or in the one named; the refusals by table. Raises if every table is refused."""
    names = [table.name for table in select_tables(session, name)]
    explanations, refusals = try_tables(names, lambda table: explain_key(session, table, key, within))
    if refusals and not explanations:
        raise join_failures(refusals.values())
    return explanations, refusals


def format_answer(explanations: list[Explanation], refusals: Refusals, *, with_values: bool = True) -> Iterator[str]:
    """Yield the lines of the answer; without values it says no more of rows and records than the key and places."""
    for entry in explanations:
        yield from _format_explanation(entry, with_values=with_values)
    yield from (f"{name}: not explained: {reason}" for name, reason in refusals.items())


def _format_explanation(entry: Explanation, *, with_values: bool) -> Iterator[str]:
    there = {0: "no row"}.get(entry.row_count, "a row" if entry.row_count == 1 else f"{entry.row_count} rows")
    yield f"{entry.table}: {there} of key={json.dumps(entry.key, ensure_ascii=False)}"
    yield f"  {'not known' if entry.cause == Cause.UNKNOWN else entry.cause}: {entry.because}"
    if with_values:
        yield from (f"  row: {row}" for row in entry.rows)
    for difference in entry.differences:
        values = (("table", difference.table), ("log", difference.log)) if with_values else ()
        shown = "".join(f" {side}={'NULL' if text is None else text}" for side, text in values)
        yield f"  differs: {difference.column or difference.kind}{':' if shown else ''}{shown}"
    if entry.other_tables and not entry.row_count:
        yield f"  another table has it: {', '.join(entry.other_tables)}"
    if entry.record_count > len(entry.records):
        yield f"  records: {entry.record_count}, of which these are the newest"
    for record in entry.records:
        yield f"  {_format_record(record, with_values=with_values)}"
        yield from (f"    {_format_passed(passed)}" for passed in record.passed)
    yield from (f"  not known: {limit}" for limit in entry.limits)


def _format_record(record: ExplainedRecord, *, with_values: bool) -> str:
    at = format_utc(to_utc_datetime(record.at_ms))
    if record.fate != "staged":
        return f"{record.place} {at} {record.effect}: {describe_fate(record)}"
    kind = "delete" if record.is_delete else "row"
    letter = "" if record.letter is None else f", a dead letter, {record.letter.state}"
    effect = f" {record.effect}" if record.effect else ""
    value = f": {record.value}" if with_values and record.value is not None else ""
    return f"{record.place} {at} {kind}{effect}{letter}{value}"


def _format_passed(passed: Passed) -> str:
    at = format_utc(to_utc_datetime(passed.at_ms))
    if passed.how == Passage.MOVED:
        return f"{at} the position was moved past it, snapshot={passed.snapshot_id}"
    of = f"backfill={passed.backfill}" if passed.backfill else f"batch={passed.batch}"
    gone = {Passage.ROLLED_BACK: ", rolled back", Passage.EXPIRED: ", which has expired"}.get(passed.how, "")
    run = f" run={passed.run}" if passed.run else ""
    return f"{at} {of} attempt={passed.attempt} snapshot={passed.snapshot_id}{gone}{run}"
