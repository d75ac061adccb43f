"""How many records a batch takes: what waits, within the pipeline's caps, by what earlier batches took.

A large batch costs less per record; one that runs for hours holds up every other, and is lost whole when it fails.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.model import resource_names
from tidegate.ports.batch_history import HistoryRow
from tidegate.ports.context import Ports

log = logging.getLogger(__name__)
HISTORY_MIN_BACKLOG_RECORDS = 100_000  # so many are read in a moment: history is not asked for them
HISTORY_BATCHES, HISTORY_MAX_ROWS = 5, 50  # newest batches that are looked at; a row of history is one table's
# A batch tells the rate of records if they, and not what every batch costs, are what took the time.
MEASURED_MIN_RECORDS, MEASURED_MIN_SECONDS = 10_000, 10.0
MIN_BATCH_RECORDS = 1000


@dataclass(frozen=True)
class MeasuredThroughput:
    """What the newest batches of a pipeline took; None where none of them tells."""

    records_per_second: float | None = None
    bytes_per_record: float | None = None


@dataclass(frozen=True)
class BatchSize:
    """The most records of the next batch; `reason` says why it is less than the pipeline's own cap, if it is."""

    records: int
    reason: str = ""


class BatchSizer:
    """The size of the next batch, the same for all tables that are in step; history is asked once, if at all."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._measured: MeasuredThroughput | None = None
        self.reason = ""

    def choose_max_records(self, backlog: int) -> int:
        """The most records of a batch when `backlog` offsets wait; `reason` then says why that is less than the file's.

        History is read in the first call that needs it, and not again.
        """
        cap = self._ports.pipeline.merge.cap(backlog)
        if min(backlog, cap) <= HISTORY_MIN_BACKLOG_RECORDS:
            return cap
        if self._measured is None:
            self._measured = measure_throughput(self._ports)
        size = compute_batch_size(self._ports, backlog, self._measured)
        self.reason = self.reason or size.reason
        return size.records


def compute_batch_size(ports: Ports, backlog: int, throughput: MeasuredThroughput) -> BatchSize:
    """The cap of the pipeline file, or less: what takes `merge.batch_time`, what stages `merge.max_bytes`."""
    merge = ports.pipeline.merge
    cap = merge.cap(backlog)
    limits = [BatchSize(cap)]
    if merge.batch_seconds and throughput.records_per_second:
        rate = round(throughput.records_per_second)
        reason = f"earlier batches took {rate} records a second, and merge.batch_time={merge.batch_seconds}s"
        limits.append(BatchSize(int(throughput.records_per_second * merge.batch_seconds), reason))
    if merge.max_bytes and throughput.bytes_per_record:
        each = round(throughput.bytes_per_record)
        reason = f"earlier batches staged {each} bytes for each record, and merge.max_bytes={merge.max_bytes}"
        limits.append(BatchSize(int(merge.max_bytes / throughput.bytes_per_record), reason))
    least = min(limits, key=lambda size: size.records)
    records = max(least.records, min(cap, MIN_BATCH_RECORDS))
    return BatchSize(records, least.reason if records < min(cap, backlog) else "")


def measure_throughput(ports: Ports) -> MeasuredThroughput:
    """Records per second of the fastest of the newest batches, and the most staged bytes for a record of one.

    Only batches of 10,000 records and more tell, a rate only those of 10 s and more, and no backfill does. Never
    raises: where history cannot be read, both are None.
    """
    limit = min(HISTORY_BATCHES * len(ports.pipeline.tables), HISTORY_MAX_ROWS)
    try:
        rows = ports.history.read_history(resource_names.name_control_table(ports.pipeline), limit)
    except Exception as error:  # history is a shortcut: without it a batch has the pipeline's own cap
        where = f"pipeline={ports.pipeline.name}"
        log.warning("history cannot be read, so batches have the cap of the pipeline file: %s: %s", where, error)
        log.info("history cannot be read: %s", where, exc_info=error)
        return MeasuredThroughput()
    batches = _sum_by_batch(rows)[:HISTORY_BATCHES]
    rates = [one["read"] / one["seconds"] for one in batches if one["seconds"] >= MEASURED_MIN_SECONDS]
    sizes = [one["bytes"] / one["read"] for one in batches if one["bytes"]]
    return MeasuredThroughput(max(rates, default=None), max(sizes, default=None))


def _sum_by_batch(rows: Iterable[HistoryRow]) -> list[dict[str, float]]:
    """Batches that tell, newest first: tables share a batch's read, and its merges add up."""
    batches: dict[int, dict[str, float]] = {}
    for row in rows:
        stage_seconds = row.get("stage_seconds")
        if row["backfill"] is None and stage_seconds:
            one = batches.setdefault(row["batch"], {"read": 0, "seconds": 0.0, "staging": 0.0, "bytes": 0})
            one["read"] = max(one["read"], row["read"])
            one["seconds"] += row["seconds"]
            one["staging"] = max(one["staging"], stage_seconds)
            one["bytes"] += row.get("staged_bytes") or 0
    telling = (batch for batch in sorted(batches, reverse=True) if batches[batch]["read"] >= MEASURED_MIN_RECORDS)
    return [{**batches[batch], "seconds": batches[batch]["seconds"] + batches[batch]["staging"]} for batch in telling]
