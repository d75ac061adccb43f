"""The intermediate table in BigQuery: how files of a stage job come into it, which batches wait, and how they leave.

A batch's folder is ``<dataset>/<intermediate>/batch=N/attempt=A``. Spark leaves ``rows/*.parquet`` there, and last
``counts``; the worker loads the rows and then writes ``landed.json``, which says all that is known of the attempt.
Nothing counts before that file is there, and what it says holds only for the table that the rows were loaded into.
"""

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse, job_name
from tidegate.adapters.bigquery.client.errors import JobFailed
from tidegate.adapters.bigquery.client.load_jobs import Load, load
from tidegate.adapters.bigquery.stores.ownership import check_removable
from tidegate.errors import GiveUp, RetryLater
from tidegate.failpoints import reached
from tidegate.model.batch import DELETES, ROWS, UNCHANGED, Counts, StagedBatch, can_be_merged
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import STAGED

HIGHEST, SHAPE = "tidegate_highest_batch", "tidegate_shape"  # labels of the intermediate table
LANDED = "landed.json"
AHEAD = 100  # batches that may be staged before the next clean-up
EXPIRES = timedelta(days=30)  # as the statement that makes the table has it
BATCH = re.compile(r"/batch=(\d+)/attempt=([^/]+)/")


class RowsDiffer(RetryLater):
    """A load brought in more rows than were written, or fewer."""


def folder_of(intermediate: str, batch: int | None = None, attempt: str = "") -> str:
    """The path of an intermediate table's files, of a batch's, or of one attempt's."""
    whole = intermediate.split(".", 1)[1].replace(".", "/")
    if batch is None:
        return whole
    return f"{whole}/batch={batch}/attempt={attempt}" if attempt else f"{whole}/batch={batch}"


def uuid_of(table: Any) -> str:
    """What tells a table from another of the same name: when it was made, to the millisecond."""
    return str(round(table.created.timestamp() * 1000))


def land(warehouse: Warehouse, intermediate: str, batch: int, attempt: str, summary: dict[str, str]) -> None:
    """Load an attempt's rows and write down that they are there.

    1. Read the counts, which the job leaves last; without them it did not finish, and nothing is done.
    2. Load the rows by jobs named by the attempt. A batch with a bad record is not loaded: it is never merged.
    3. Compare what came in with what Spark wrote.
    4. Write `landed.json`.

    An attempt that landed before is left as it is. Of one whose files cannot be loaded, or came in otherwise than they
    were written, nothing is kept: its batch is staged again.
    """
    place = folder_of(intermediate, batch, attempt)
    outcome = left(warehouse, place)
    if outcome is None:
        return
    table = warehouse.table(intermediate)
    if table is None:
        raise RetryLater(f"intermediate={intermediate} batch={batch}: the table is gone; run the flush again")
    before = _landed(warehouse, intermediate)
    if any(one["table"] == uuid_of(table) and one["summary"]["tidegate.attempt"] == attempt for one in before):
        return
    try:
        rows = _bring_in(warehouse, intermediate, uuid_of(table), summary, outcome)
    except (GiveUp, RowsDiffer) as error:
        if isinstance(error, RowsDiffer) or isinstance(error.__cause__, JobFailed):
            disown(warehouse, intermediate, batch, attempt)
        raise
    numbers = [landed["number"] for landed in before]
    landed = {
        "number": max([0, *numbers]) + 1,
        "table": uuid_of(table),
        "rows": rows,
        "summary": summary,
        "outcome": outcome,
    }
    warehouse.folder.write(f"{place}/{LANDED}", json.dumps(landed).encode())
    reached("bigquery.landed")
    if outcome["bad"]:  # each run stages such a batch anew, until somebody has corrected it
        warehouse.folder.delete(f"{place}/rows")


def _bring_in(
    warehouse: Warehouse, intermediate: str, uuid: str, summary: dict[str, str], outcome: dict[str, Any]
) -> int:
    """Load an attempt's files; `RowsDiffer` unless as many rows came in as Spark counted when it wrote them."""
    if outcome["bad"]:
        return 0
    batch, attempt = int(summary["tidegate.batch"]), summary["tidegate.attempt"]
    has_rows = outcome["staged"] or outcome["dead_lettered"]
    rows = _load(warehouse, intermediate, folder_of(intermediate, batch, attempt), uuid, summary) if has_rows else 0
    written = outcome.get(ROWS, rows)  # an earlier version's job did not count them
    if rows != written:
        raise RowsDiffer(
            f"intermediate={intermediate} batch={batch} attempt={attempt}: the load jobs brought in rows={rows}, and "
            f"the stage job wrote rows={written}; nothing of it is merged and the batch is staged again; keep others "
            "out of the staging folder, its lifecycle rules too"
        )
    return rows


def left(warehouse: Warehouse, place: str) -> dict[str, Any] | None:
    """The counts of a job, or the names it found, which it leaves last in its folder."""
    for path in warehouse.folder.names(f"{place}/counts"):
        if path.rsplit("/", 1)[1].startswith("part-"):
            text = (warehouse.folder.read(path) or b"").strip()
            if text:
                return dict(json.loads(text))
    return None


def _load(warehouse: Warehouse, intermediate: str, place: str, uuid: str, summary: dict[str, str]) -> int:
    batch = summary["tidegate.batch"]
    where = f"intermediate={intermediate} batch={batch} attempt={summary['tidegate.attempt']}"
    labels = {"tidegate_pipeline": summary.get("tidegate.pipeline", ""), "tidegate_batch": batch}
    source = warehouse.folder.source(f"{place}/rows")
    files: list[Path | str] = [source] if isinstance(source, str) else list(source)
    names = [job_name("load", place, uuid, number) for number in range(len(files))]
    asked = Load(where, intermediate, labels)
    return sum(load(warehouse, asked, name, file) for name, file in zip(names, files, strict=True))


def _landed(warehouse: Warehouse, intermediate: str) -> list[dict[str, Any]]:
    """What was written down of every attempt, of whichever table of this name, in order."""
    names = warehouse.folder.names(folder_of(intermediate))
    texts = (warehouse.folder.read(name) for name in names if name.endswith(f"/{LANDED}"))
    return sorted((json.loads(text) for text in texts if text), key=lambda landed: landed["number"])


def _valid(warehouse: Warehouse, intermediate: str) -> list[dict[str, Any]]:
    """The same, of the table that is there now."""
    landed = _landed(warehouse, intermediate)
    table = warehouse.table(intermediate) if landed else None
    return [one for one in landed if table is not None and one["table"] == uuid_of(table)]


def outcome_of(warehouse: Warehouse, intermediate: str, attempt: str) -> dict[str, Any] | None:
    """What the stage job of this attempt left behind, None if it did not finish or its rows are gone."""
    for landed in _valid(warehouse, intermediate):
        if landed["summary"]["tidegate.attempt"] == attempt:
            return dict(landed["outcome"])
    return None


def staged_in(warehouse: Warehouse, intermediate: str, destination: str) -> list[StagedBatch]:
    """Complete batches in order; of several attempts at one batch the newest counts."""
    newest: dict[int, StagedBatch] = {}
    for landed in _valid(warehouse, intermediate):
        if not landed["outcome"]["bad"]:
            staged = _staged(landed, destination)
            newest[staged.batch] = staged
    return [newest[batch] for batch in sorted(newest)]


def _staged(landed: dict[str, Any], destination: str) -> StagedBatch:
    summary, found = landed["summary"], landed["outcome"]
    asked = json.loads(summary["tidegate.staged"])
    return StagedBatch.from_dict(
        {
            "table": destination,
            "batch": int(summary["tidegate.batch"]),
            "attempt": summary["tidegate.attempt"],
            "snapshot_id": landed["number"],
            "counts": asdict(Counts.of(Ranges.from_dict(asked["ranges"]).span, found)),
            "timestamps": found["timestamps"],
            **{name: found[name] for name in (*DELETES, *UNCHANGED) if name in found},
            **asked,
        }
    )


def rows_of(warehouse: Warehouse, intermediate: str, attempt: str) -> int:
    """How many rows an attempt's load jobs brought in; `RetryLater` where nothing is known of it any more."""
    for landed in _valid(warehouse, intermediate):
        if landed["summary"]["tidegate.attempt"] == attempt:
            return int(landed["rows"])
    raise RetryLater(f"intermediate={intermediate} attempt={attempt}: its staged rows are gone")


def disown(warehouse: Warehouse, intermediate: str, batch: int, attempt: str) -> None:
    """Forget an attempt whose rows are not in the table any more, so that its batch is staged again."""
    warehouse.folder.delete(folder_of(intermediate, batch, attempt))


def shape_of(table: Any) -> str:
    """The shape that the table was made for; one whose partitions are used up has none, and is made anew."""
    ranged = table.range_partitioning
    if ranged is not None and _label(table) + AHEAD >= ranged.range_.end:
        return ""
    return str(table.labels.get(SHAPE, ""))


def highest_batch(warehouse: Warehouse, intermediate: str) -> int:
    """The highest batch number of an attempt that may be merged, or that was ever cleaned up; 0 for none."""
    numbers = {batch for batch, _ in _attempts(warehouse, intermediate)} - _dead(warehouse, intermediate)
    table = warehouse.table(intermediate)
    return max([_label(table) if table else 0, *numbers])


def _attempts(warehouse: Warehouse, intermediate: str) -> set[tuple[int, str]]:
    """Number and attempt of everything that has a file."""
    found = (BATCH.search(f"/{name}") for name in warehouse.folder.names(folder_of(intermediate)))
    return {(int(match[1]), match[2]) for match in found if match}


def _dead(warehouse: Warehouse, intermediate: str) -> set[int]:
    """Numbers of which every attempt has ended with something that is never merged."""
    attempts = _attempts(warehouse, intermediate)
    ended: set[tuple[int, str]] = set()
    for landed in _landed(warehouse, intermediate):
        summary = landed["summary"]
        span = Ranges.from_dict(json.loads(summary["tidegate.staged"])["ranges"]).span
        if not can_be_merged(span, landed["outcome"]):
            ended.add((int(summary["tidegate.batch"]), summary["tidegate.attempt"]))
    return {batch for batch, _ in attempts} - {batch for batch, _ in attempts - ended}


def _label(table: Any) -> int:
    """The highest number as the table's label tells it; before the first batch, one less than that."""
    return int(table.labels.get(HIGHEST, "0"))


def clean(warehouse: Warehouse, intermediate: str, up_to_batch: int) -> dict[str, int]:
    """Remove batches up to that one: partitions, which costs nothing, then every file, those of killed attempts too.

    Only what has files is looked at: a partition's rows go before the files that tell of them. Later numbers go too
    where none of their attempts is ever merged.
    """
    names = warehouse.folder.names(folder_of(intermediate))
    known = {batch for batch, _ in _attempts(warehouse, intermediate) if batch <= up_to_batch}
    batches = sorted(known | _dead(warehouse, intermediate))
    table = warehouse.table(intermediate)
    if table is None and not names:
        return {}
    if table is not None:
        check_removable(table, intermediate, STAGED)
    if table is not None and batches:
        _remember(warehouse, table, max(up_to_batch, highest_batch(warehouse, intermediate)))
    files = 0
    for batch in batches:
        if table is not None:
            warehouse.delete(f"{intermediate}${batch}")
            reached("bigquery.partition_dropped")
        files += sum(f"/batch={batch}/" in name for name in names)
        warehouse.folder.delete(folder_of(intermediate, batch))
        reached("clean_up.removed")
    return {"partitions": len(batches), "files": files}


def _remember(warehouse: Warehouse, table: Any, number: int) -> None:
    """Keep the number, and put off the day on which a table that nobody cleans up goes by itself."""
    table.labels = {**table.labels, HIGHEST: str(max(number, _label(table)))}
    table.expires = datetime.now(UTC) + EXPIRES
    warehouse.update(table, "labels", "expires")


def drop(warehouse: Warehouse, intermediate: str) -> None:
    """Drop a table that is ours alone, and its files."""
    table = warehouse.table(intermediate)
    if table is not None:
        check_removable(table, intermediate, ("intermediate",))
        warehouse.delete(intermediate)
    warehouse.folder.delete(folder_of(intermediate))


def needed(table: Any, name: str) -> Any:
    """The table, or `GiveUp` where it is gone."""
    if table is None:
        raise GiveUp(f"table={name} does not exist any more; nothing was changed; the next flush plans anew")
    return table
