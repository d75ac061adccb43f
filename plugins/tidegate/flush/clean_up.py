"""clean_up: remove what published batches left behind, in this pipeline's own intermediate tables and branches only."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tidegate.flush.maintain import (
    DELETED_SHARE,
    MIN_SMALL_FILES,
    MaintenanceReport,
    build_renderer,
    has_many_manifests,
    is_rewritten,
    is_worn,
    rewrite_table,
)
from tidegate.merge.owed import send_dead_letters
from tidegate.model import resource_names
from tidegate.model.table_state import TableFiles, TableState
from tidegate.ports.session import Session
from tidegate.spec.runtime import Maintenance
from tidegate.table.history import list_backfill_tables
from tidegate.table.scratch import drop_unused_scratch_tables
from tidegate.table.session import TableSession, expand_template

log = logging.getLogger(__name__)
# Delete files for which a large file is rewritten: so many that only the share of its deletes is a reason.
DISABLED_COUNT = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class CompactionReport:
    """What was done for `table` (full name). `failed` is the reason of a failure."""

    table: str
    maintenance_report: MaintenanceReport | None = None
    failed: str | None = None

    @property
    def is_compacted(self) -> bool:
        return self.maintenance_report is not None and self.maintenance_report.compacted

    def to_dict(self) -> dict[str, Any]:
        if self.maintenance_report is not None:
            return self.maintenance_report.to_dict()
        failure = {} if self.failed is None else {"failed": self.failed}
        return {"table": self.table, "compacted": False, **failure}


def is_due(settings: Maintenance, published_batches: int, batches: int) -> bool:
    """Whether one of the last `batches` batches, up to number `published_batches`, calls for compaction."""
    if not settings.follows_flushes:
        return False
    return published_batches // settings.compact_every > (published_batches - batches) // settings.compact_every


def compact(session: Session, tables: Iterable[str]) -> list[CompactionReport]:
    """Rewrite the files of each table (full names) where that pays; return one report for each, in order.

    A failure is reported and never fails the flush. A repeat call measures again, and rewrites nothing twice.
    """
    return [_compact_table(session, table) for table in tables]


def _compact_table(session: Session, table: str) -> CompactionReport:
    try:
        files = session.tables.read_files(table)
        statements = _render_compaction(session, table, files) if files and is_rewritten(session, table) else {}
        if not files or not statements:
            return CompactionReport(table=table)
        return CompactionReport(table=table, maintenance_report=rewrite_table(session, table, files, statements))
    except Exception as error:  # whatever it is, rows are published and must not be held up by how they are stored
        reason = f"{type(error).__name__}: {error}"
        log.warning(
            "compaction failed, a later flush tries again: pipeline=%s table=%s: %s",
            session.pipeline.name,
            table,
            reason,
        )
        return CompactionReport(table=table, failed=reason)


def _render_compaction(session: Session, table: str, files: TableFiles) -> dict[str, str]:
    render = build_renderer(session, table)
    statements = dict[str, str]()
    if is_worn(files):
        statements["compact"] = render("compact", delete_files=DISABLED_COUNT, deleted_share=DELETED_SHARE)
    # one for each data file is what Spark keeps by itself; where all files are rewritten none is left
    if (
        files.delete_files >= MIN_SMALL_FILES
        and files.delete_files > files.data_files > files.max_small_files_per_partition
    ):
        statements["deletes"] = render("deletes")
    if has_many_manifests(files):
        statements["manifests"] = render("manifests")
    return statements


COMPACTION_KEY = "measure"  # of `needs_compaction`, in the results that Airflow stores
SCRATCH_EVERY = 20  # batches: to list the tables of a namespace costs a call to its catalog
FORGET_SHARE = 7  # a seventh of tombstone_retention (a day by default) lies between two DELETEs that are billed


@dataclass(frozen=True)
class CleanUpReport:
    """What was removed for one table. None means: nothing to do, or an earlier part failed."""

    table: str
    published: int | None = None  # the newest published batch
    sent_dead_letters: int | None = None
    removed: dict[str, int] = field(default_factory=dict)  # from the intermediate table, counted by kind
    needs_compaction: bool | None = None  # compact should measure the table's files
    branches: int | None = None
    scratch_tables: int | None = None
    forgotten_deletes: int | None = None
    # pipelines whose time is unknown, so no remembered delete was forgotten
    unknown_valid_through: list[str] | None = None
    failed: str | None = None

    def to_dict(self) -> dict[str, Any]:
        data = asdict(self)
        data = {"table": data.pop("table"), "published": data.pop("published"), **data.pop("removed"), **data}
        data[COMPACTION_KEY] = data.pop("needs_compaction")
        return {key: value for key, value in data.items() if value is not None or key == "published"}


def list_tables_to_compact(reports: Iterable[Mapping[str, Any]]) -> list[str]:
    return [report["table"] for report in reports if report.get(COMPACTION_KEY)]


def clean_up(session: Session) -> list[CleanUpReport]:
    """Remove what published batches left behind in each table, and return what was removed.

    1. Send the dead letters of published batches to `errors.topic`, if there is one.
    2. Remove published batches, and attempts that failed for a bad record, from the intermediate table.
    3. Drop this pipeline's branches of published batches, and those of backfills and replays that have ended.
    4. Forget deletes that have been remembered long enough.
    5. Now and then drop what killed verifications and explanations have left.

    Idempotent, except that dead letters may be sent again after a failure. A failure is reported, and never fails the
    flush: the next run does the rest.
    """
    session = expand_template(session)
    return [_clean_table(TableSession(session, table)) for table in session.pipeline.tables]


def _clean_table(table: TableSession) -> CleanUpReport:
    done: dict[str, Any] = {}  # also if the next part fails
    try:
        _remove_leftovers(table, done)
    except Exception as error:  # whatever it is, rows are published: leftovers must not fail the flush
        done["failed"] = f"{type(error).__name__}: {error}"
        place = f"{table.prefix} batch={done.get('published')}"
        log.warning("clean-up failed, the next run tries again: %s: %s", place, done["failed"])
    return CleanUpReport(table.name, **done)


def _remove_leftovers(table: TableSession, done: dict[str, Any]) -> None:
    table = table.refresh()
    session = table.session
    state = table.state
    if state is None or state.recorded_position is None:
        done["removed"] = session.staging.clean_up(table.intermediate, 0)
        return
    batch = done["published"] = state.recorded_position.batch
    # 1.
    if table.spec.errors.topic:  # first: batches that are still staged may have letters that were not sent
        done["sent_dead_letters"] = send_dead_letters(table, batch)
    # 2. the newest snapshot of a table of names is the only one that it needs
    is_registry = table.spec.discovers_names and table.has_branches
    leftovers = (table.name, batch - 1) if is_registry else (table.intermediate, batch)
    removed_counts = done["removed"] = session.staging.clean_up(*leftovers)
    # of batches alone: a table whose batches have odd numbers would step over every tenth
    passed = removed_counts.pop("passed", removed_counts.get("batches", 0))
    done["needs_compaction"] = is_due(session.pipeline.maintenance, batch, passed)

    def is_gone(backfill: str) -> bool:
        return not list_backfill_tables(session, table.spec, backfill, session.tables.list_tables)

    # 3. a late job of a backfill may make its branch again after the backfill has ended
    done["branches"] = session.commits.drop_branches(table.name, session.pipeline.name, batch, is_gone)
    # 4.
    if table.spec.remembers:
        memory = resource_names.name_memory_table(table.spec)
        session.commits.drop_branches(memory, session.pipeline.name, batch, is_gone)
        done |= _forget_old_deletes(table, state)
    # 5.
    if batch // SCRATCH_EVERY > (batch - passed) // SCRATCH_EVERY:
        done["scratch_tables"] = drop_unused_scratch_tables(session, table.spec)


def _forget_old_deletes(table: TableSession, state: TableState) -> dict[str, Any]:
    # by the records' own time, not by the clock: a pipeline that stood still may yet read older records
    session = table.session
    # several pipelines may publish into the table and share the memory: the one that is farthest behind decides
    positions = {session.pipeline.name: state.lasting_position, **table.read_other_positions()}
    times = {name: position.valid_through_ms if position else None for name, position in positions.items()}
    known_times = [ms for ms in times.values() if ms is not None]
    if len(known_times) < len(times):
        unknown = sorted(name for name, ms in times.items() if ms is None)
        return {"forgotten_deletes": 0, "unknown_valid_through": unknown}
    kept_ms = table.spec.tombstone_retention_seconds * 1000
    # never later than now: one record from a wrong clock would let all deletes be forgotten, for good
    before_ms = min(*known_times, session.now_ms()) - kept_ms
    every_ms = kept_ms // FORGET_SHARE
    return {
        "forgotten_deletes": session.tables.forget_deletes(
            resource_names.name_memory_table(table.spec), before_ms, every_ms
        )
    }
