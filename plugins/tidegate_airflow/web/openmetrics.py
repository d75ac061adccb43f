"""The overview of all pipelines as OpenMetrics text, for Prometheus and all that read its format."""

from collections.abc import Iterable
from datetime import datetime
from itertools import chain
from types import SimpleNamespace
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from tidegate.monitoring.health import WORST_FIRST
from tidegate.monitoring.reports import PipelineRow, PublicationRow, TableOverview
from tidegate.monitoring.status import count_wrong

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
Sample = tuple[str, dict[str, Any], float]
# name, unit, description
FAMILIES = (
    ("tidegate_up", "", "1 where brokers and catalog answer and the pipeline file is right"),
    ("tidegate_pipeline_state", "", "1 for the state that the pipeline is in"),
    ("tidegate_lag_records", "", "offsets of a partition that not all tables have come to"),
    ("tidegate_lag_seconds", "seconds", "age of a partition's first record that is not published"),
    ("tidegate_oldest_unpublished_seconds", "seconds", "age of a table's first record that is not published"),
    ("tidegate_table_lag_records", "", "offsets that a table has not come to"),
    ("tidegate_table_unstaged_records", "", "offsets that neither a table nor its queue of staged batches has come to"),
    ("tidegate_oldest_unstaged_seconds", "seconds", "age of a table's first record that is not staged"),
    ("tidegate_valid_through_timestamp_seconds", "seconds", "record time up to which a table is complete"),
    ("tidegate_open_batches", "", "batches of a table that are staged and not published"),
    ("tidegate_held_batches", "", "1 where a batch of the table waits for an approval"),
    ("tidegate_verified_differences", "", "keys that the last verification found wrong in a table"),
    ("tidegate_last_batch_seconds", "seconds", "how long the merges of the last batch took"),
    ("tidegate_last_batch_stage_seconds", "seconds", "how long the stage job of the last batch took"),
    ("tidegate_last_batch_timestamp_seconds", "seconds", "when the last batch was published"),
    ("tidegate_last_batch_rows", "", "rows that the last batch changed, by what happened to them"),
    ("tidegate_last_batch_written_bytes", "bytes", "size of the data and delete files that the last batch added"),
    ("tidegate_last_batch_unknown_records", "", "records of the last batch with fields that no column holds"),
    ("tidegate_dead_letters", "", "records that wait in the dead-letter table"),
    ("tidegate_publication_up", "", "1 where brokers and catalog answer and the publication file is right"),
    ("tidegate_publication_state", "", "1 for the state that the publication is in"),
    ("tidegate_publication_snapshots_behind", "", "snapshots that changed rows and are not published"),
    ("tidegate_publication_rows_behind", "", "at most how many changed rows are not published"),
    ("tidegate_publication_behind_seconds", "seconds", "age of the oldest snapshot that is not published"),
    ("tidegate_publication_last_run_timestamp_seconds", "seconds", "when the last run recorded its progress"),
    ("tidegate_publication_last_run_records", "", "records that the last run produced, by what happened to the row"),
)


def render_openmetrics(rows: Iterable[PipelineRow], publications: Iterable[PublicationRow] = ()) -> str:
    """Render all metrics; `publications` are their status, with `state` and maybe an `error`."""
    families = {name: GaugeMetricFamily(name, description, unit=unit) for name, unit, description in FAMILIES}
    for name, labels, value in (
        *chain.from_iterable(map(_sample_pipeline, rows)),
        *chain.from_iterable(map(_sample_publication, publications)),
    ):
        families[name].add_sample(name, {label: str(text) for label, text in labels.items()}, value)
    text: bytes = generate_latest(SimpleNamespace(collect=families.values))  # type: ignore[no-untyped-call]
    return text.decode()


def _sample_pipeline(row: PipelineRow) -> Iterable[Sample]:
    me = {"pipeline": row["pipeline"]}
    yield "tidegate_up", me, float(not row.get("error"))
    for state in WORST_FIRST:
        yield "tidegate_pipeline_state", {**me, "state": state}, float(row["state"] == state)
    if "lag" not in row:
        return
    for part in row["partitions"]:
        labels = {**me, "topic": part["topic"], "partition": part["partition"]}
        yield "tidegate_lag_records", labels, part["lag"]
        yield from _sample_known("tidegate_lag_seconds", labels, part["lag_seconds"])
    for table in _join_tables_of_templates(row["tables"]):
        yield from _sample_table({**me, "table": table["table"]}, table)
    yield from _sample_known("tidegate_dead_letters", me, row["dead_letters"])
    if last := row["last_flush"]:
        yield "tidegate_last_batch_seconds", me, last["seconds"]
        yield from _sample_known("tidegate_last_batch_stage_seconds", me, last.get("stage_seconds"))
        yield from _sample_known("tidegate_last_batch_timestamp_seconds", me, _to_seconds(last["published_at"]))
        for change in ("inserted", "updated", "deleted"):
            yield "tidegate_last_batch_rows", {**me, "change": change}, last[change]
        yield "tidegate_last_batch_unknown_records", me, last["unknown_records"]
        yield from _sample_known("tidegate_last_batch_written_bytes", me, last["bytes_written"])


def _sample_publication(row: PublicationRow) -> Iterable[Sample]:
    me = {"publication": row["publication"]}
    yield "tidegate_publication_up", me, float(not row.get("error"))
    for state in WORST_FIRST:
        yield "tidegate_publication_state", {**me, "state": state}, float(row["state"] == state)
    if "snapshots_behind" not in row:
        return
    yield "tidegate_publication_snapshots_behind", me, row["snapshots_behind"]
    yield "tidegate_publication_rows_behind", me, row["rows_behind"]
    yield from _sample_known("tidegate_publication_behind_seconds", me, row["behind_seconds"])
    if last := row["last_run"]:
        yield "tidegate_publication_last_run_timestamp_seconds", me, last["at_ms"] / 1000
        for change in ("inserted", "updated", "deleted"):
            yield "tidegate_publication_last_run_records", {**me, "change": change}, last[change]


def _sample_table(labels: dict[str, Any], table: TableOverview) -> Iterable[Sample]:
    yield from _sample_known("tidegate_table_lag_records", labels, table["lag"] if table["lag_known"] else None)
    yield "tidegate_open_batches", labels, table["open_batches"]
    yield from _sample_known("tidegate_oldest_unpublished_seconds", labels, table["lag_seconds"])
    yield from _sample_known("tidegate_valid_through_timestamp_seconds", labels, _to_seconds(table["valid_through"]))
    yield "tidegate_held_batches", labels, float(table.get("held") is not None)
    if verified := table.get("verified"):
        yield "tidegate_verified_differences", labels, float(count_wrong(verified))
    if staging := table.get("staging"):
        yield "tidegate_table_unstaged_records", labels, staging["lag"]
        yield from _sample_known("tidegate_oldest_unstaged_seconds", labels, staging["lag_seconds"])


def _join_tables_of_templates(tables: Iterable[TableOverview]) -> Iterable[TableOverview]:
    # records make thousands of tables, and each would be time series for ever
    named_by_records: dict[str, list[TableOverview]] = {}
    for table in tables:
        if table["template"] is None:
            yield table
        else:
            named_by_records.setdefault(table["template"], []).append(table)
    for template, members in named_by_records.items():
        ages = [member["lag_seconds"] for member in members if member["lag_seconds"] is not None]
        stagings = [staging for member in members if (staging := member.get("staging")) is not None]
        moments = [member["valid_through"] for member in members if member["valid_through"] is not None]
        yield {
            **members[0],
            "table": template,
            "lag": max(member["lag"] for member in members),
            "lag_known": any(member["lag_known"] for member in members),
            "open_batches": max(member["open_batches"] for member in members),
            "lag_seconds": max(ages, default=None),
            "staging": max(stagings, key=lambda staging: (staging["lag_seconds"] or 0.0, staging["lag"]), default=None),
            "valid_through": min(moments, default=None),
        }


def _sample_known(name: str, labels: dict[str, Any], value: float | None) -> Iterable[Sample]:
    # a gap is seen, a zero would look well
    if value is not None:
        yield name, labels, value


def _to_seconds(moment: str | None) -> float | None:
    return None if moment is None else datetime.fromisoformat(moment).timestamp()
