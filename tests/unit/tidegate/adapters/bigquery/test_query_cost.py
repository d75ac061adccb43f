"""The bytes of a publish: asked before it is sent, kept with what it did, and refused where they are too many."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.commit import estimate_scan_bytes, read_job_cost
from tidegate.adapters.bigquery.errors import JobFailed, translate_job_error
from tidegate.errors import GiveUp, RetryLater
from tidegate.model.batch import PublishCost, PublishedBatch, read_cost
from tidegate.model.offsets import Ranges

MERGE, DELETES = "MERGE INTO t", "-- remembered\nMERGE INTO d"
MAKES = "CREATE TABLE IF NOT EXISTS d (id INT64)"


class Counting(Warehouse):
    """A project whose dry runs are told, and whose jobs were billed."""

    def __init__(self, reads: Mapping[str, int], limit: int | None = None, billed: int | None = None) -> None:
        self._reads, self._limit, self._billed = reads, limit, billed

    @property
    def max_bytes_billed(self) -> int | None:
        return self._limit

    def estimate_read_bytes(self, sql: str) -> int:
        if sql not in self._reads:
            raise RetryLater("no answer")
        return self._reads[sql]

    def read_job(self, job_id: str) -> Any:
        return SimpleNamespace(project="p", location="EU", job_id=job_id, total_bytes_billed=self._billed)


def test_bytes_of_all_statements_of_a_publish_are_added_up_without_those_that_make_tables() -> None:
    assert estimate_scan_bytes(Counting({MERGE: 5, DELETES: 2}), "table=t", (MAKES, DELETES, MERGE)) == 7


def test_bytes_that_nobody_counts_are_unknown_and_not_none_at_all() -> None:
    assert estimate_scan_bytes(Counting({MERGE: 0}), "table=t", (MERGE,)) is None
    assert estimate_scan_bytes(Counting({MERGE: 5}, limit=1), "table=t", (MERGE, "MERGE INTO not_there")) is None


def test_a_publish_that_would_read_too_much_is_refused_in_one_sentence_before_it_is_sent() -> None:
    with pytest.raises(GiveUp) as error_info:
        estimate_scan_bytes(Counting({MERGE: 11}, limit=10), "pipeline=p table=t", (MERGE,))
    assert str(error_info.value) == (
        "pipeline=p table=t: the publish would read bytes=11 max_bytes_billed=10; nothing was sent; cluster the table "
        "by its key, partition it by a column of the key, let batches grow with merge.interval, or raise "
        "max_bytes_billed in catalogs.yaml"
    )
    assert estimate_scan_bytes(Counting({MERGE: 10}, limit=10), "table=t", (MERGE,)) == 10


def test_bigquerys_own_refusal_says_the_same() -> None:
    failed = JobFailed(
        "j", "bytesBilledLimitExceeded", "Query exceeded limit for bytes billed: 10. 11 or higher required."
    )
    error = translate_job_error("table=t", failed)
    assert isinstance(error, GiveUp)
    assert str(error).startswith("table=t: it would read more than max_bytes_billed, nothing was changed: job=j")
    assert "11 or higher required" in str(error)
    assert str(error).endswith("or raise max_bytes_billed in catalogs.yaml")


def test_a_job_tells_where_it_is_found_and_what_was_billed() -> None:
    assert read_job_cost(Counting({}, billed=20), "j") == {"tidegate.job": "p:EU.j", "tidegate.bytes-billed": "20"}
    assert read_job_cost(Counting({}), "j") == {"tidegate.job": "p:EU.j"}


def test_bytes_stand_in_the_result_and_add_up_over_a_queue() -> None:
    summary = {"tidegate.bytes-scanned": "7", "tidegate.bytes-billed": "20", "tidegate.job": "p:EU.j"}
    cost = read_cost(summary)
    assert cost == PublishCost(bytes_scanned=7, bytes_billed=20, job="p:EU.j")
    empty_batch = PublishedBatch(
        table="t", batch=1, ranges=Ranges({}), staged=0, inserted=0, updated=0, deleted=0, seconds=0.0, snapshot_id=1,
        valid_through_ms=None,
    )  # fmt: skip
    first_batch = replace(empty_batch, batch=2, **vars(cost))
    both_batches = empty_batch.add(first_batch).add(replace(first_batch, job="p:EU.k"))
    assert (both_batches.bytes_scanned, both_batches.bytes_billed, both_batches.job) == (14, 40, "p:EU.k")
    assert empty_batch.add(empty_batch).bytes_billed is None
