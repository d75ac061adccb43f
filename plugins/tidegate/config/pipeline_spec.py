"""Turns a checked pipeline file into the nouns of a record's journey; owns defaults that depend on other keys."""

from collections.abc import Collection, Iterable
from dataclasses import fields
from typing import Any

from pydantic import BaseModel

from tidegate.config.models.formats import KeyModel, ValueModel, get_options
from tidegate.config.models.pipeline import (
    MergeModel,
    NotifierModel,
    PipelineModel,
    SourceModel,
    StageModel,
    StartOffsets,
    StartTimestamp,
    TableModel,
)
from tidegate.config.models.sequence_groups import find_groups
from tidegate.config.models.settings import SparkModel, find_longest_pause
from tidegate.config.parsing.ddl import parse_columns
from tidegate.config.parsing.select_statement import parse_select
from tidegate.formats.registry import get_format
from tidegate.schema.data_types import Column
from tidegate.schema.inferred_types import Infer
from tidegate.spec.pipeline import Heartbeat, Merge, Notifier, Pipeline, RiskPolicy, RollbackPolicy, Stage
from tidegate.spec.runtime import Maintenance, Period, SparkMode, SparkTarget, UseWhen
from tidegate.spec.source import (
    Errors,
    KeyFormat,
    Source,
    Start,
    StartKind,
    ValueFormat,
    order_metadata,
)
from tidegate.spec.table import Create, DeleteMode, History, Route, Table
from tidegate.spec.table_template import is_template, split_template
from tidegate.sql.spark import unquote_path

PLAIN_TYPES = (str, str | None, int, int | None, bool, tuple[str, ...])
MAX_PENDING_BESIDE_MERGES = 1000


def to_pipeline(name: str, model: PipelineModel) -> Pipeline:
    """`model` has passed every check."""
    tables = tuple(_to_table(model, table) for table in model.tables)
    return Pipeline(
        name=name,
        source=_to_source(name, model.source),
        tables=tuple(table for table in tables if not is_template(table.name)),
        template=next((table for table in tables if is_template(table.name)), None),
        merge=_to_merge(model.merge),
        stage=_to_stage(model.stage),
        heartbeat=Heartbeat(
            interval_seconds=model.heartbeat.interval,
            kafka=model.heartbeat.kafka,
            **_copy_plain_keys(model.heartbeat, Heartbeat),
        ),
        maintenance=Maintenance(
            interval_seconds=model.maintenance.interval,
            compact=UseWhen(model.maintenance.compact),
            keep_snapshots_for_seconds=model.maintenance.keep_snapshots_for,
            orphans_older_than_seconds=model.maintenance.orphans_older_than,
            **_copy_plain_keys(model.maintenance, Maintenance),
        ),
        spark=to_spark_target(model.spark),
        freshness_target_seconds=model.freshness_target,
        complete=Period(model.complete) if model.complete else None,
        on_failure=_build_notifiers(model.on_failure),
        on_recovery=_build_notifiers(model.on_recovery),
        on_rollback=RollbackPolicy(model.on_rollback),
        on_partition_growth=RiskPolicy(model.on_partition_growth),
        on_incomplete_start=RiskPolicy(model.on_incomplete_start),
        **_copy_plain_keys(model, Pipeline),
    )


def _build_notifiers(entries: Iterable[NotifierModel]) -> tuple[Notifier, ...]:
    return tuple(Notifier(entry.notifier, dict(entry.kwargs)) for entry in entries)


def _copy_plain_keys(model: BaseModel, noun: type[Any], derived: Collection[str] = ()) -> dict[str, Any]:
    """Values of `noun` with the name of a key: text, numbers, flags and lists of text, but for `derived` ones."""
    plain_fields = {word.name for word in fields(noun) if word.type in PLAIN_TYPES} - {*derived}
    values = {name: getattr(model, name) for name in type(model).model_fields if name in plain_fields}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _to_merge(merge: MergeModel) -> Merge:
    cron = merge.interval if isinstance(merge.interval, str) else None
    return Merge(
        interval_seconds=merge.interval if isinstance(merge.interval, int) else find_longest_pause(merge.interval),
        cron=cron,
        batch_seconds=merge.batch_time,
        **_copy_plain_keys(merge, Merge),
    )


def _to_stage(stage: StageModel) -> Stage:
    if isinstance(stage.interval, str):
        return Stage(find_longest_pause(stage.interval), cron=stage.interval)
    return Stage(stage.interval)


def _to_source(pipeline: str, source: SourceModel) -> Source:
    return Source(
        kafka=source.kafka,
        group=source.group or f"tidegate-{pipeline}",
        start=_to_start(source),
        key=_to_key_format(source.key, source.value),
        value=_to_value_format(source.value),
        metadata=order_metadata(source.metadata),
        errors=_to_errors(source),
        **_copy_plain_keys(source, Source, derived=("group",)),
    )


def _to_errors(source: SourceModel) -> Errors:
    return Errors(source.errors.tolerance, source.errors.max_per_batch, source.errors.topic)


def _to_start(source: SourceModel) -> Start:
    if isinstance(source.start, StartTimestamp):
        return Start(StartKind.TIMESTAMP, timestamp_ms=round(source.start.timestamp.timestamp() * 1000))
    if isinstance(source.start, StartOffsets):
        return Start(StartKind.OFFSETS, offsets={topic: dict(at) for topic, at in source.start.offsets.items()})
    return Start(StartKind(source.start))


def _to_key_format(key: KeyModel, value: ValueModel) -> KeyFormat:
    columns = _resolve_key_columns(key, value)
    from_value = key.from_ == "value"
    return KeyFormat(
        format=key.format,
        fields=tuple(key.fields),
        prefix=key.prefix,
        columns=columns,
        options=to_format_options(key),
        into=key.into,
        from_value=from_value,
    )


def to_format_options(part: KeyModel | ValueModel) -> dict[str, Any]:
    """Options under the format's own name, without those left out."""
    format_spec = get_format(part.format)
    options_model = get_options(part, format_spec.options) if format_spec.options is not None else None
    known = None if format_spec.option_names is None else set(format_spec.option_names)
    options = {} if options_model is None else options_model.model_dump(include=known, exclude_none=True, by_alias=True)
    return {**options, **_truncate(part)}


def _truncate(part: KeyModel | ValueModel) -> dict[str, Any]:
    truncation = part.truncate if isinstance(part, ValueModel) else "refuse"
    return {} if truncation == "refuse" else {"truncate": truncation}


def _resolve_key_columns(key: KeyModel, value: ValueModel) -> tuple[Column, ...] | None:
    """From the key's own schema, else the value's columns of the same names; None: from the destination at run time."""
    if key.schema_ is not None:
        return parse_columns(key.schema_)
    if not key.fields:
        return None
    if value.schema_ is None:
        return _infer_only_column(key.format, key.fields[0])
    in_value = {column.name.casefold(): column for column in parse_columns(value.schema_)}
    if not key.prefix and all(name.casefold() in in_value for name in key.fields):
        return tuple(Column(n, in_value[n.casefold()].type, in_value[n.casefold()].nullable) for n in key.fields)
    return _infer_only_column(key.format, key.fields[0])


def _infer_only_column(word: str, name: str) -> tuple[Column, ...] | None:
    only = get_format(word).only_column
    return None if only is None else (Column(name, only),)


def _to_value_format(value: ValueModel) -> ValueFormat:
    columns = _infer_only_column(value.format, "value") if value.schema_ is None else parse_columns(value.schema_)
    own_value = value.unavailable_value
    usual = get_format(value.format).unavailable_value
    unavailable = usual if own_value is None else own_value
    options = to_format_options(value)
    unit = value.timestamp_unit
    stated: str | dict[str, str] | None = {**unit} if isinstance(unit, dict) else unit
    finer: str | dict[str, str] = {**value.nanoseconds} if isinstance(value.nanoseconds, dict) else value.nanoseconds
    return ValueFormat(
        format=value.format,
        columns=columns,
        fields_include=value.fields_include,
        timestamp_unit=stated,
        options=options,
        unavailable=unavailable or None,
        nanoseconds=finer,
        unknown_fields=value.unknown_fields,
        infer=Infer(**value.infer.model_dump()),
    )


def _to_table(model: PipelineModel, table: TableModel) -> Table:
    source = model.source
    key = table.key or source.key
    value = table.value or source.value
    keyed = bool(key.fields)
    return Table(
        topics=tuple(source.topics if table.topics is None else table.topics),
        key=_to_key_format(key, value),
        value=_to_value_format(value),
        upsert=keyed if table.upsert is None else table.upsert,
        delete=keyed if table.delete is None else table.delete,
        route=_to_route(table),
        deletes=DeleteMode(table.deletes),
        partial_updates=bool(table.partial_updates),
        sequence_groups=find_groups(table),
        tombstone_retention_seconds=table.tombstone_retention,
        create=Create(
            enabled=table.create.enabled,
            partition_by=tuple(table.create.partition_by),
            cluster_by=tuple(map(unquote_path, table.create.cluster_by)),
            properties=dict(table.create.properties),
            force_optional=table.create.force_optional,
            partition_time=model.merge.partition_time,
        ),
        add_columns=table.evolve.add_columns,
        widen=table.evolve.widen,
        relax=table.evolve.relax,
        max_pending=_choose_max_pending(table, model.stage),
        namespaces=_list_namespaces(table),
        last_per_key=UseWhen(table.last_per_key),
        errors=_to_errors(source),
        history=History(**table.history_columns.model_dump()) if table.history == "scd2" else None,
        select=None if table.select is None else parse_select(table.select),
        topic_column=table.find_topic_in_key(source.metadata) or "",
        **_copy_plain_keys(
            table, Table, derived=("topics", "upsert", "delete", "partial_updates", "namespaces", "max_pending")
        ),
    )


def _choose_max_pending(table: TableModel, stage: StageModel) -> int:
    if stage.interval is None or "max_pending" in table.model_fields_set:
        return table.max_pending
    # with a clock of staging all waiting batches are one merge: an hour's, one each 4 s, is no long queue
    return MAX_PENDING_BESIDE_MERGES


def _list_namespaces(table: TableModel) -> tuple[str, ...]:
    own_namespace = split_template(table.name.partition(".")[2])[0]
    return tuple(table.namespaces) or ((own_namespace,) if is_template(table.name) else ())


def _to_route(table: TableModel) -> Route | None:
    if table.route is None:
        return None
    identifier = table.name.partition(".")[2]
    # without a pattern the field holds the table's name, with its namespace or without
    names = (identifier, identifier.rpartition(".")[2]) if table.route.pattern is None else ()
    return Route(table.route.field, table.route.pattern, names)


def to_spark_target(spark: SparkModel) -> SparkTarget:
    """A master in the file means spark-submit."""
    mode = SparkMode.SUBMIT if spark.master is not None else SparkMode(spark.mode)
    return SparkTarget(
        mode=mode, connection=spark.connection, remote=spark.remote, master=spark.master, conf=dict(spark.conf)
    )
