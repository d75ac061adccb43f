"""How BigQuery is reached: who we are, what an answer means, where files lie, and whose statements go where."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tidegate.adapters.bigquery.catalog import Warehouse, limit_retries, name_job, to_labels
from tidegate.adapters.bigquery.errors import JobFailed, translate_client_errors, translate_job_error
from tidegate.adapters.bigquery.files import open_folder
from tidegate.errors import ConfigurationError, GiveUp, OutcomeUnknown, RetryLater
from tidegate.spec.pipeline import Catalog


def build_catalog(connection: str | None = None, **properties: Any) -> Catalog:
    return Catalog("dwh", "bigquery", {"project": "p", **properties}, connection)


def test_tables_of_a_dataset_are_listed_by_few_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request costs a fraction of a second, and a flush of tables that records name lists their datasets."""
    requests = list[dict[str, Any]]()

    def list_tables(reference: str, **options: Any) -> list[Any]:
        requests.append({"reference": reference, "page_size": options["page_size"]})
        return [SimpleNamespace(table_id=name) for name in ("orders", "lines")]

    monkeypatch.setattr(Warehouse, "client", SimpleNamespace(list_tables=list_tables))
    warehouse = Warehouse(build_catalog(), lambda _: None)
    assert warehouse.list_tables("dwh.shop") == ["lines", "orders"]
    assert requests == [{"reference": "p.shop", "page_size": 1000}]


@pytest.mark.parametrize("count", [0, 2])
def test_request_is_repeated_as_often_as_the_connection_says(count: int) -> None:
    from google.api_core.exceptions import ServiceUnavailable
    from google.api_core.retry import Retry

    calls = list[int]()

    def fail() -> None:
        calls.append(len(calls))
        raise ServiceUnavailable("busy")

    retry = limit_retries(Retry(initial=0.001, maximum=0.001), count)
    for _ in range(2):  # each request has its own count
        calls.clear()
        with pytest.raises(ServiceUnavailable):
            retry(fail)()
        assert len(calls) == count + 1


def test_rows_that_a_sink_has_streamed_are_waited_for_and_the_sink_is_named() -> None:
    words = (
        "UPDATE or DELETE statement over table d.t would affect rows in the streaming buffer, which is not supported"
    )
    error = translate_job_error("table=t", JobFailed("j", "invalidQuery", words))
    assert type(error) is RetryLater
    assert "stop the writer that streams into the table" in str(error)


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("invalidQuery", "Could not serialize access to table p:d.t due to concurrent update", RetryLater),
        ("invalidQuery", "Transaction is aborted due to concurrent update against table", RetryLater),
        ("rateLimitExceeded", "Exceeded rate limits: too many table update operations", RetryLater),
        ("quotaExceeded", "Quota exceeded", RetryLater),
        ("resourcesExceeded", "Too many DML statements outstanding against table p:d.t, limit is 20.", RetryLater),
        ("resourcesExceeded", "Resources exceeded during query execution: not enough memory", GiveUp),
        ("backendError", "The job encountered an error", RetryLater),
        ("bytesBilledLimitExceeded", "Query exceeded limit for bytes billed", GiveUp),
        ("invalidQuery", "Unrecognized name: x", GiveUp),
        ("quotaExceeded", "Too many partitions produced by query, allowed 4000, query produces at least 4018", GiveUp),
    ],
)
def test_a_failed_job_is_tried_again_where_that_can_help(reason: str, message: str, expected: type) -> None:
    error = translate_job_error("table=t", JobFailed("j", reason, message))
    assert type(error) is expected
    assert message in str(error)


def test_a_lost_answer_is_an_unknown_outcome_only_of_what_was_sent() -> None:
    def lose(is_sent: bool) -> None:
        with translate_client_errors("table=t", is_sent=is_sent):
            raise ConnectionError("gone")

    with pytest.raises(OutcomeUnknown, match="table=t: BigQuery gave no answer"):
        lose(True)
    with pytest.raises(RetryLater) as error_info:
        lose(False)
    assert not isinstance(error_info.value, OutcomeUnknown)


@pytest.mark.parametrize("name", ["ServiceUnavailable", "InternalServerError", "TooManyRequests", "RetryError"])
def test_a_server_that_fails_or_is_too_busy_is_asked_again(name: str) -> None:
    """None of these says why in a reason; what was sent to it may have been done."""
    from google.api_core import exceptions

    kind = getattr(exceptions, name)
    error = kind("busy", TimeoutError()) if name == "RetryError" else kind("busy")
    for is_sent, expected in ((False, RetryLater), (True, OutcomeUnknown)):
        with (
            pytest.raises(RetryLater, match=r"table=t: BigQuery gave no answer: .*busy") as error_info,
            translate_client_errors("table=t", is_sent=is_sent),
        ):
            raise error
        assert type(error_info.value) is expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("RefreshError", "invalid_grant: Invalid JWT Signature.", GiveUp),
        ("RefreshError", 'Unable to acquire impersonated credentials: {"status": "PERMISSION_DENIED"}', GiveUp),
        ("DefaultCredentialsError", "Your default credentials were not found.", GiveUp),
        ("RefreshError", "Unable to acquire impersonated credentials: 503", RetryLater),
        ("TransportError", "Failed to retrieve http://metadata.google.internal/ from the metadata service", RetryLater),
    ],
)
def test_a_refused_log_in_is_no_answer_that_will_come_later(kind: str, text: str, expected: type[Exception]) -> None:
    from google.auth import exceptions

    with pytest.raises(expected) as error_info, translate_client_errors("table=t"):
        raise getattr(exceptions, kind)(text)
    assert text in str(error_info.value)
    assert ("correct the catalog's connection" in str(error_info.value)) == (expected is GiveUp)


def test_rows_in_too_many_partitions_are_refused_with_a_way_out() -> None:
    error = translate_job_error(
        "table=t", JobFailed("j", "invalid", "Too many partitions produced by query, allowed 4000")
    )
    assert "months(c)" in str(error)
    assert "merge.max_records" in str(error)


@pytest.mark.parametrize(
    ("reason", "message", "expected", "message_pattern"),
    [
        (
            "timeout", "Operation timed out after 6.0 hours. Consider reducing the amount of work", RetryLater,
            "BigQuery ended it at a limit of time.*merge.max_records.*drop the intermediate table",
        ),
        (
            "stopped", "Job execution was cancelled: Job timed out after 10m", RetryLater,
            r"default_query_job_timeout_ms.*drop the intermediate table",
        ),
        (
            "stopped", "Job execution was cancelled: User requested cancellation", RetryLater,
            "somebody cancelled the job, it will be tried again.*; pause the pipeline",
        ),
        (
            "resourcesExceeded", "Resources exceeded during query execution: not enough memory", GiveUp,
            "too large for BigQuery.*drop the intermediate table",
        ),
        ("invalid", "Too many partitions produced by query, allowed 4000", GiveUp, "drop the intermediate table"),
    ],
)  # fmt: skip
def test_job_that_was_ended_tells_by_whom_and_how_the_staged_batch_gets_smaller(
    reason: str, message: str, expected: type, message_pattern: str
) -> None:
    """What is staged keeps its size: a smaller `merge.max_records` alone would change nothing."""
    with pytest.raises(expected, match=message_pattern):
        raise translate_job_error("table=t", JobFailed("j", reason, message))


def test_a_refusal_by_quota_passes_and_one_by_access_does_not() -> None:
    from google.api_core.exceptions import Forbidden

    for reason, expected in (("rateLimitExceeded", RetryLater), ("accessDenied", GiveUp)):
        with pytest.raises(expected), translate_client_errors("table=t"):
            raise Forbidden("no", errors=[{"reason": reason}])


def test_files_are_found_read_and_removed_below_their_folder(tmp_path: Path) -> None:
    folder = open_folder(f"file://{tmp_path}/with space", lambda: None, "p")
    folder.write("shop/t/batch=1/attempt=a/landed.json", b"1")
    folder.write("shop/t/batch=2/attempt=b/rows/part-0.parquet", b"2")
    folder.write("shop/t/batch=2/attempt=b/rows/.part-0.parquet.crc", b"3")
    assert folder.read("shop/t/batch=1/attempt=a/landed.json") == b"1"
    assert folder.read("shop/t/nothing") is None
    assert len(folder.list_paths("shop/t")) == 3
    assert [file.name for file in folder.get_load_source("shop/t/batch=2/attempt=b/rows")] == ["part-0.parquet"]
    assert folder.to_uri("shop/t/batch=1") == f"file://{tmp_path}/with space/shop/t/batch=1"
    folder.delete("shop/t/batch=2")
    assert folder.list_paths("shop/t") == ["shop/t/batch=1/attempt=a/landed.json"]


def test_a_bucket_is_one_uri_for_the_load_job() -> None:
    folder = open_folder("gs://bucket/some/prefix", lambda: None, "p")
    assert (
        folder.get_load_source("d/t/batch=1/attempt=a/rows")
        == "gs://bucket/some/prefix/d/t/batch=1/attempt=a/rows/*.parquet"
    )


@pytest.mark.parametrize("address", ["s3://bucket", "gs:///prefix", "folder"])
def test_another_place_for_files_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="neither gs://bucket/prefix nor file:///folder"):
        open_folder(address, lambda: None, "p")


def test_a_catalog_without_staging_says_what_to_write() -> None:
    with pytest.raises(ConfigurationError, match="catalog=dwh: staging is missing; give gs://"):
        _ = Warehouse(build_catalog(), lambda _: None).folder


def test_jobs_names_are_the_same_for_the_same_and_labels_are_what_bigquery_takes() -> None:
    assert (
        name_job("publish", "dwh.d.ü t", "a") == name_job("publish", "dwh.d.ü t", "a") != name_job("publish", "x", "a")
    )
    assert name_job("publish", "dwh.d.ü t", "a").replace("_", "").isalnum()
    assert to_labels({"tidegate_table": "Ünï t" + "x" * 80}) == {"tidegate_table": "_n__t" + "x" * 58}
