"""The metrics as a scraper reads them: one family after the other, nothing made up, labels escaped."""

from typing import Any

from tidegate.monitoring.openmetrics import render_openmetrics

TABLE = {"table": "lake.shop.orders", "template": None, "lag": 7, "open_batches": 1, "lag_seconds": 12.5,
         "valid_through": "2026-01-01T00:00:00.000Z", "problem": None}  # fmt: skip
FLUSH = {"seconds": 2.25, "published_at": "2026-01-01T00:00:05.000Z", "inserted": 3, "updated": 2, "deleted": 1,
         "bytes_written": 4096}  # fmt: skip
ROW: dict[str, Any] = {
    "pipeline": "shop",
    "state": "catching up",
    "lag": 7,
    "tables": [TABLE],
    "partitions": [{"topic": "orders", "partition": 3, "lag": 7, "lag_seconds": None}],
    "last_flush": FLUSH,
    "dead_letters": 4,
}


def render_lines(*rows: dict[str, Any]) -> list[str]:
    return render_openmetrics(rows).splitlines()


def test_every_number_of_the_overview_has_its_sample() -> None:
    lines = render_lines(ROW)
    for line in (
        'tidegate_up{pipeline="shop"} 1',
        'tidegate_pipeline_state{pipeline="shop",state="catching up"} 1',
        'tidegate_pipeline_state{pipeline="shop",state="stuck"} 0',
        'tidegate_lag_records{pipeline="shop",topic="orders",partition="3"} 7',
        'tidegate_oldest_unpublished_seconds{pipeline="shop",table="lake.shop.orders"} 12.5',
        'tidegate_valid_through_timestamp_seconds{pipeline="shop",table="lake.shop.orders"} 1767225600',
        'tidegate_open_batches{pipeline="shop",table="lake.shop.orders"} 1',
        'tidegate_last_batch_seconds{pipeline="shop"} 2.25',
        'tidegate_last_batch_rows{pipeline="shop",change="deleted"} 1',
        'tidegate_last_batch_written_bytes{pipeline="shop"} 4096',
        'tidegate_dead_letters{pipeline="shop"} 4',
    ):
        assert line in lines
    assert lines[-1] == "# EOF"


def test_tables_that_records_name_are_one_with_the_worst_of_each_number() -> None:
    """Each of the thousands that a template makes was five time series for ever."""
    template = "lake.shop.{type}"
    tables = [
        {**TABLE, "table": f"lake.shop.{number}", "template": template, "lag": number % 7, "open_batches": number % 3,
         "lag_seconds": None if number % 2 else float(number), "valid_through": f"2026-01-01T00:{number:02}:00.000Z"}
        for number in range(1, 60)
    ]  # fmt: skip
    unknown = {**TABLE, "table": "lake.shop.x", "template": template, "lag_seconds": None, "valid_through": None}
    lines = [line for line in render_lines({**ROW, "tables": [TABLE, *tables, unknown]}) if 'table="' in line]
    label = f'{{pipeline="shop",table="{template}"}}'
    assert [line for line in lines if "orders" not in line] == [
        f"tidegate_oldest_unpublished_seconds{label} 58",
        f"tidegate_table_lag_records{label} 7",
        f"tidegate_valid_through_timestamp_seconds{label} {1767225600 + 60}",
        f"tidegate_open_batches{label} 2",
    ]
    assert 'tidegate_table_lag_records{pipeline="shop",table="lake.shop.orders"} 7' in lines


def test_size_that_nobody_knows_has_no_sample() -> None:
    lines = render_lines({**ROW, "last_flush": {**FLUSH, "bytes_written": None}})
    assert not [line for line in lines if line.startswith("tidegate_last_batch_written_bytes")]


def test_publications_have_families_of_their_own() -> None:
    last = {"at_ms": 1767225605500, "inserted": 3, "updated": 2, "deleted": 1}
    row = {"publication": "out", "state": "stuck", "snapshots_behind": 2, "rows_behind": 9, "behind_seconds": 1.5}
    failed_row = {"publication": "new", "state": "unknown", "error": "no answer"}
    openmetrics = render_openmetrics([ROW], [{**row, "last_run": last}, failed_row]).splitlines()
    for line in (
        'tidegate_publication_up{publication="out"} 1',
        'tidegate_publication_up{publication="new"} 0',
        'tidegate_publication_state{publication="out",state="stuck"} 1',
        'tidegate_publication_snapshots_behind{publication="out"} 2',
        'tidegate_publication_rows_behind{publication="out"} 9',
        'tidegate_publication_behind_seconds{publication="out"} 1.5',
        'tidegate_publication_last_run_timestamp_seconds{publication="out"} 1767225605.5',
        'tidegate_publication_last_run_records{publication="out",change="deleted"} 1',
    ):
        assert line in openmetrics
    assert not [line for line in openmetrics if line.startswith('tidegate_publication_rows_behind{publication="new"')]


def test_what_nobody_knows_is_left_out_and_not_zero() -> None:
    assert not [line for line in render_lines(ROW) if line.startswith("tidegate_lag_seconds{")]


def test_pipeline_that_was_never_read_is_down_and_has_a_state() -> None:
    lines = render_lines({"pipeline": "shop", "error": "the brokers do not answer", "state": "unknown"})
    assert 'tidegate_up{pipeline="shop"} 0' in lines
    assert 'tidegate_pipeline_state{pipeline="shop",state="unknown"} 1' in lines


def test_families_are_not_torn_apart_by_several_pipelines() -> None:
    names = [line.split("{")[0] for line in render_lines(ROW, {**ROW, "pipeline": "other"}) if not line.startswith("#")]
    runs = [name for name, before in zip(names, [None, *names], strict=False) if name != before]
    assert len(runs) == len(set(runs))


def test_labels_with_quotes_and_line_ends_stay_inside_their_quotes() -> None:
    assert r'tidegate_dead_letters{pipeline="a\"b\\c\nd"} 4' in render_lines({**ROW, "pipeline": 'a"b\\c\nd'})
