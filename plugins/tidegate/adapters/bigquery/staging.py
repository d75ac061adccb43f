"""The intermediate table in BigQuery: how files of a stage job come into it, which batches wait, and how they leave.

A batch's folder is ``<dataset>/<intermediate>/batch=N/attempt=A``. Spark leaves ``rows/*.parquet`` there, and last
``counts``; the worker loads the rows and then writes ``landed.json``, with all facts of the attempt. An attempt counts
only once that file is there, and only for the table that its rows were loaded into.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from tidegate.adapters.bigquery.catalog import CALL_TIMEOUT_SECONDS, BigQueryPort, Warehouse, get_uuid, name_job
from tidegate.adapters.bigquery.errors import JobFailed, translate_bigquery_errors, translate_job_error
from tidegate.adapters.bigquery.position import SHAPE_LABEL, check_removable
from tidegate.adapters.bigquery.schema import find_collated_texts
from tidegate.errors import GiveUp, RetryLater
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.job_json import parse_job_result
from tidegate.jobs.stage_outcome import StageOutcome
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import FORMAT_LABEL, STAGING_KINDS, refuse_other_format
from tidegate.model.position import format_compact
from tidegate.model.table_state import SignedAttempt, Staging
from tidegate.ports.destination import StagingStore
from tidegate.ports.session import Sql

Result = TypeVar("Result")
# labels of the intermediate table, beside its shape
HIGHEST_BATCH_LABEL = "tidegate_highest_batch"
LANDED_FILE = "landed.json"
REQUEST_FILE = "request.json"
MIN_FREE_PARTITIONS = 2000  # batches that may be staged before the next clean-up; `max_pending` is at most half of it
EXPIRATION_TIME = timedelta(days=30)  # as the statement that makes the table has it
COUNTS_PATH_PATTERN = re.compile(r"/counts/part-[^/]*$")
BATCH_PATH_PATTERN = re.compile(r"/batch=(\d+)/attempt=([^/]+)/")


class BigQueryStaging(BigQueryPort, StagingStore):
    """Batches wait in a table of partitions by batch number, and their files beside it."""

    @translate_bigquery_errors
    def find_landing_folder(self, intermediate: str, batch: int, attempt: str) -> str | None:
        return self._get_warehouse(intermediate).folder.to_uri(get_folder(intermediate, batch, attempt))

    @translate_bigquery_errors
    def complete_attempt(
        self, intermediate: str, batch: int, attempt: str, summary: dict[str, str]
    ) -> StageOutcome | None:
        _load_attempt(self._get_warehouse(intermediate), self._sql, intermediate, summary)
        return self.read_staged_outcome(intermediate, attempt)

    @translate_bigquery_errors
    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        warehouse = self._get_warehouse(intermediate)
        place = get_folder(intermediate, signed.batch, signed.attempt)
        outcome = _read_result(warehouse, place, StageOutcome.from_json)
        if outcome is not None and not outcome.bad:
            note = {"request": signed.request, "ranges": signed.ranges.to_dict()}
            warehouse.folder.write(f"{place}/{REQUEST_FILE}", json.dumps(note).encode())
            hit_failpoint("bigquery.signed")

    @translate_bigquery_errors
    def list_signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        warehouse = self._get_warehouse(intermediate)
        names = set(warehouse.folder.list_paths(get_folder(intermediate)))
        attempts = list[SignedAttempt]()
        for name in sorted(names):
            place = BATCH_PATH_PATTERN.search(f"/{name}")
            text = warehouse.folder.read(name) if place is not None and name.endswith(f"/{REQUEST_FILE}") else None
            if place is None or text is None:  # another file, or one that another run has just removed
                continue
            note = json.loads(text)
            signed_attempt = SignedAttempt(
                batch=int(place[1]),
                attempt=place[2],
                request=note["request"],
                ranges=Ranges.from_dict(note["ranges"]),
                is_landed=f"{name.removesuffix(REQUEST_FILE)}{LANDED_FILE}" in names,
            )
            attempts.append(signed_attempt)
        return attempts

    @translate_bigquery_errors
    def read_job_result(
        self, intermediate: str, batch: int, attempt: str, parse: Callable[[str, str], Result]
    ) -> Result | None:
        return _read_result(self._get_warehouse(intermediate), get_folder(intermediate, batch, attempt), parse)

    @translate_bigquery_errors
    def list_staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        newest = dict[int, StagedBatch]()
        for landed in _list_valid(self._get_warehouse(intermediate), intermediate):
            outcome = _get_outcome(landed)
            if not outcome.bad:
                staged_batch = outcome.to_staged_batch(table, landed["summary"], landed["number"])
                newest[staged_batch.batch] = staged_batch
        return [newest[batch] for batch in sorted(newest)]

    @translate_bigquery_errors
    def read_staged_outcome(self, intermediate: str, attempt: str) -> StageOutcome | None:
        landings = _list_valid(self._get_warehouse(intermediate), intermediate)
        own = (landed for landed in landings if landed["summary"]["tidegate.attempt"] == attempt)
        return next(map(_get_outcome, own), None)

    @translate_bigquery_errors
    def read_staging(self, intermediate: str, table: str) -> Staging | None:
        # rows are told apart by their attempt, so that there is no snapshot to pin
        batches = tuple(self.list_staged(intermediate, table))
        return Staging(batches[-1].snapshot_id, batches) if batches else None

    @translate_bigquery_errors
    def find_highest_batch(self, intermediate: str) -> int:
        # the number of an attempt that was killed before it left its counts is used again
        warehouse = self._get_warehouse(intermediate)
        names = warehouse.folder.list_paths(get_folder(intermediate))
        finished_attempts = _list_attempts([name for name in names if COUNTS_PATH_PATTERN.search(name)])
        numbers = {batch for batch, _ in finished_attempts - _find_unmergeable_attempts(warehouse, intermediate)}
        table = warehouse.find_table(intermediate)
        return max([_get_highest_label(table) if table else 0, *numbers])

    @translate_bigquery_errors
    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        # Only what has files is looked at: a partition, whose removal costs nothing, goes before the files that tell
        # of it. Later numbers go too where none of their attempts is ever merged.
        warehouse = self._get_warehouse(intermediate)
        names = warehouse.folder.list_paths(get_folder(intermediate))
        attempts = _list_attempts(names)
        ended_attempts = _find_unmergeable_attempts(warehouse, intermediate)
        open_batches = {batch for batch, _ in attempts - ended_attempts if batch > up_to_batch}
        batches = sorted({batch for batch, _ in attempts} - open_batches)
        table = warehouse.find_table(intermediate)
        if table is None and not names:
            return {}
        if table is not None:
            check_removable(table, intermediate, STAGING_KINDS)
        if table is not None and batches:
            _record_highest_batch(warehouse, table, max(up_to_batch, self.find_highest_batch(intermediate)))
        files = 0
        for batch in batches:
            here = warehouse.folder.list_paths(get_folder(intermediate, batch)) if batch > up_to_batch else []
            if _list_attempts(here) - ended_attempts:  # it is staged anew
                continue
            if table is not None:
                warehouse.delete_table(f"{intermediate}${batch}")
                hit_failpoint("bigquery.partition_dropped")
            files += sum(f"/batch={batch}/" in name for name in names)
            ended_here = sorted(attempt for number, attempt in attempts if number == batch > up_to_batch)
            for attempt in ended_here or [""]:  # of a batch that is published, whatever lies there
                warehouse.folder.delete(get_folder(intermediate, batch, attempt))
            hit_failpoint("clean_up.removed")
        return {"partitions": len(batches), "files": files}

    @translate_bigquery_errors
    def drop(self, intermediate: str) -> None:
        warehouse = self._get_warehouse(intermediate)
        table = warehouse.find_table(intermediate)
        if table is not None:
            check_removable(table, intermediate, ("intermediate",))
            warehouse.delete_table(intermediate)
        warehouse.folder.delete(get_folder(intermediate))


def get_folder(intermediate: str, batch: int | None = None, attempt: str = "") -> str:
    """The path of the files of an intermediate table, a batch, or one attempt."""
    folder = intermediate.split(".", 1)[1].replace(".", "/")
    if batch is None:
        return folder
    return f"{folder}/batch={batch}/attempt={attempt}" if attempt else f"{folder}/batch={batch}"


def _load_attempt(warehouse: Warehouse, sql: Sql, intermediate: str, summary: dict[str, str]) -> None:
    batch = int(summary["tidegate.batch"])
    attempt = summary["tidegate.attempt"]
    place = get_folder(intermediate, batch, attempt)
    outcome = _read_result(warehouse, place, StageOutcome.from_json)
    if outcome is None:
        return
    table = warehouse.find_table(intermediate)
    if table is None:
        raise RetryLater(f"intermediate={intermediate} batch={batch}: the table is gone; run the flush again")
    _check_collations(intermediate, table)
    before = _list_landed(warehouse, intermediate)
    uuid = get_uuid(table)
    if any(landing["table"] == uuid and landing["summary"]["tidegate.attempt"] == attempt for landing in before):
        return
    try:
        rows = _load_and_check(warehouse, intermediate, uuid, summary, outcome)
    except GiveUp as error:
        if isinstance(error.__cause__, JobFailed):
            forget_attempt(warehouse, intermediate, batch, attempt)
        raise
    # of two attempts at one batch the higher number counts; an attempt that was forgotten may have left its mark
    number = max([time.time_ns() // 1_000_000, *(landed["number"] + 1 for landed in before)])
    if not outcome.bad and resource_names.VIEWED_SUMMARY in summary:
        note = _describe_attempt(outcome.to_staged_batch("", summary, number))
        warehouse.run_statement(sql.render("mark_staged", source=intermediate, batch=batch, note=note))
        hit_failpoint("bigquery.marked")
    landed = {"number": number, "table": uuid, "rows": rows, "summary": summary, "outcome": outcome.to_dict()}
    warehouse.folder.write(f"{place}/{LANDED_FILE}", json.dumps(landed).encode())
    hit_failpoint("bigquery.landed")
    if outcome.bad:  # each run stages such a batch anew, until its records or the file are corrected
        warehouse.folder.delete(f"{place}/rows")


def _describe_attempt(staged_batch: StagedBatch) -> str:
    """What a live view reads of an attempt: whose rows count, from where to where, and for which columns and table."""
    note = {
        "number": staged_batch.snapshot_id,
        "attempt": staged_batch.attempt,
        "start": format_compact(staged_batch.ranges.start),
        "end": format_compact(staged_batch.ranges.end),
        "shape": staged_batch.row_shape,
        "table_uuid": staged_batch.table_uuid,
    }
    return json.dumps(note)


def _check_collations(intermediate: str, table: Any) -> None:
    consequences = {
        "key": "records of two keys would be one row",
        "sequence": "records of one key would have another order",
    }
    for path, collation in find_collated_texts(field.to_api_repr() for field in table.schema):
        if path[0] in consequences:
            raise GiveUp(
                f"intermediate={intermediate} column={'.'.join(path)}: BigQuery compares its text without case "
                f"(collation={collation}), and {consequences[path[0]]}; nothing was loaded; take the "
                "collation from the dataset (ALTER SCHEMA … SET DEFAULT COLLATE ''), and drop this table"
            )


def _load_and_check(
    warehouse: Warehouse, intermediate: str, uuid: str, summary: dict[str, str], outcome: StageOutcome
) -> int:
    if outcome.bad:
        return 0
    batch = int(summary["tidegate.batch"])
    attempt = summary["tidegate.attempt"]
    rows = 0
    if outcome.staged or outcome.dead_lettered:
        rows = _run_load_jobs(warehouse, intermediate, get_folder(intermediate, batch, attempt), uuid, summary)
    if rows != (outcome.rows or 0):
        forget_attempt(warehouse, intermediate, batch, attempt)
        raise RetryLater(
            f"intermediate={intermediate} batch={batch} attempt={attempt}: the load jobs brought in rows={rows}, and "
            f"the stage job wrote rows={outcome.rows}; nothing of it is merged and the batch is staged again; keep "
            "others out of the staging folder, its lifecycle rules too"
        )
    return rows


def _read_result(warehouse: Warehouse, place: str, parse: Callable[[str, str], Result]) -> Result | None:
    """What the attempt's job has left last; None while it has not ended."""
    for path in warehouse.folder.list_paths(f"{place}/counts"):
        if path.rsplit("/", 1)[1].startswith("part-"):
            text = (warehouse.folder.read(path) or b"").strip()
            if text:
                return parse(text.decode(), f"folder={place}")
    return None


def _run_load_jobs(warehouse: Warehouse, intermediate: str, place: str, uuid: str, summary: dict[str, str]) -> int:
    batch = summary["tidegate.batch"]
    load_place = f"intermediate={intermediate} batch={batch} attempt={summary['tidegate.attempt']}"
    labels = {"tidegate_pipeline": summary.get("tidegate.pipeline", ""), "tidegate_batch": batch}
    request = LoadRequest(load_place, intermediate, labels)
    source = warehouse.folder.get_load_source(f"{place}/rows")
    files: list[Path | str] = [source] if isinstance(source, str) else list(source)
    names = [name_job("load", place, uuid, number) for number in range(len(files))]
    return sum(run_load_job(warehouse, request, name, file) for name, file in zip(names, files, strict=True))


@dataclass(frozen=True)
class LoadRequest:
    """What the load jobs of one attempt share: the place that messages name, the table, and labels for cost reports."""

    message_prefix: str
    table: str
    labels: Mapping[str, str]


def run_load_job(warehouse: Warehouse, request: LoadRequest, name: str, source: Path | str) -> int:
    """Append a Parquet file, or all files of a URI, to a table by a named job; returns how many rows.

    A repeat appends nothing twice: the job is found by its name, and one that failed has appended nothing.
    """

    def send(job_id: str) -> Any:
        job = _send_load_job(warehouse, job_id, request, source)
        hit_failpoint("bigquery.load_sent")
        return job

    try:
        job = warehouse.run_job_once(request.message_prefix, name, send)
    except JobFailed as error:
        raise translate_job_error(request.message_prefix, error) from error
    hit_failpoint("bigquery.loaded")
    return int(job.output_rows or 0)


def _send_load_job(warehouse: Warehouse, job_id: str, request: LoadRequest, source: Path | str) -> Any:
    from google.cloud import bigquery

    lists = bigquery.format_options.ParquetOptions()
    lists.enable_list_inference = True
    table = warehouse.find_table(request.table)
    config = bigquery.LoadJobConfig(
        source_format="PARQUET",
        schema=table.schema if table else None,
        write_disposition="WRITE_APPEND",
        create_disposition="CREATE_NEVER",
        parquet_options=lists,
        decimal_target_types=["NUMERIC", "BIGNUMERIC"],  # the smaller one that holds a file's decimals, as columns have
        labels=warehouse.build_labels(request.labels),
    )
    into = warehouse.to_reference(request.table)
    job = {"job_id": job_id, "job_config": config}
    if isinstance(source, str):
        return warehouse.client.load_table_from_uri(source, into, **job, **warehouse.limits)
    try:
        file = source.open("rb")
    except FileNotFoundError as error:
        raise RetryLater(
            f"{request.message_prefix}: file={source} is gone; another run has published its batch, or somebody "
            "removed it; nothing of it is merged; run the flush again"
        ) from error
    with file:
        return warehouse.client.load_table_from_file(
            file, into, **job, num_retries=warehouse.upload_retries, timeout=CALL_TIMEOUT_SECONDS
        )


def _list_landed(warehouse: Warehouse, intermediate: str) -> list[dict[str, Any]]:
    names = warehouse.folder.list_paths(get_folder(intermediate))
    texts = (warehouse.folder.read(name) for name in names if name.endswith(f"/{LANDED_FILE}"))
    return sorted((json.loads(text) for text in texts if text), key=lambda landed: landed["number"])


def _list_valid(warehouse: Warehouse, intermediate: str) -> list[dict[str, Any]]:
    landed = _list_landed(warehouse, intermediate)
    table = warehouse.find_table(intermediate) if landed else None
    if table is None:
        return []
    refuse_other_format(f"table={intermediate}", FORMAT_LABEL, table.labels)
    return [landing for landing in landed if landing["table"] == get_uuid(table)]


def _get_outcome(landed: dict[str, Any]) -> StageOutcome:
    summary = landed["summary"]
    place = f"batch={summary['tidegate.batch']} attempt={summary['tidegate.attempt']} file={LANDED_FILE}"
    return parse_job_result(place, lambda: StageOutcome.from_dict(landed["outcome"]))


def read_loaded_rows(warehouse: Warehouse, intermediate: str, attempts: Iterable[str]) -> dict[str, int]:
    """How many rows each attempt's load jobs brought in; `RetryLater` if one of them is gone."""
    rows = {
        landed["summary"]["tidegate.attempt"]: int(landed["rows"]) for landed in _list_valid(warehouse, intermediate)
    }
    loaded_rows = dict[str, int]()
    for attempt in attempts:
        if attempt not in rows:
            raise RetryLater(f"intermediate={intermediate} attempt={attempt}: its staged rows are gone")
        loaded_rows[attempt] = rows[attempt]
    return loaded_rows


def forget_attempt(warehouse: Warehouse, intermediate: str, batch: int, attempt: str) -> None:
    """Forget an attempt whose rows are gone, so that its batch is staged again."""
    warehouse.folder.delete(get_folder(intermediate, batch, attempt))


def get_shape(table: Any) -> str:
    """The shape that the table was made for; empty if its partitions are used up, so that it is made anew."""
    ranged = table.range_partitioning
    if ranged is not None and _get_highest_label(table) + MIN_FREE_PARTITIONS >= ranged.range_.end:
        return ""
    return str(table.labels.get(SHAPE_LABEL, ""))


def _list_attempts(paths: Iterable[str]) -> set[tuple[int, str]]:
    matches = (BATCH_PATH_PATTERN.search(f"/{path}") for path in paths)
    return {(int(match[1]), match[2]) for match in matches if match}


def _find_unmergeable_attempts(warehouse: Warehouse, intermediate: str) -> set[tuple[int, str]]:
    ended_attempts: set[tuple[int, str]] = set()
    for landed in _list_landed(warehouse, intermediate):
        summary = landed["summary"]
        span = Ranges.from_dict(json.loads(summary["tidegate.staged"])["ranges"]).span
        if not _get_outcome(landed).can_be_merged(span):
            ended_attempts.add((int(summary["tidegate.batch"]), summary["tidegate.attempt"]))
    return ended_attempts


def _get_highest_label(table: Any) -> int:
    # of the table's first batch, or the highest that was cleaned up
    return int(table.labels.get(HIGHEST_BATCH_LABEL, "0"))


def _record_highest_batch(warehouse: Warehouse, table: Any, number: int) -> None:
    table.labels = {**table.labels, HIGHEST_BATCH_LABEL: str(max(number, _get_highest_label(table)))}
    table.expires = datetime.now(UTC) + EXPIRATION_TIME
    warehouse.update_table(table, "labels", "expires")
