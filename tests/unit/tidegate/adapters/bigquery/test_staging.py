"""An attempt's files on their way into the intermediate table: all of their rows, once, or nothing of it counts."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from contract_words import STAGED, TABLE, build_summary, render_outcome
from tidegate.adapters.bigquery import staging
from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.commit import run_table_commit
from tidegate.adapters.bigquery.files import LocalFolder
from tidegate.adapters.bigquery.staging import BigQueryStaging, forget_attempt, get_folder, read_loaded_rows
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import GiveUp, RetryLater
from tidegate.failpoints import install_visitor
from tidegate.model import resource_names
from tidegate.model.batch import StagedPart
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import FORMAT, FORMAT_LABEL
from tidegate.model.table_state import SignedAttempt, StagedSource, TableCommit
from tidegate.spec.pipeline import Catalog

QUOTA = {"reason": "quotaExceeded", "message": "Quota exceeded: Your table exceeded quota for imports per table"}
REFUSED = {"reason": "invalid", "message": "Error while reading data"}


class Loading(Warehouse):
    """A project whose load jobs end as `ends` says, in order: with so many rows, or an error; jobs keep their names."""

    def __init__(self, folder: Path, *ends: int | dict[str, str]) -> None:
        super().__init__(Catalog("lake", "bigquery", {"project": "p"}), lambda _: None)
        self.folder, self.ends, self.jobs, self.unseen = LocalFolder(folder), list(ends), dict[str, Any](), 0
        self.schema: list[dict[str, Any]] = [{"name": "n", "type": "INTEGER"}]
        self.port = BigQueryStaging({"lake": self}, SqlFiles("bigquery"))
        self.statements: list[str] = []

    @cached_property
    def client(self) -> Any:
        return SimpleNamespace(load_table_from_file=self._load, get_job=self._get)

    def find_table(self, name: str) -> Any:
        from google.cloud.bigquery import SchemaField

        schema = [SchemaField.from_api_repr(field) for field in self.schema]
        return SimpleNamespace(schema=schema, created=datetime(2026, 1, 1, tzinfo=UTC), labels={FORMAT_LABEL: FORMAT})

    def run_statement(self, sql: str, parameters: Any = ()) -> None:
        self.statements.append(sql)

    def _load(self, file: Any, into: str, job_id: str, job_config: Any, **_: Any) -> Any:
        from google.api_core.exceptions import Conflict

        self.config = job_config.to_api_repr()["load"]
        if job_id in self.jobs:
            raise Conflict("there is one")
        end = self.ends.pop(0)
        error, rows = (None, end) if isinstance(end, int) else (end, None)
        job_fields = {"state": "DONE", "error_result": error, "output_rows": rows, "reload": lambda **_: None}
        return self.jobs.setdefault(job_id, SimpleNamespace(job_id=job_id, project="p", location="EU", **job_fields))

    def _get(self, job_id: str, **_: Any) -> Any:
        from google.api_core.exceptions import NotFound

        self.unseen -= 1
        if job_id not in self.jobs or self.unseen >= 0:
            raise NotFound("there is none")
        return self.jobs[job_id]

    def leave(self, attempt: str, *, rows: int, files: int = 1) -> None:
        """What a stage job leaves: files, and last its counts."""
        place = get_folder(STAGED, 1, attempt)
        for number in range(files):
            self.folder.write(f"{place}/rows/part-{number}.parquet", b"rows")
        outcome = {**json.loads(render_outcome(rows)), "rows": rows}
        self.folder.write(f"{place}/counts/part-0.txt", json.dumps(outcome).encode())

    def land(self, attempt: str) -> None:
        summary = {**build_summary(1, attempt), resource_names.VIEWED_SUMMARY: "true"}
        self.port.complete_attempt(STAGED, 1, attempt, summary)

    @property
    def batches(self) -> list[tuple[int, str]]:
        return [(batch.batch, batch.attempt) for batch in self.port.list_staged(STAGED, TABLE)]


@pytest.mark.guard(
    "BigQuery: the number of loaded rows must equal the number of written rows",
    file="plugins/tidegate/adapters/bigquery/staging.py",
    text="    if rows != (outcome.rows or 0):\n",
    off="    if False:\n",
    case="row_counts0",
)
@pytest.mark.parametrize("row_counts", [(2, 2), (2, 0), (4, 3)])
def test_attempt_whose_loads_bring_in_other_rows_than_were_written_is_not_staged(
    row_counts: tuple[int, int], tmp_path: Path
) -> None:
    """A file that is gone, or two of another attempt in the folder: its batch is staged again, from nothing."""
    warehouse = Loading(tmp_path, *row_counts)
    warehouse.leave("a1", rows=5, files=2)
    with pytest.raises(RetryLater, match=f"brought in rows={sum(row_counts)}, and the stage job wrote rows=5"):
        warehouse.land("a1")
    assert (warehouse.batches, warehouse.folder.list_paths(get_folder(STAGED))) == ([], [])
    assert warehouse.statements == [], "no live view counts it"


def test_attempt_whose_loads_bring_in_what_was_written_is_staged_once(tmp_path: Path) -> None:
    warehouse = Loading(tmp_path, 2, 3)
    warehouse.leave("a1", rows=5, files=2)
    for _ in range(2):
        warehouse.land("a1")
    (batch,) = warehouse.port.list_staged(STAGED, TABLE)
    assert (batch.batch, batch.attempt) == (1, "a1")
    assert read_loaded_rows(warehouse, STAGED, ["a1"]) == {"a1": 5}
    assert len(warehouse.jobs) == 2


class Publishing(Loading):
    """A project that takes a script, and a folder that counts how often a file is read."""

    def run_script_once(self, place: str, name: str, script: Any, labels: Any) -> Any:
        self.statements.append(script(name))
        return SimpleNamespace(job_id=name)


def test_publish_of_a_queue_reads_what_was_loaded_of_each_attempt_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a request to Cloud Storage: by the square of the batches, a queue of a hundred would take minutes."""
    warehouse = Publishing(tmp_path, *[5] * 4)
    attempts = [f"a{number}" for number in range(4)]
    for attempt in attempts:
        warehouse.leave(attempt, rows=5)
        warehouse.land(attempt)
    read, paths = warehouse.folder.read, list[str]()
    monkeypatch.setattr(warehouse.folder, "read", lambda path: paths.append(path) or read(path))
    source = StagedSource(STAGED, tuple(StagedPart(1, attempt) for attempt in attempts[:3]))
    table_commit = TableCommit(TABLE, "1", 0, 3, "", 4, {}, pipeline="shop", attempt="m1", source=source)
    run_table_commit(warehouse, SqlFiles("bigquery"), table_commit)
    assert "attempt IN ('a0', 'a1', 'a2')) = 15 AS" in warehouse.statements[-1]
    assert len(paths) == len(attempts)
    forget_attempt(warehouse, STAGED, 1, "a1")
    with pytest.raises(RetryLater, match="attempt=a1: its staged rows are gone"):
        run_table_commit(warehouse, SqlFiles("bigquery"), table_commit)


@pytest.mark.parametrize("rows", [5, 0])
def test_attempt_is_marked_for_live_views_once_all_of_it_is_loaded(rows: int, tmp_path: Path) -> None:
    """One without rows too: the batch behind it continues from its end."""
    warehouse = Loading(tmp_path, 5)
    warehouse.leave("a1", rows=rows)
    warehouse.land("a1")
    (statement,) = warehouse.statements
    (batch,) = warehouse.port.list_staged(STAGED, TABLE)
    text = re.findall(r"'(\{.*\})'", statement)[0]
    note = json.loads(text.replace("\\\\", "\\"))
    assert statement.endswith(", 1)")
    assert (note["attempt"], note["number"]) == ("a1", batch.snapshot_id)
    assert [json.loads(note[end]) for end in ("start", "end")] == [
        {topic: {str(part): offset for part, offset in parts.items()} for topic, parts in offsets.items()}
        for offsets in (batch.ranges.start, batch.ranges.end)
    ]


@pytest.mark.parametrize("part", ["key", "sequence"])
def test_rows_whose_keys_or_sequences_would_be_compared_without_case_are_not_loaded(part: str, tmp_path: Path) -> None:
    """A dataset can give each column that is made in it a collation: `a` and `A` would be one key, or one sequence."""
    warehouse = Loading(tmp_path, 5)
    text = {"name": "code", "type": "STRING", "collation": "und:ci"}
    warehouse.schema = [
        {"name": part, "type": "RECORD", "fields": [{"name": "id", "type": "INTEGER"}, text]},
        {"name": "op", "type": "STRING", "collation": "und:ci"},
        {"name": "value", "type": "RECORD", "fields": [text]},
    ]
    warehouse.leave("a1", rows=5)
    message = (
        rf"column={part}\.code: BigQuery compares its text without case \(collation=und:ci\).* SET DEFAULT COLLATE ''"
    )
    with pytest.raises(GiveUp, match=message):
        warehouse.land("a1")
    assert (warehouse.jobs, len(warehouse.folder.list_paths(get_folder(STAGED)))) == ({}, 2)
    warehouse.schema = [{**warehouse.schema[0], "fields": [{**text, "collation": ""}]}, *warehouse.schema[1:]]
    warehouse.land("a1")
    assert warehouse.batches == [(1, "a1")]


def test_load_says_how_decimals_of_the_files_are_read(tmp_path: Path) -> None:
    """Left alone, BigQuery reads every decimal of a Parquet file as NUMERIC, which no column of BIGNUMERIC takes."""
    warehouse = Loading(tmp_path, 5)
    warehouse.leave("a1", rows=5)
    warehouse.land("a1")
    assert warehouse.config["decimalTargetTypes"] == ["NUMERIC", "BIGNUMERIC"]


def test_load_that_met_a_quota_is_sent_again_over_the_same_files(tmp_path: Path) -> None:
    """The first file's rows are in the table already, and are not loaded twice."""
    warehouse = Loading(tmp_path, 2, QUOTA, QUOTA, 3)
    warehouse.leave("a1", rows=5, files=2)
    for _ in range(2):
        with pytest.raises(RetryLater, match="quotaExceeded"):
            warehouse.land("a1")
    warehouse.land("a1")
    assert warehouse.batches == [(1, "a1")]
    assert len(warehouse.jobs) == 4


def test_load_whose_name_is_taken_and_that_is_not_shown_yet_is_asked_for_again(tmp_path: Path) -> None:
    """Its files are of a complete attempt: they are neither given up nor loaded twice."""
    warehouse = Loading(tmp_path, 2, 3)
    warehouse.leave("a1", rows=5, files=2)

    def lose(point: str) -> None:
        if point == "bigquery.load_sent" and len(warehouse.jobs) == 2:
            raise ConnectionError("the connection was lost")

    with install_visitor(lose), pytest.raises(RetryLater, match="no answer"):
        warehouse.land("a1")
    warehouse.unseen = 3
    warehouse.land("a1")
    assert warehouse.batches == [(1, "a1")]
    assert len(warehouse.jobs) == 2


def test_files_that_bigquery_refuses_are_not_kept(tmp_path: Path) -> None:
    warehouse = Loading(tmp_path, REFUSED)
    warehouse.leave("a1", rows=5)
    with pytest.raises(GiveUp, match="Error while reading data"):
        warehouse.land("a1")
    assert warehouse.folder.list_paths(get_folder(STAGED)) == []


def test_attempt_is_found_by_what_its_job_was_asked_while_its_files_are_there(tmp_path: Path) -> None:
    """Of another batch, with a bad record, or without counts: it is not."""
    warehouse = Loading(tmp_path, 5)
    for attempt, rows in (("a1", 5), ("a2", 5)):
        warehouse.leave(attempt, rows=rows)
    signed_attempt = SignedAttempt(1, "a2", "asked", Ranges.from_dict({"orders": {"0": [3, 8], "1": [0, 0]}}))
    warehouse.port.sign_attempt(STAGED, signed_attempt)
    assert warehouse.port.list_signed_attempts(STAGED) == [signed_attempt]
    warehouse.port.sign_attempt(STAGED, replace(signed_attempt, attempt="a3", request="nothing left"))
    counts = json.dumps({**json.loads(render_outcome(5)), "bad": 1}).encode()
    warehouse.folder.write(f"{get_folder(STAGED, 1, 'a1')}/counts/part-0.txt", counts)
    warehouse.port.sign_attempt(STAGED, replace(signed_attempt, attempt="a1", request="bad"))
    assert warehouse.port.list_signed_attempts(STAGED) == [signed_attempt]
    warehouse.land("a2")
    assert warehouse.port.list_signed_attempts(STAGED) == [replace(signed_attempt, is_landed=True)]
    forget_attempt(warehouse, STAGED, 1, "a2")
    assert warehouse.port.list_signed_attempts(STAGED) == []


def test_rows_of_a_batch_with_a_bad_record_do_not_pile_up_while_it_stops_the_pipeline(tmp_path: Path) -> None:
    warehouse = Loading(tmp_path)
    for attempt in ("a1", "a2"):
        warehouse.leave(attempt, rows=5, files=3)
        counts = json.dumps({**json.loads(render_outcome(5)), "bad": 1}).encode()
        warehouse.folder.write(f"{get_folder(STAGED, 1, attempt)}/counts/part-0.txt", counts)
        warehouse.land(attempt)
    assert [name for name in warehouse.folder.list_paths(get_folder(STAGED)) if name.endswith(".parquet")] == []
    outcome = warehouse.port.read_staged_outcome(STAGED, "a1")
    assert outcome is not None
    assert outcome.bad == 1
    assert warehouse.batches == []


class StagesBeside(Loading):
    """A project in which a run of staging takes a number just before clean-up looks at what it removes."""

    def __init__(self, folder: Path, attempt: str) -> None:
        super().__init__(folder, 5)
        self.attempt, self.dropped = attempt, list[str]()

    def update_table(self, *_: Any) -> None:
        self.leave(self.attempt, rows=5)
        self.land(self.attempt)

    def delete_table(self, name: str) -> None:
        self.dropped.append(name)


def test_clean_up_leaves_what_a_run_of_staging_beside_it_stages_under_the_number_of_a_bad_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "check_removable", lambda *_: None)
    warehouse = StagesBeside(tmp_path, "good")
    warehouse.leave("bad", rows=5)
    counts = json.dumps({**json.loads(render_outcome(5)), "bad": 1}).encode()
    warehouse.folder.write(f"{get_folder(STAGED, 1, 'bad')}/counts/part-0.txt", counts)
    warehouse.land("bad")
    warehouse.port.clean_up(STAGED, 0)
    assert (warehouse.dropped, warehouse.batches) == ([], [(1, "good")])
    assert len(warehouse.folder.list_paths(get_folder(STAGED, 1, "good"))) == 3
