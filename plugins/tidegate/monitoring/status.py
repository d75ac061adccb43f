"""How far a pipeline has come and how far behind it is, for people and, as JSON, for programs."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from tidegate.errors import GiveUp, RetryLater
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch, pick_cost_counts
from tidegate.model.offsets import RecordAddress, get_offset, parse_offsets
from tidegate.model.table_state import TableState
from tidegate.model.unknown_fields import UnknownFields
from tidegate.monitoring.reports import (
    ActionReport,
    ApprovedReport,
    BackfillStatus,
    BatchReport,
    DeadLetterStatus,
    HeldReport,
    PartitionOverview,
    PartitionStatus,
    PipelineStatus,
    StagingLag,
    TableLine,
    TableStatus,
    TotalLag,
    UnknownFieldsReport,
    VerificationReport,
)
from tidegate.monitoring.runbook import find_page_of_problem
from tidegate.ports.destination import BatchCounts, HistoryRow
from tidegate.ports.session import Session
from tidegate.reprocess.backfill import read_applied_slices, read_open_backfills
from tidegate.reprocess.verify import KINDS, VERIFIED_PROPERTY, WHOLE
from tidegate.spec.time_text import format_time_ms, format_utc, to_utc_datetime
from tidegate.table.history import list_actions
from tidegate.table.observed_table import read_staged
from tidegate.table.pipeline_progress import (
    PartitionProgress,
    PipelineProgress,
    TableProgress,
    find_common_time,
    read_pipeline_progress,
)
from tidegate.table.risks import find_risks

MAX_BATCHES = 10
MAX_NAMED_LIMITS = 5
Part = TypeVar("Part")
Times = Mapping[RecordAddress, int]  # of records, in milliseconds
UNKNOWN_DEAD_LETTERS: DeadLetterStatus = {
    "dead_letters": None,
    "dead_letters_replayed": None,
    "newest_dead_letter": None,
}


def read_status(session: Session) -> PipelineStatus:
    """Read position, lag, last batches and freshness of one pipeline; changes nothing.

    A table that cannot go on or be read has the reason as `problem`. What else does not answer is named in `warnings`.
    """
    progress = read_pipeline_progress(session)
    session = progress.session
    pipeline = progress.session.pipeline
    times = read_all_times(progress)
    tables = [_describe_table(session, table_progress, times) for table_progress in progress.tables]
    warnings = find_risks(progress)
    problems = list[str]()
    rows = _read_part(lambda: session.history.read_history(session.history_table, MAX_BATCHES), problems)
    batches = [format_batch(row) for row in rows or ()]
    newest_batches = dict[str, BatchReport]()
    for batch in batches:  # the newest come first
        newest_batches.setdefault(batch["table"], batch)
    unknown_fields = [
        f"pipeline={pipeline.name} table={table} batch={batch['batch']}: {batch['unknown_fields']['message']}"
        for table, batch in newest_batches.items()
        if batch["unknown_fields"] is not None
    ]
    backfills = _read_part(lambda: read_backfills(session), problems)
    dead_letters = _read_part(lambda: _describe_dead_letters(session), problems)
    return {
        "pipeline": pipeline.name,
        "description": pipeline.description,
        "group": pipeline.source.group,
        "freshness": find_common_time(table["valid_through"] for table in tables),
        **add_lags(tables),
        "tables": tables,
        "partitions": _describe_partitions(progress, times),
        "batches": batches,
        "backfills": backfills or [],
        **(dead_letters or UNKNOWN_DEAD_LETTERS),
        "warnings": [*warnings, *unknown_fields, *problems],
    }


def _read_part(read: Callable[[], Part], problems: list[str]) -> Part | None:
    try:
        return read()
    except (GiveUp, RetryLater) as reason:
        problems.append(str(reason))
        return None


def read_backfills(session: Session) -> list[BackfillStatus]:
    """Read the backfills that are under way, stopped or given up, of a pipeline whose tables are known."""
    return [
        {
            "backfill": backfill.id,
            "tables": sorted(part.table for part in backfill.tables),
            "slices": len(backfill.numbers),
            "applied": read_applied_slices(session, backfill),
        }
        for backfill in read_open_backfills(session).values()
    ]


def _describe_table(session: Session, progress: TableProgress, times: Times) -> TableStatus:
    position = progress.position
    state = progress.state
    name = progress.spec.name
    problem = progress.problem
    staged_batches = tuple[StagedBatch, ...]()
    rows = None
    try:
        if progress.is_read:
            staged_batches = read_staged(progress)
            rows = session.tables.count_rows(name)
    except (GiveUp, RetryLater) as reason:
        problem = problem or str(reason)
    published_batch = position.batch if position else 0
    return {
        **describe_table_line(progress, times),
        "mode": progress.spec.mode,
        "exists": state is not None if progress.is_read else None,
        "position": position.offsets if position else None,
        "snapshot_id": str(state.snapshot_id) if state and state.snapshot_id else None,
        "rows": rows,
        "staged_to": progress.staged_offsets if session.pipeline.stage.has_clock else None,
        "rolled_back": state.is_rolled_back if state else False,
        "open_batches": [s.batch for s in staged_batches if s.batch > published_batch],
        "actions": describe_actions(session, state),
        "problem": problem,
        "runbook": find_page_of_problem(problem),
    }


def add_lags(tables: Sequence[TableLine]) -> TotalLag:
    """Add up the lags of tables; of some that are unknown the others' sum is shown, unless that is 0."""
    lag = sum(table["lag"] for table in tables)
    return {"lag": lag, "lag_known": lag > 0 or all(table["lag_known"] for table in tables)}


def is_log_unread(progress: TableProgress) -> bool:
    """Whether nothing could be counted, as no topic of the table is there."""
    return progress.problem is not None and not progress.log.end


def describe_table_line(progress: TableProgress, times: Times) -> TableLine:
    ages = [measure_lag_seconds(progress.session, part, times) for part in progress.iterate_next()]
    return {
        "table": progress.spec.name,
        "batch": progress.position.batch if progress.position else None,
        "lag": progress.lag,
        "lag_known": not is_log_unread(progress),
        "lag_seconds": None if is_log_unread(progress) else find_oldest_age(ages),
        "staging": describe_staging(progress, times),
        "valid_through": format_time_ms(progress.valid_through_ms),
        "problem": progress.problem,
        "runbook": find_page_of_problem(progress.problem),
        "verified": read_verification(progress.session.pipeline.name, progress.state),
        "held": _describe_held(progress),
        "approved": _describe_approved(progress),
    }


def _describe_held(progress: TableProgress) -> HeldReport | None:
    if progress.held is None:
        return None
    hold = progress.held.hold
    return {
        "batch": hold.batch,
        "rules": list(hold.rules),
        "inserted": hold.counts.get("inserted"),
        "updated": hold.counts.get("updated"),
        "deleted": hold.counts.get("deleted"),
        "rows": hold.counts.get("rows"),
        "table_rows": hold.counts.get("table_rows"),
        "schema_changes": list(hold.changes),
        "branch": hold.branch or None,
        "digest": hold.digest,
        "rejected_by": progress.held.rejected_by or None,
    }


def _describe_approved(progress: TableProgress) -> ApprovedReport | None:
    asked = progress.asked
    if asked is None or asked.decision is None or not asked.approved_by:
        return None
    return {"batch": asked.hold.batch, "by": asked.approved_by, "at": format_time_ms(asked.decision.at_ms)}


def describe_actions(session: Session, state: TableState | None) -> list[ActionReport]:
    actions = reversed(list_actions(session.pipeline.name, state))
    return [
        {"at": format_time_ms(entry.at_ms), "by": entry.by, "action": entry.action, "details": entry.details}
        for entry in actions
    ]


def _describe_partitions(progress: PipelineProgress, times: Times) -> list[PartitionStatus]:
    session = progress.session
    log = progress.log
    committed_offsets = session.broker.read_committed(session.pipeline.source.group, tuple(log.end))
    return [
        {
            **part,
            "begin": get_offset(log.begin, part["topic"], part["partition"]),
            "committed": get_offset(committed_offsets, part["topic"], part["partition"]),
        }
        for part in describe_partitions(progress, times)
    ]


def find_unpublished(progress: PipelineProgress) -> set[RecordAddress]:
    """Return the places of each table's first unpublished and first unstaged record: their age is its lag."""
    tables = progress.tables
    parts = [part for table_progress in tables for part in table_progress.iterate_next()]
    if progress.session.pipeline.stage.has_clock:
        parts += [part for table_progress in tables for part in table_progress.iterate_staged()]
    return {part[:3] for part in parts if part.lag}


def read_all_times(progress: PipelineProgress) -> Times:
    """Read the times of those records in one request, as far as the brokers tell."""
    parts = (*progress.iterate_published(), *progress.iterate_staged())
    places = find_unpublished(progress) | {part[:3] for part in parts if part.lag}
    return progress.session.broker.read_timestamps(places)


def describe_partitions(progress: PipelineProgress, times: Times) -> list[PartitionOverview]:
    session = progress.session
    has_clock = session.pipeline.stage.has_clock
    parts = zip(progress.iterate_published(), progress.iterate_staged(), strict=True)
    return [
        {
            "topic": part.topic,
            "partition": part.partition,
            "published": part.offset,
            "end": part.end,
            "lag": part.lag,
            "lag_seconds": measure_lag_seconds(session, part, times),
            "staging": {
                "staged": staged_part.offset,
                "lag": staged_part.lag,
                "lag_seconds": measure_lag_seconds(session, staged_part, times),
            }
            if has_clock
            else None,
        }
        for part, staged_part in parts
    ]


def describe_staging(progress: TableProgress, times: Times) -> StagingLag | None:
    """Describe how far the staging of a table is behind; None if a flush both stages and merges."""
    if not progress.pipeline.stage.has_clock:
        return None
    parts = list(progress.iterate_staged())
    ages = [measure_lag_seconds(progress.session, part, times) for part in parts]
    oldest_age = None if is_log_unread(progress) else find_oldest_age(ages)
    return {"lag": sum(part.lag for part in parts), "lag_seconds": oldest_age}


def find_oldest_age(ages: list[float | None]) -> float | None:
    """Return the greatest age; an unknown one matters only while no other is greater than 0."""
    oldest_age = max((age for age in ages if age is not None), default=0.0)
    return None if oldest_age == 0.0 and None in ages else oldest_age


def measure_lag_seconds(session: Session, part: PartitionProgress, times: Times) -> float | None:
    """Return the age of the first unpublished record; 0 if there is none, None if the brokers do not tell."""
    if not part.lag:
        return 0.0
    oldest = times.get(part[:3])
    return None if oldest is None else max(0.0, round((session.now_ms() - oldest) / 1000, 1))


def _describe_dead_letters(session: Session) -> DeadLetterStatus:
    dead_letters = session.dead_letters.read_dead_letters(session.letters_table, 1)
    column_names = ("table", "topic", "partition", "offset", "batch", "stage", "message")
    newest = [{name: getattr(letter, name) for name in column_names} for letter in dead_letters.newest]
    return {
        "dead_letters": dead_letters.waiting,
        "dead_letters_replayed": dead_letters.replayed,
        "newest_dead_letter": newest[0] if newest else None,
    }


def format_batch(row: HistoryRow) -> BatchReport:
    values: dict[str, Any] = {**row}
    counts = {name: values[name] for name in BatchCounts.__annotations__}
    return {
        "batch": row["batch"],
        "table": row["table"],
        "span": row["span"],
        "stage_seconds": row["stage_seconds"],
        "gaps": row["span"] - row["read"],
        **cast("BatchCounts", counts),
        **pick_cost_counts(row),
        "backfill": row.get("backfill"),
        "unknown_fields": _format_unknown_fields(row),
        "published_at": format_time_ms(row["published_at_ms"]),
        "valid_through": format_time_ms(row["valid_through_ms"]),
    }


def read_unknown_fields(row: HistoryRow) -> UnknownFields | None:
    """What the batch's records held beside the columns; None where nothing was."""
    text = row["unknown_fields"]
    return None if text is None else UnknownFields.from_dict(json.loads(text))


def _format_unknown_fields(row: HistoryRow) -> UnknownFieldsReport | None:
    unknown = read_unknown_fields(row)
    if unknown is None:
        return None
    return {
        "records": unknown.records,
        "fields": [{"name": f.name, "records": f.records, "type": f.type} for f in unknown.fields],
        "others": unknown.others,
        "message": unknown.describe(),
    }


# ---- what the last verification of a table has found


def read_verification(pipeline: str, state: TableState | None) -> VerificationReport | None:
    """Return the kept result of the last verification; None if there is none."""
    text = (state.marks if state else {}).get(resource_names.name_pipeline_property(pipeline, VERIFIED_PROPERTY))
    if text is None:
        return None
    facts = json.loads(text)
    return {
        "at": format_utc(to_utc_datetime(facts["at_ms"])),
        "position": parse_offsets(facts["position"]),
        "sample_per_million": facts["sample_per_million"],
        "equal": facts["equal"],
        "missing": facts["missing"],
        "surplus": facts["surplus"],
        "different": facts["different"],
        "unknowable": facts["unknowable"],
    }


def count_wrong(report: VerificationReport) -> int:
    return report["missing"] + report["surplus"] + report["different"]


def format_counts(facts: Mapping[str, Any]) -> str:
    sample = facts["sample_per_million"]
    share = "" if sample == WHOLE else f" of a sample of {sample * 100 / WHOLE:g}%"
    return " ".join(f"{kind}={facts[kind]}" for kind in KINDS) + share


def format_verification(table: str, report: VerificationReport) -> str:
    return f"verified {report['at']} {table}: {format_counts(report)}"


def describe_limits(limits: Sequence[str]) -> str:
    """Say why the log cannot tell some keys."""
    if not limits:
        return "unknowable: records of these keys were set aside, come by several partitions, or came late"
    named = "; ".join(limits[:MAX_NAMED_LIMITS])
    more = len(limits) - MAX_NAMED_LIMITS
    return f"unknowable: {named}" + (f"; and {more} more" if more > 0 else "")
