"""The intermediate table in BigQuery: how files of a stage job come into it, which batches wait, and how they leave.

A batch's folder is ``<dataset>/<intermediate>/batch=N/attempt=A``. Spark leaves ``rows/*.parquet`` there, and last
``counts``; the worker loads the rows and then writes ``landed.json``, which says all that is known of the attempt.
Nothing counts before that file is there, and what it says holds only for the table that the rows were loaded into.
"""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse, get_uuid
from tidegate.adapters.bigquery.client.errors import JobFailed
from tidegate.adapters.bigquery.client.load_jobs import LoadRequest, run_load_job
from tidegate.adapters.bigquery.client.named_jobs import name_job
from tidegate.adapters.bigquery.stores.collations import find_collated_texts
from tidegate.adapters.bigquery.stores.ownership import check_removable
from tidegate.errors import GiveUp, RetryLater
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.stage_outcome import StageOutcome
from tidegate.model.batch import StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import STAGING_KINDS

# labels of the intermediate table
HIGHEST_BATCH_LABEL = "tidegate_highest_batch"
SHAPE_LABEL = "tidegate_shape"
LANDED_FILE = "landed.json"
MIN_FREE_PARTITIONS = 100  # batches that may be staged before the next clean-up
EXPIRATION_TIME = timedelta(days=30)  # as the statement that makes the table has it
COUNTS_PATH_PATTERN = re.compile(r"/counts/part-[^/]*$")
BATCH_PATH_PATTERN = re.compile(r"/batch=(\d+)/attempt=([^/]+)/")


def get_folder(intermediate: str, batch: int | None = None, attempt: str = "") -> str:
    """The path of an intermediate table's files, of a batch's, or of one attempt's."""
    folder = intermediate.split(".", 1)[1].replace(".", "/")
    if batch is None:
        return folder
    return f"{folder}/batch={batch}/attempt={attempt}" if attempt else f"{folder}/batch={batch}"


def load_attempt(warehouse: Warehouse, intermediate: str, batch: int, attempt: str, summary: dict[str, str]) -> None:
    """Load an attempt's rows and write down that they are there.

    1. Read the counts, which the job leaves last; without them it did not finish, and nothing is done.
    2. Load the rows by jobs named by the attempt. A batch with a bad record is not loaded: it is never merged.
    3. Compare what came in with what Spark wrote.
    4. Write `landed.json`.

    An attempt that landed before is left as it is. Of one whose files cannot be loaded, or came in otherwise than they
    were written, nothing is kept: its batch is staged again.
    """
    place = get_folder(intermediate, batch, attempt)
    outcome = read_job_outcome(warehouse, place)
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
    numbers = [landed["number"] for landed in before]
    landed = {
        "number": max([0, *numbers]) + 1,
        "table": uuid,
        "rows": rows,
        "summary": summary,
        "outcome": outcome.to_dict(),
    }
    warehouse.folder.write(f"{place}/{LANDED_FILE}", json.dumps(landed).encode())
    hit_failpoint("bigquery.landed")
    if outcome.bad:  # each run stages such a batch anew, until its records or the file are corrected
        warehouse.folder.delete(f"{place}/rows")


def _check_collations(intermediate: str, table: Any) -> None:
    """`GiveUp` where the dataset gives its tables a collation: keys that differ in case would be one."""
    for path, collation in find_collated_texts(field.to_api_repr() for field in table.schema):
        if path[0] == "key":
            raise GiveUp(
                f"intermediate={intermediate} column={'.'.join(path)}: BigQuery compares its text without case "
                f"(collation={collation}), and records of two keys would be one row; nothing was loaded; take the "
                "collation from the dataset (ALTER SCHEMA … SET DEFAULT COLLATE ''), and drop this table"
            )


def _load_and_check(
    warehouse: Warehouse, intermediate: str, uuid: str, summary: dict[str, str], outcome: StageOutcome
) -> int:
    """Load an attempt's files; unless as many rows came in as Spark counted when it wrote them, forget the attempt."""
    if outcome.bad:
        return 0
    batch = int(summary["tidegate.batch"])
    attempt = summary["tidegate.attempt"]
    has_rows = outcome.staged or outcome.dead_lettered
    rows = (
        _run_load_jobs(warehouse, intermediate, get_folder(intermediate, batch, attempt), uuid, summary)
        if has_rows
        else 0
    )
    written_rows = rows if outcome.rows is None else outcome.rows  # an earlier version's job did not count them
    if rows != written_rows:
        forget_attempt(warehouse, intermediate, batch, attempt)
        raise RetryLater(
            f"intermediate={intermediate} batch={batch} attempt={attempt}: the load jobs brought in rows={rows}, and "
            f"the stage job wrote rows={written_rows}; nothing of it is merged and the batch is staged again; keep "
            "others out of the staging folder, its lifecycle rules too"
        )
    return rows


def read_job_outcome(warehouse: Warehouse, place: str) -> StageOutcome | None:
    """The counts of a job, which it leaves last in its folder; None where it did not finish."""
    text = read_outcome_text(warehouse, place)
    return None if text is None else StageOutcome.from_json(text, f"folder={place}")


def read_outcome_text(warehouse: Warehouse, place: str) -> str | None:
    """What a job leaves last in its folder, one line of JSON: counts, the names it found, or what it explains."""
    for path in warehouse.folder.list_paths(f"{place}/counts"):
        if path.rsplit("/", 1)[1].startswith("part-"):
            text = (warehouse.folder.read(path) or b"").strip()
            if text:
                return text.decode()
    return None


def _run_load_jobs(warehouse: Warehouse, intermediate: str, place: str, uuid: str, summary: dict[str, str]) -> int:
    batch = summary["tidegate.batch"]
    load_place = f"intermediate={intermediate} batch={batch} attempt={summary['tidegate.attempt']}"
    labels = {"tidegate_pipeline": summary.get("tidegate.pipeline", ""), "tidegate_batch": batch}
    source = warehouse.folder.get_load_source(f"{place}/rows")
    files: list[Path | str] = [source] if isinstance(source, str) else list(source)
    names = [name_job("load", place, uuid, number) for number in range(len(files))]
    request = LoadRequest(load_place, intermediate, labels)
    return sum(run_load_job(warehouse, request, name, file) for name, file in zip(names, files, strict=True))


def _list_landed(warehouse: Warehouse, intermediate: str) -> list[dict[str, Any]]:
    """Read `landed.json` of every attempt, also of former tables of this name; in the order of loading."""
    names = warehouse.folder.list_paths(get_folder(intermediate))
    texts = (warehouse.folder.read(name) for name in names if name.endswith(f"/{LANDED_FILE}"))
    return sorted((json.loads(text) for text in texts if text), key=lambda landed: landed["number"])


def _list_valid(warehouse: Warehouse, intermediate: str) -> list[dict[str, Any]]:
    """The same, of the attempts that were loaded into the present table."""
    landed = _list_landed(warehouse, intermediate)
    table = warehouse.find_table(intermediate) if landed else None
    return [landing for landing in landed if table is not None and landing["table"] == get_uuid(table)]


def read_outcome(warehouse: Warehouse, intermediate: str, attempt: str) -> StageOutcome | None:
    """What the stage job of this attempt left behind, None if it did not finish or its rows are gone."""
    for landed in _list_valid(warehouse, intermediate):
        if landed["summary"]["tidegate.attempt"] == attempt:
            return _get_outcome(landed)
    return None


def _get_outcome(landed: dict[str, Any]) -> StageOutcome:
    """The counts of an attempt's job, from its `landed.json`."""
    summary = landed["summary"]
    place = f"batch={summary['tidegate.batch']} attempt={summary['tidegate.attempt']} file={LANDED_FILE}"
    return StageOutcome.from_dict(landed["outcome"], place)


def list_staged(warehouse: Warehouse, intermediate: str, destination: str) -> list[StagedBatch]:
    """Complete batches in order; of several attempts at one batch the newest counts."""
    newest: dict[int, StagedBatch] = {}
    for landed in _list_valid(warehouse, intermediate):
        outcome = _get_outcome(landed)
        if not outcome.bad:
            staged_batch = outcome.to_staged_batch(destination, landed["summary"], landed["number"])
            newest[staged_batch.batch] = staged_batch
    return [newest[batch] for batch in sorted(newest)]


def read_loaded_rows(warehouse: Warehouse, intermediate: str, attempt: str) -> int:
    """How many rows an attempt's load jobs brought in; `RetryLater` where nothing is known of it any more."""
    for landed in _list_valid(warehouse, intermediate):
        if landed["summary"]["tidegate.attempt"] == attempt:
            return int(landed["rows"])
    raise RetryLater(f"intermediate={intermediate} attempt={attempt}: its staged rows are gone")


def forget_attempt(warehouse: Warehouse, intermediate: str, batch: int, attempt: str) -> None:
    """Forget an attempt whose rows are not in the table any more, so that its batch is staged again."""
    warehouse.folder.delete(get_folder(intermediate, batch, attempt))


def get_shape(table: Any) -> str:
    """The shape that the table was made for; empty if its partitions are used up, so that it is made anew."""
    ranged = table.range_partitioning
    if ranged is not None and _get_highest_label(table) + MIN_FREE_PARTITIONS >= ranged.range_.end:
        return ""
    return str(table.labels.get(SHAPE_LABEL, ""))


def find_highest_batch(warehouse: Warehouse, intermediate: str) -> int:
    """The highest batch number of an attempt that may be merged, or that was ever cleaned up; 0 for none.

    The number of one that was killed before it left its counts is used again.
    """
    names = warehouse.folder.list_paths(get_folder(intermediate))
    finished_attempts = _list_attempts([name for name in names if COUNTS_PATH_PATTERN.search(name)])
    numbers = {batch for batch, _ in finished_attempts - _find_unmergeable_attempts(warehouse, intermediate)}
    table = warehouse.find_table(intermediate)
    return max([_get_highest_label(table) if table else 0, *numbers])


def _list_attempts(paths: Iterable[str]) -> set[tuple[int, str]]:
    """Number and attempt of everything that has a file."""
    matches = (BATCH_PATH_PATTERN.search(f"/{path}") for path in paths)
    return {(int(match[1]), match[2]) for match in matches if match}


def _find_unmergeable_attempts(warehouse: Warehouse, intermediate: str) -> set[tuple[int, str]]:
    """Attempts that have ended with something that is never merged."""
    ended_attempts: set[tuple[int, str]] = set()
    for landed in _list_landed(warehouse, intermediate):
        summary = landed["summary"]
        span = Ranges.from_dict(json.loads(summary["tidegate.staged"])["ranges"]).span
        if not _get_outcome(landed).can_be_merged(span):
            ended_attempts.add((int(summary["tidegate.batch"]), summary["tidegate.attempt"]))
    return ended_attempts


def _get_highest_label(table: Any) -> int:
    """The number in the table's label: that of the table's first batch, or the highest that was cleaned up."""
    return int(table.labels.get(HIGHEST_BATCH_LABEL, "0"))


def remove_batches(warehouse: Warehouse, intermediate: str, up_to_batch: int) -> dict[str, int]:
    """Remove batches up to that one: partitions, which costs nothing, then every file, those of killed attempts too.

    Only what has files is looked at: a partition's rows go before the files that tell of them. Later numbers go too
    where none of their attempts is ever merged.
    """
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
        _record_highest_batch(warehouse, table, max(up_to_batch, find_highest_batch(warehouse, intermediate)))
    files = 0
    for batch in batches:
        if table is not None:
            warehouse.delete_table(f"{intermediate}${batch}")
            hit_failpoint("bigquery.partition_dropped")
        files += sum(f"/batch={batch}/" in name for name in names)
        warehouse.folder.delete(get_folder(intermediate, batch))
        hit_failpoint("clean_up.removed")
    return {"partitions": len(batches), "files": files}


def _record_highest_batch(warehouse: Warehouse, table: Any, number: int) -> None:
    """Keep the highest number in a label, and set the table's expiration anew."""
    table.labels = {**table.labels, HIGHEST_BATCH_LABEL: str(max(number, _get_highest_label(table)))}
    table.expires = datetime.now(UTC) + EXPIRATION_TIME
    warehouse.update_table(table, "labels", "expires")


def drop_table(warehouse: Warehouse, intermediate: str) -> None:
    """Drop a table that is ours alone, and its files."""
    table = warehouse.find_table(intermediate)
    if table is not None:
        check_removable(table, intermediate, ("intermediate",))
        warehouse.delete_table(intermediate)
    warehouse.folder.delete(get_folder(intermediate))
