"""maintain: keep the tables that records land in small and quick to read, beside the flushes and never in their way."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from tidegate.errors import GiveUp, RetryLater, join_failures, try_tables
from tidegate.jobs.lasting_failures import build_refused_right_error, find_refused_right
from tidegate.jobs.maintain_job import ORPHANS, MaintainJob, MaintenanceOutcome, ProcedureOutcome
from tidegate.model import resource_names
from tidegate.model.ownership import KIND_PROPERTY, TableKind
from tidegate.model.table_state import TableFiles
from tidegate.ports.session import Session
from tidegate.spec.runtime import Maintenance, UseWhen
from tidegate.spec.time_text import to_utc_datetime
from tidegate.table.session import expand_template

# Iceberg's rewrite takes fewer small files of a partition for not worth it.
MIN_SMALL_FILES = 5
# From so many delete files on one data file, or deletes for such a share of its rows, reading pays for rewriting it.
DELETE_FILES = 10
DELETED_SHARE = 0.1
MIN_MANIFESTS = 50


def needs_compaction(settings: Maintenance, files: TableFiles) -> bool:
    if settings.compact != UseWhen.AUTO:
        return settings.compact == UseWhen.ALWAYS
    return is_worn(files) or files.delete_files >= DELETE_FILES


def is_worn(files: TableFiles) -> bool:
    return files.max_small_files_per_partition >= MIN_SMALL_FILES or files.deleted_rows > DELETED_SHARE * files.rows


def has_many_manifests(files: TableFiles) -> bool:
    # full ones would be written as they are
    return files.manifests - files.full_manifests >= max(MIN_MANIFESTS, files.full_manifests)


log = logging.getLogger(__name__)
# Snapshots that this very run, and others beside it, may put onto main before expiry looks at it.
EXPECTED_COMMITS_MEANWHILE = 20
# How far the clocks of two writers may differ: Iceberg refuses a snapshot that is older than that.
CLOCK_SKEW_MS = 60_000
MAX_EXPIRY_AGE_MS = 6 * 3_600_000  # longer than a compaction takes


@dataclass(frozen=True, kw_only=True)
class FileCounts:
    """The current snapshot's files; bytes are those of data files."""

    data_files: int
    data_bytes: int
    delete_files: int
    snapshots: int
    manifests: int


@dataclass(frozen=True, kw_only=True)
class MaintenanceReport:
    """What changed in `table` (full name). `steps`: the procedures that ran, with the numbers that each returned."""

    table: str
    compacted: bool
    before: FileCounts
    after: FileCounts
    orphans_removed: int
    steps: dict[str, ProcedureOutcome]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "steps": {name: step.to_dict() for name, step in self.steps.items()}}


def list_maintained_tables(session: Session) -> list[str]:
    """Return the full names of the pipeline's existing tables: destinations, and those that Tidegate made for them."""
    pipeline = expand_template(session).pipeline
    destinations = [table.name for table in pipeline.tables]
    candidates = [resource_names.name_intermediate_table(pipeline, table) for table in pipeline.tables]
    candidates += [resource_names.name_memory_table(table) for table in pipeline.tables if table.remembers]
    candidates += [session.letters_table, session.history_table]
    tables = session.tables
    return [
        *(name for name in destinations if _finds_table(session, tables.has_files, name)),
        *(
            name
            for name in dict.fromkeys(candidates)
            if _finds_table(session, tables.read_property, name, KIND_PROPERTY)
        ),
    ]


def _finds_table(session: Session, look: Callable[..., object], *arguments: str) -> bool:
    try:
        return look(*arguments) not in (None, False)
    except (RetryLater, GiveUp) as failure:
        # its own maintenance says why it cannot be read, and hides no other table
        log.warning("pipeline=%s: %s", session.pipeline.name, failure)
        return True


def maintain_all(session: Session, tables: Iterable[str], report: Callable[[MaintenanceReport], None]) -> None:
    """Maintain tables (full names) one after the other; `report` gets what changed in each.

    If a table fails, the others are maintained; what `join_failures` makes of the errors is raised at the end.
    """
    _, failures = try_tables(tables, lambda table: report(maintain(session, table)))
    if failures:
        raise join_failures(failures.values())


def maintain(session: Session, table: str) -> MaintenanceReport:
    """Maintain one table and return what changed, with its files before and after.

    1. Compact small files and apply delete files, if enough of them are measured.
    2. Rewrite delete files and manifests, if there are many.
    3. Expire old snapshots, except those that a tag, a branch or the answer to a rollback needs.
    4. Remove files that nothing refers to, once no running merge can still commit them.

    For an intermediate table only step 4. A flush that meets the compaction finds main moved, and merges again.
    `RetryLater` if a step failed, after the others were tried, or if another maintenance ran at the same time. `GiveUp`
    if there is no table, or a right is missing.
    """
    files = session.tables.read_files(table, exact=True)
    if files is None:
        raise GiveUp(
            f"pipeline={session.pipeline.name} table={table}: no such table, so there is nothing to do; run: tidegate "
            f"flush {session.pipeline.name}"
        )
    return rewrite_table(session, table, files, _render_maintenance(session, table, files))


def rewrite_table(session: Session, table: str, files: TableFiles, statements: dict[str, str]) -> MaintenanceReport:
    attempt = session.new_attempt()
    property_name = resource_names.name_maintenance_property(session.pipeline.name)
    job = MaintainJob(
        pipeline=session.pipeline.name, table=table, attempt=attempt, property=property_name, statements=statements
    )
    log.info("maintaining: pipeline=%s table=%s %s", job.pipeline, table, ", ".join(job.statements))
    session.engine.run(job)
    text = session.tables.read_property(table, property_name)
    outcome = MaintenanceOutcome.from_json(text, f"pipeline={job.pipeline} table={table}") if text else None
    if outcome is None or outcome.attempt != attempt:
        raise RetryLater(
            f"pipeline={job.pipeline} table={table}: another maintenance ran at the same time; try again later"
        )
    failure_reasons = {name: step.failed for name, step in outcome.steps.items() if step.failed is not None}
    for name, reason in failure_reasons.items():
        if refusal := find_refused_right(reason):
            raise build_refused_right_error(f"pipeline={job.pipeline} table={job.table}: maintenance: {name}", refusal)
    if failure_reasons:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failure_reasons.items())
        raise RetryLater(
            f"pipeline={job.pipeline} table={job.table}: maintenance failed in part, it will be tried again: {reasons}"
        )
    return MaintenanceReport(
        table=table,
        compacted="compact" in outcome.steps,
        before=_count_files(files),
        after=_count_files(session.tables.read_files(table) or files),
        orphans_removed=outcome.steps[ORPHANS].rows if ORPHANS in outcome.steps else 0,
        steps=outcome.steps,
    )


def _render_maintenance(session: Session, table: str, files: TableFiles) -> dict[str, str]:
    settings = session.pipeline.maintenance
    render = build_renderer(session, table)

    def format_time_before(seconds: int, at_most_ms: int | None = None) -> str:
        ms = max(0, session.now_ms() - seconds * 1000)
        ms = ms if at_most_ms is None else min(ms, at_most_ms)
        return to_utc_datetime(ms).strftime("%Y-%m-%d %H:%M:%S")

    older_than = format_time_before(settings.orphans_older_than_seconds)
    orphans = {ORPHANS: render(ORPHANS, older_than=older_than, prefix_listing=not files.is_local)}
    if not _may_remove_orphans(session, table, files):
        orphans = {}
    if _is_intermediate(session, table):
        return orphans
    # Expiry must not cut a branch off from a tagged snapshot: that could not be told from a rollback any more. Nor from
    # the position that it carries since a rollback, which could not be gone back to any more. How many snapshots others
    # add before it runs, behind a long compaction, cannot be known; that they are newer can.
    kept_ms = None if files.oldest_tagged_ms is None else files.oldest_tagged_ms - CLOCK_SKEW_MS
    # what the table's own properties ask of any expiry counts where it keeps more
    kept_seconds = max(settings.keep_snapshots_for_seconds, files.kept_ms // 1000)
    since_tag = files.snapshots_since_tag + EXPECTED_COMMITS_MEANWHILE
    expire = render(
        "expire",
        older_than=format_time_before(kept_seconds, kept_ms),
        retain_last=max(settings.keep_snapshots, files.kept_snapshots, since_tag),
    )
    rewrites = _render_rewrites(render, settings, files) if is_rewritten(session, table) else {}
    return {**rewrites, **({"expire": expire} if _may_expire(session, table, files) else {}), **orphans}


def _is_intermediate(session: Session, table: str) -> bool:
    pipeline = session.pipeline
    if table in {resource_names.name_intermediate_table(pipeline, destination) for destination in pipeline.tables}:
        return True
    # to look for all tables that records have named costs a look at each; the mark tells it at once
    is_templated = pipeline.template is not None
    return is_templated and session.tables.read_property(table, KIND_PROPERTY) == TableKind.INTERMEDIATE


def _may_expire(session: Session, table: str, files: TableFiles) -> bool:
    if files.forbids_file_deletion:
        return False
    if files.oldest_tagged_ms is None or files.branch_age_ms is None:
        return True
    # a branch's own retention goes before what expiry is asked for
    if files.oldest_tagged_ms - CLOCK_SKEW_MS > session.now_ms() - files.branch_age_ms + MAX_EXPIRY_AGE_MS:
        return True
    log.warning(
        "nothing expires: pipeline=%s table=%s: a branch has max_snapshot_age_ms=%s, by which the last published "
        "snapshot would be cut off; raise it, or publish a batch",
        session.pipeline.name, table, files.branch_age_ms,
    )  # fmt: skip
    return False


def _may_remove_orphans(session: Session, table: str, files: TableFiles) -> bool:
    if files.forbids_file_deletion:
        log.warning(
            "no snapshot expires, orphans stay: pipeline=%s table=%s: its property gc.enabled says that other tables "
            "may use its files; set it to true if none does",
            session.pipeline.name, table,
        )  # fmt: skip
        return False
    if files.paths_elsewhere:
        log.warning(
            "orphans stay where %s puts files: pipeline=%s table=%s: Iceberg looks below the table's location alone; "
            "call its remove_orphan_files with each such path as `location`",
            " or ".join(files.paths_elsewhere), session.pipeline.name, table,
        )  # fmt: skip
    if not files.has_location:  # its procedure would fail
        return False
    if not files.nested_tables:
        return True
    log.warning(
        "orphans stay: pipeline=%s table=%s: tables=%s have their files below its location, as a table that was "
        "renamed has; they would be taken for unused; give the table, or the others, a location of its own",
        session.pipeline.name, table, ", ".join(files.nested_tables),
    )  # fmt: skip
    return False


def build_renderer(session: Session, table: str) -> Callable[..., str]:
    catalog, identifier = table.split(".", 1)

    def render(name: str, **values: Any) -> str:
        return session.sql.render(f"maintain_{name}", catalog=catalog, table=identifier, **values)

    return render


def is_rewritten(session: Session, table: str) -> bool:
    """Whether the table's files may be rewritten: Iceberg's procedures rewrite main only."""
    return table not in {table.name for table in session.pipeline.tables if table.branch != "main"}


def _render_rewrites(render: Callable[..., str], settings: Maintenance, files: TableFiles) -> dict[str, str]:
    statements: dict[str, str] = {}
    if needs_compaction(settings, files):
        statements["compact"] = render("compact", delete_files=DELETE_FILES, deleted_share=DELETED_SHARE)
    if settings.compact != UseWhen.NEVER and files.delete_files >= MIN_SMALL_FILES:
        statements["deletes"] = render("deletes")
    if settings.compact != UseWhen.NEVER and has_many_manifests(files):
        statements["manifests"] = render("manifests")
    return statements


def _count_files(files: TableFiles) -> FileCounts:
    return FileCounts(**{counted.name: getattr(files, counted.name) for counted in fields(FileCounts)})
