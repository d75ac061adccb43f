"""Turns a checked pipeline file into the nouns of a record's journey; owns defaults that depend on other keys."""

from collections.abc import Iterable
from dataclasses import fields, replace
from enum import EnumType
from typing import Any, TypeVar, cast, get_args, get_type_hints

from pydantic import BaseModel

from tidegate.config.models.formats import KeyModel, ValueModel, get_options
from tidegate.config.models.pipeline import (
    ApproveModel,
    NotifierModel,
    PipelineModel,
    SourceModel,
    StartOffsets,
    StartTimestamp,
    TableModel,
)
from tidegate.config.models.settings import SparkModel, find_longest_pause
from tidegate.config.models.table_entry import TableEntry
from tidegate.config.parsing.ddl import parse_columns
from tidegate.formats.registry import get_format
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Merge, Notifier, Pipeline, Stage
from tidegate.spec.runtime import SparkMode, SparkTarget
from tidegate.spec.source import Errors, KeyFormat, Source, Start, StartKind, ValueFormat, order_metadata
from tidegate.spec.table import Approve, Create, History, Route, Table
from tidegate.spec.table_template import is_template, split_template
from tidegate.sql.spark import unquote_path

MAX_PENDING_BESIDE_MERGES = 1000
Noun = TypeVar("Noun")


def to_noun(noun: type[Noun], model: BaseModel, **given: Any) -> Noun:
    """A dataclass with the model's values of the same names, in its own types; `given` ones win.

    Enumerations, tuples and dataclasses inside of it are made in the same way. `…_seconds` is filled by a duration.
    """
    types = get_type_hints(noun)
    for field in fields(cast("Any", noun)):
        key = field.name.removesuffix("_seconds")
        if field.name not in given and key in type(model).model_fields:
            given[field.name] = _convert(getattr(model, key), types[field.name])
    return noun(**given)


def _convert(value: Any, target: Any) -> Any:
    if isinstance(value, BaseModel):
        return to_noun(target, value)
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, dict):
        return dict(value)
    words = next((kind for kind in (target, *get_args(target)) if isinstance(kind, EnumType)), None)
    return value if words is None or value is None else words(value)


def to_pipeline(name: str, model: PipelineModel, entries: Iterable[TableEntry]) -> Pipeline:
    """`entries` are the model's tables; all have passed every check."""
    tables = tuple(map(_to_table, entries))
    return to_noun(
        Pipeline,
        model,
        name=name,
        source=_to_source(name, model.source),
        tables=tuple(table for table in tables if not is_template(table.name)),
        template=next((table for table in tables if is_template(table.name)), None),
        merge=to_noun(Merge, model.merge, **_to_clock(model.merge.interval)),
        stage=Stage() if model.stage.interval is None else Stage(**_to_clock(model.stage.interval)),
        spark=to_spark_target(model.spark),
        on_failure=_build_notifiers(model.on_failure),
        on_recovery=_build_notifiers(model.on_recovery),
    )


def _to_clock(interval: int | str) -> dict[str, Any]:
    if isinstance(interval, int):
        return {"interval_seconds": interval}
    return {"interval_seconds": find_longest_pause(interval), "cron": interval}


def _build_notifiers(entries: Iterable[NotifierModel]) -> tuple[Notifier, ...]:
    return tuple(Notifier(entry.notifier, dict(entry.kwargs)) for entry in entries)


def _to_source(pipeline: str, source: SourceModel) -> Source:
    return to_noun(
        Source,
        source,
        group=source.group or f"tidegate-{pipeline}",
        start=_to_start(source),
        key=_to_key_format(source.key, source.value),
        value=_to_value_format(source.value),
    )


def _to_start(source: SourceModel) -> Start:
    if isinstance(source.start, StartTimestamp):
        return Start(StartKind.TIMESTAMP, timestamp_ms=source.start.timestamp_ms)
    if isinstance(source.start, StartOffsets):
        return Start(StartKind.OFFSETS, offsets={topic: dict(at) for topic, at in source.start.offsets.items()})
    return Start(StartKind(source.start))


def _to_key_format(key: KeyModel, value: ValueModel) -> KeyFormat:
    return to_noun(
        KeyFormat,
        key,
        columns=_resolve_key_columns(key, value),
        options=_to_format_options(key),
        from_value=key.from_ == "value",
    )


def _to_format_options(part: KeyModel | ValueModel) -> dict[str, Any]:
    """What the job needs of the options beside `format`, secrets apart: those are connection ids."""
    format_spec = get_format(part.format)
    options_model = get_options(part, format_spec.options) if format_spec.options is not None else None
    known = None if format_spec.option_names is None else set(format_spec.option_names)
    options = {} if options_model is None else options_model.model_dump(include=known, exclude_none=True, by_alias=True)
    if isinstance(part, ValueModel) and part.truncate != "refuse":
        options["truncate"] = part.truncate
    return options


def _resolve_key_columns(key: KeyModel, value: ValueModel) -> tuple[Column, ...] | None:
    """From the key's own schema, else the value's columns of the same names; None: from the destination at run time."""
    if key.schema_ is not None:
        return parse_columns(key.schema_)
    if not key.fields:
        return None
    in_value = {column.name.casefold(): column for column in parse_columns(value.schema_)} if value.schema_ else {}
    if not key.prefix and all(name.casefold() in in_value for name in key.fields):
        return tuple(replace(in_value[name.casefold()], name=name) for name in key.fields)
    return _infer_only_column(key.format, key.fields[0])


def _infer_only_column(word: str, name: str) -> tuple[Column, ...] | None:
    only = get_format(word).only_column
    return None if only is None else (Column(name, only),)


def _to_value_format(value: ValueModel) -> ValueFormat:
    usual = get_format(value.format).unavailable_value
    return to_noun(
        ValueFormat,
        value,
        columns=_infer_only_column(value.format, "value") if value.schema_ is None else parse_columns(value.schema_),
        options=_to_format_options(value),
        unavailable=(usual if value.unavailable_value is None else value.unavailable_value) or None,
    )


def _to_table(entry: TableEntry) -> Table:
    model = entry.model
    source = model.source
    table = entry.table
    own_namespace = split_template(table.name.partition(".")[2])[0]
    # with a clock of staging all waiting batches are one merge: an hour's, one each 4 s, is no long queue
    has_long_queue = model.stage.interval is not None and "max_pending" not in table.model_fields_set
    return to_noun(
        Table,
        table,
        topics=tuple(source.topics if table.topics is None else table.topics),
        key=_to_key_format(entry.key, entry.value),
        value=_to_value_format(entry.value),
        upsert=entry.upserts,
        delete=entry.deletes,
        route=_to_route(table),
        partial_updates=bool(table.partial_updates),
        sequence_groups=table.groups,
        create=to_noun(
            Create,
            table.create,
            cluster_by=tuple(map(unquote_path, table.create.cluster_by)),
            partition_time=model.merge.partition_time,
        ),
        max_pending=MAX_PENDING_BESIDE_MERGES if has_long_queue else table.max_pending,
        namespaces=tuple(table.namespaces) or ((own_namespace,) if is_template(table.name) else ()),
        errors=to_noun(Errors, source.errors),
        history=to_noun(History, table.history_columns) if table.history == "scd2" else None,
        select=entry.select,
        metadata=order_metadata(source.metadata),
        topic_column=entry.topic_column or "",
        approve=_to_approve(table.approve),
        **dict(table.evolve),
    )


def _to_approve(model: ApproveModel | None) -> Approve | None:
    if model is None:
        return None
    deletes = model.deletes_over
    return Approve(
        deletes_over=deletes if isinstance(deletes, int) else None,
        deletes_over_percent=float(deletes.removesuffix("%")) if isinstance(deletes, str) else None,
        rows_over=model.rows_over,
        holds_schema=model.schema_ is not None,
        when=model.when,
    )


def _to_route(table: TableModel) -> Route | None:
    if table.route is None:
        return None
    identifier = table.name.partition(".")[2]
    # without a pattern the field holds the table's name, with its namespace or without
    names = (identifier, identifier.rpartition(".")[2]) if table.route.pattern is None else ()
    return Route(table.route.field, table.route.pattern, names)


def to_spark_target(spark: SparkModel) -> SparkTarget:
    """A master in the file means spark-submit."""
    return to_noun(SparkTarget, spark, mode=SparkMode.SUBMIT if spark.master is not None else SparkMode(spark.mode))
