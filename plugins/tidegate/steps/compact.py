"""compact: rewrite small files and deleted rows right after a flush, if the measured files call for it.

Between two flushes a pipeline does not write its tables, so a rewrite is not overtaken. Work that is expensive, or
better done seldom (snapshots, unreferenced files, large files with few deletes), is left to maintain.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tidegate.planning.worn_files import DELETED_SHARE, MIN_SMALL_FILES, has_many_manifests, is_worn
from tidegate.ports.context import Ports, TableFiles
from tidegate.spec.runtime import Maintenance
from tidegate.steps.maintain import MaintenanceReport, build_renderer, is_rewritten, rewrite_table

log = logging.getLogger(__name__)
# Delete files for which a large file is rewritten: so many that only the share of its deletes is a reason.
DISABLED_COUNT = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class CompactionReport:
    """What was done for `table`, its full name. `maintenance_report`: None if nothing was. `failed`: why it failed."""

    table: str
    maintenance_report: MaintenanceReport | None = None
    failed: str | None = None

    @property
    def is_compacted(self) -> bool:
        """Whether data files were rewritten."""
        return self.maintenance_report is not None and self.maintenance_report.compacted

    def to_dict(self) -> dict[str, Any]:
        """As a task's result: with the report of what was rewritten, and only what is known."""
        if self.maintenance_report is not None:
            return self.maintenance_report.to_dict()
        failure = {} if self.failed is None else {"failed": self.failed}
        return {"table": self.table, "compacted": False, **failure}


def is_due(settings: Maintenance, published_batches: int, batches: int) -> bool:
    """Whether one of the last `batches` batches, up to number `published_batches`, was the table's tenth, twentieth …

    For a destination that keeps its files itself no batches are listed.
    """
    if not settings.follows_flushes:
        return False
    return published_batches // settings.compact_every > (published_batches - batches) // settings.compact_every


def compact(ports: Ports, tables: Iterable[str]) -> list[CompactionReport]:
    """Rewrite what pays in each of `tables`, full names; return one report for each, in the same order.

    Small files of a partition that has 5 become one, files of which a tenth of the rows is deleted are written anew,
    more delete files than data files are merged. A failure is reported and logged and never fails the flush: the next
    look, or maintain, does what this one left. A repeat call measures again, and rewrites nothing twice.
    """
    return [_compact_table(ports, table) for table in tables]


def _compact_table(ports: Ports, table: str) -> CompactionReport:
    try:
        files = ports.tables.read_files(table)
        statements = _render_compaction(ports, table, files) if files and is_rewritten(ports, table) else {}
        if not files or not statements:
            return CompactionReport(table=table)
        return CompactionReport(table=table, maintenance_report=rewrite_table(ports, table, files, statements))
    except Exception as error:  # whatever it is, rows are published and must not be held up by how they are stored
        reason = f"{type(error).__name__}: {error}"
        log.warning(
            "compaction failed, a later flush tries again: pipeline=%s table=%s: %s", ports.pipeline.name, table, reason
        )
        return CompactionReport(table=table, failed=reason)


def _render_compaction(ports: Ports, table: str, files: TableFiles) -> dict[str, str]:
    render, statements = build_renderer(ports, table), dict[str, str]()
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
