"""The metrics as a scraper reads them: one family after the other, nothing made up, labels escaped."""

from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tidegate_airflow.web.openmetrics import CONTENT_TYPE, FAMILIES, render_openmetrics

TABLE = {"table": "lake.shop.orders", "template": None, "lag": 7, "lag_known": True, "open_batches": 1,
         "lag_seconds": 12.5, "valid_through": "2026-01-01T00:00:00.000Z", "problem": None}  # fmt: skip
FLUSH = {"seconds": 2.25, "published_at": "2026-01-01T00:00:05.000Z", "inserted": 3, "updated": 2, "deleted": 1,
         "bytes_written": 9_007_199_254_740_992, "unknown_records": 4}  # fmt: skip
ROW: dict[str, Any] = {
    "pipeline": "shop",
    "state": "catching up",
    "lag": 7,
    "tables": [TABLE],
    "partitions": [{"topic": "orders", "partition": 3, "lag": 7, "lag_seconds": None}],
    "last_flush": FLUSH,
    "dead_letters": 4,
}


Samples = dict[tuple[str, ...], float]


def read_samples(rows: list[dict[str, Any]], publications: list[dict[str, Any]] | None = None) -> Samples:
    """What a scraper reads: the value of each metric, by its name and its labels."""
    families = text_string_to_metric_families(render_openmetrics(rows, publications or []))
    return {
        (sample.name, *(f"{name}={text}" for name, text in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def list_names(samples: Samples) -> set[str]:
    return {name for name, *_ in samples}


def test_every_number_of_the_overview_has_its_sample() -> None:
    samples = read_samples([ROW])
    expected: Samples = {
        ("tidegate_up", "pipeline=shop"): 1,
        ("tidegate_pipeline_state", "pipeline=shop", "state=catching up"): 1,
        ("tidegate_pipeline_state", "pipeline=shop", "state=stuck"): 0,
        ("tidegate_lag_records", "partition=3", "pipeline=shop", "topic=orders"): 7,
        ("tidegate_oldest_unpublished_seconds", "pipeline=shop", "table=lake.shop.orders"): 12.5,
        ("tidegate_valid_through_timestamp_seconds", "pipeline=shop", "table=lake.shop.orders"): 1767225600,
        ("tidegate_open_batches", "pipeline=shop", "table=lake.shop.orders"): 1,
        ("tidegate_last_batch_seconds", "pipeline=shop"): 2.25,
        ("tidegate_last_batch_rows", "change=deleted", "pipeline=shop"): 1,
        ("tidegate_last_batch_written_bytes", "pipeline=shop"): 9_007_199_254_740_992,
        ("tidegate_dead_letters", "pipeline=shop"): 4,
    }
    assert {name: samples.get(name) for name in expected} == expected


def test_lag_of_a_topic_that_is_not_there_is_a_gap_and_no_zero() -> None:
    gone = {**TABLE, "table": "lake.shop.Gone", "lag": 0, "lag_known": False, "lag_seconds": None}
    by_records = {**gone, "table": "lake.shop.b", "template": "lake.shop.{type}"}
    tables = [TABLE, gone, by_records, {**by_records, "table": "lake.shop.c", "lag": 2, "lag_known": True}]
    samples = read_samples([{**ROW, "tables": tables}])
    lags = {labels[1]: value for (name, *labels), value in samples.items() if name == "tidegate_table_lag_records"}
    assert lags == {"table=lake.shop.orders": 7, "table=lake.shop.{type}": 2}


def test_names_units_and_descriptions_are_those_that_dashboards_know() -> None:
    families = {family.name: family for family in text_string_to_metric_families(render_openmetrics([]))}
    assert list(families) == [name for name, _, _ in FAMILIES]
    for name, unit, description in FAMILIES:
        family = families[name]
        assert (family.type, family.unit, family.documentation) == ("gauge", unit, description)
    assert CONTENT_TYPE == "application/openmetrics-text; version=1.0.0; charset=utf-8"


def test_tables_that_records_name_are_one_with_the_worst_of_each_number() -> None:
    """Each of the thousands that a template makes was five time series for ever."""
    template = "lake.shop.{type}"
    tables = [
        {**TABLE, "table": f"lake.shop.{number}", "template": template, "lag": number % 7, "open_batches": number % 3,
         "lag_seconds": None if number % 2 else float(number), "valid_through": f"2026-01-01T00:{number:02}:00.000Z"}
        for number in range(1, 60)
    ]  # fmt: skip
    unknown = {**TABLE, "table": "lake.shop.x", "template": template, "lag_seconds": None, "valid_through": None}
    samples = read_samples([{**ROW, "tables": [TABLE, *tables, unknown]}])
    of_tables = {name: value for name, value in samples.items() if "table=lake.shop.orders" not in name}
    assert {name[0]: value for name, value in of_tables.items() if f"table={template}" in name} == {
        "tidegate_oldest_unpublished_seconds": 58,
        "tidegate_table_lag_records": 7,
        "tidegate_valid_through_timestamp_seconds": 1767225600 + 60,
        "tidegate_open_batches": 2,
        "tidegate_held_batches": 0,
    }
    assert {label for name in of_tables for label in name[1:] if label.startswith("table=")} == {f"table={template}"}
    assert samples["tidegate_table_lag_records", "pipeline=shop", "table=lake.shop.orders"] == 7


def test_size_that_nobody_knows_has_no_sample() -> None:
    samples = read_samples([{**ROW, "last_flush": {**FLUSH, "bytes_written": None}}])
    assert "tidegate_last_batch_written_bytes" not in list_names(samples)


def test_publications_have_families_of_their_own() -> None:
    last = {"at_ms": 1767225605500, "inserted": 3, "updated": 2, "deleted": 1}
    row = {"publication": "out", "state": "stuck", "snapshots_behind": 2, "rows_behind": 9, "behind_seconds": 1.5}
    failed_row = {"publication": "new", "state": "unknown", "error": "no answer"}
    samples = read_samples([ROW], [{**row, "last_run": last}, failed_row])
    expected: Samples = {
        ("tidegate_publication_up", "publication=out"): 1,
        ("tidegate_publication_up", "publication=new"): 0,
        ("tidegate_publication_state", "publication=out", "state=stuck"): 1,
        ("tidegate_publication_snapshots_behind", "publication=out"): 2,
        ("tidegate_publication_rows_behind", "publication=out"): 9,
        ("tidegate_publication_behind_seconds", "publication=out"): 1.5,
        ("tidegate_publication_last_run_timestamp_seconds", "publication=out"): 1767225605.5,
        ("tidegate_publication_last_run_records", "change=deleted", "publication=out"): 1,
    }
    assert {name: samples.get(name) for name in expected} == expected
    assert ("tidegate_publication_rows_behind", "publication=new") not in samples


def test_what_nobody_knows_is_left_out_and_not_zero() -> None:
    assert "tidegate_lag_seconds" not in list_names(read_samples([ROW]))


def test_pipeline_that_was_never_read_is_down_and_has_a_state() -> None:
    samples = read_samples([{"pipeline": "shop", "error": "the brokers do not answer", "state": "unknown"}])
    assert samples["tidegate_up", "pipeline=shop"] == 0
    assert samples["tidegate_pipeline_state", "pipeline=shop", "state=unknown"] == 1


def test_families_are_not_torn_apart_by_several_pipelines() -> None:
    """The parser refuses a family that comes twice."""
    samples = read_samples([ROW, {**ROW, "pipeline": "other"}])
    assert samples["tidegate_dead_letters", "pipeline=shop"] == samples["tidegate_dead_letters", "pipeline=other"] == 4


def test_labels_with_quotes_and_line_ends_stay_inside_their_quotes() -> None:
    name = 'a"b\\c\nd'
    assert read_samples([{**ROW, "pipeline": name}])["tidegate_dead_letters", f"pipeline={name}"] == 4
