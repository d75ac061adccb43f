"""The page of what `--json` prints has each field of the product's reports, and no other."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from tidegate.cli.commands.files import PipelineEntry, PublicationEntry
from tidegate.flush.maintain import FileCounts, MaintenanceReport
from tidegate.flush.preview import Preview
from tidegate.model.backfill import AppliedSlice
from tidegate.model.batch import Counts, PublishedBatch, Refusal
from tidegate.monitoring import reports
from tidegate.publications.publish import PublicationResult
from tidegate.publications.status import PublicationStatus
from tidegate.reprocess.explained_key import Explanation
from tidegate.reprocess.record import Verdict
from tidegate.reprocess.replay import ReplayResult
from tidegate.reprocess.verify import Difference, Verification

PAGE = (Path(__file__).parents[3] / "docs" / "json.md").read_text()
ROWS = dict(re.findall(r"^\| `([\w -]+)`[^|]*? \| (.*) \|$", PAGE, re.MULTILINE))
COMMANDS: dict[str, list[Any]] = {
    "list": [PipelineEntry, PublicationEntry],
    "plan --preview": [Preview],
    "flush": [PublishedBatch],
    "verify": [Verification, Difference],
    "explain": [Explanation],
    "record --at": [Verdict],
    "backfill": [AppliedSlice],
    "maintain": [MaintenanceReport, FileCounts],
    "dead-letters --replay": [ReplayResult],
    "publish": [PublicationResult],
    "pipelines": [reports.PipelineStatus],
    "tables": [reports.TableStatus],
    "partitions": [reports.PartitionStatus, reports.PartitionStaging],
    "batches": [reports.BatchReport],
    "backfills": [reports.BackfillStatus],
    "verified": [reports.VerificationReport],
    "held": [reports.HeldReport],
    "approved": [reports.ApprovedReport, reports.ActionReport],
    "publications": [PublicationStatus],
}
# beside the fields of the reports
MORE = {
    "plan --preview": {"pipeline", "tables", "refused"},
    "verify": {"pipeline", "tables", "refused", "because", "--repair"},
    "explain": {"pipeline", "tables", "refused", "because"},
    "list": {"pipelines", "publications"},
    "record --at": {
        *("topic", "partition", "offset", "timestamp", "key", "value", "headers", "tables", "key_hex", "value_hex"),
    },
    "backfill": {"--dry-run", "resumed", "tables", "records", "batches", "later", "--abandon", "dropped"},
    "dead-letters --replay": {"pipeline"},
    "publish": {"publication", "--dry-run", "resumed", "parts", "touched_files"},
}


def list_fields(report: Any) -> set[str]:
    return {field.name for field in fields(report)} if is_dataclass(report) else {*report.__annotations__}


@pytest.mark.parametrize("command", COMMANDS)
def test_row_has_each_field_and_no_other(command: str) -> None:
    known = set[str]().union(*map(list_fields, COMMANDS[command]))
    named = set(re.findall(r"`([^`]+)`", ROWS[command]))
    assert (known - named, named - known - MORE.get(command, set())) == (set(), set())


def test_rows_of_stage_and_plan_name_what_is_there() -> None:
    assert all(f"`{name}`" in ROWS["stage"] for name in list_fields(Counts))
    assert all(f"`{name}`" in ROWS["plan"] for name in list_fields(Refusal))
