"""Proposes a table from the sample of one topic: format, columns, key and mode."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.errors import GiveUp
from tidegate.formats.registry import Encoding, RecordFormat
from tidegate.model.counts import format_count
from tidegate.sampling.column_types import Observed, ProposedColumn, propose_columns
from tidegate.sampling.keys import ProposedKey, propose_event_key, propose_named_key, propose_record_key
from tidegate.sampling.recognition import (
    Recognition,
    Row,
    find_delimiter,
    find_format,
    find_in,
    list_rows,
    read_cells,
    recognise,
    split_sample,
    to_table_name,
)
from tidegate.sampling.samples import PlacedCheck, TopicSample
from tidegate.sampling.stated_types import read_stated_columns

DELETED_FIELDS = {"__deleted": "__deleted = 'true'", "op_type": "op_type = 'D'"}  # of flattened events
FEW_RECORDS = 20
COMPACTED_CHECK = (
    "compacted: where only the tombstone of a delete is left, nobody knows whose it is, and it deletes nothing"
)


@dataclass(frozen=True)
class Registered:
    """The format of keys or values that a registry states, with its options and the columns of the latest schema."""

    format: RecordFormat
    options: dict[str, Any]
    columns: tuple[ProposedColumn, ...]
    checks: tuple[str, ...] = ()


Lookup = Callable[[TopicSample, str, Recognition], Registered]


@dataclass(frozen=True)
class ProposedValue:
    """How values are read. `is_stated`: the registry has the columns, so the file does not list them."""

    format: RecordFormat
    columns: tuple[ProposedColumn, ...]
    options: dict[str, Any] = field(default_factory=dict)
    is_stated: bool = False
    remark: str = ""
    rows: tuple[Row, ...] = ()
    checks: tuple[PlacedCheck, ...] = ()


@dataclass(frozen=True)
class ProposedTable:
    """One table with the topic that feeds it."""

    name: str
    sample: TopicSample
    value: ProposedValue
    key: ProposedKey
    tombstones: int
    delete_when: str = ""
    source_table: str = ""  # of a topic with the changes of several
    checks: tuple[PlacedCheck, ...] = ()

    @property
    def is_keyed(self) -> bool:
        return bool(self.key.fields)


def propose_tables(
    sample: TopicSample, name: str, lookup: Lookup, key_fields: Sequence[str]
) -> tuple[ProposedTable, ...]:
    """The table `name`; for a topic with changes of several source tables one for each, named beside it."""
    samples = split_sample(sample)
    if not samples:
        return (propose_table(sample, name, lookup, key_fields),)
    recognised = recognise(sample, "value")
    place = name.rpartition(".")[0]
    checks = [*recognised.checks] if recognised else []
    if sample.is_compacted:
        checks.append(PlacedCheck(f"topic={sample.topic}", COMPACTED_CHECK))
    tables = []
    for source_table, part in samples.items():
        table = propose_table(part, f"{place}.{to_table_name(source_table)}", lookup)
        if {*key_fields} <= {column.name for column in table.value.columns} and key_fields:
            table = propose_table(part, table.name, lookup, key_fields)
        # what is said of the topic is said of the part of it that this table is
        own_checks = (
            PlacedCheck("tables", check.text) if check.place.startswith("topic=") else check for check in table.checks
        )
        tables.append(replace(table, source_table=source_table, checks=(*checks, *own_checks)))
        checks = []
    return tuple(tables)


def propose_table(sample: TopicSample, name: str, lookup: Lookup, key_fields: Sequence[str] = ()) -> ProposedTable:
    """`GiveUp` if the sample allows no conclusion."""
    recognised = recognise(sample, "value")
    tombstones = sum(record.value is None for record in sample.records)
    if recognised is None:
        raise GiveUp(
            f"topic={sample.topic}: all of {sample.size} are tombstones, which show no format; wait until there are "
            "records with a value, or write the file by hand"
        )
    value = _propose_value(sample, recognised, lookup)
    by_name = {column.name: column for column in value.columns}
    key = _propose_key(sample, value, by_name, lookup, key_fields)
    delete_when = _find_delete_condition(value, key)
    table = ProposedTable(
        name=name,
        sample=sample,
        value=value,
        key=key,
        tombstones=tombstones,
        delete_when=delete_when,
    )
    return replace(table, checks=(*_list_sample_checks(table), *value.checks, *_list_key_checks(table)))


def _propose_value(sample: TopicSample, recognised: Recognition, lookup: Lookup) -> ProposedValue:
    values = sum(record.value is not None for record in sample.records)
    look = recognised.look
    share = f"{len(recognised.looks)} of {format_count(values, 'value')}: "
    if look.encoding is Encoding.SCHEMA:
        registered = lookup(sample, "value", recognised)
        placed_checks = (*recognised.checks, *(PlacedCheck("value", check) for check in registered.checks))
        source = (registered.format, registered.columns, registered.options)
        remark = share + look.kind
        return ProposedValue(*source, is_stated=True, remark=remark, checks=placed_checks)
    texts = [look.text for look in recognised.looks] if look.encoding is Encoding.TEXT else []
    is_line = bool(texts) and not any(isinstance(look.data, list) for look in recognised.looks)
    delimiter, width = find_delimiter(texts) if is_line else ("", 0)
    record_format = look.event or find_format(Encoding.SEPARATED if delimiter else look.encoding)
    rows = tuple(list_rows(recognised, delimiter, width))
    columns, problems = _propose_columns(rows, recognised)
    checks: list[PlacedCheck] = [*recognised.checks, *(PlacedCheck("value.schema", problem) for problem in problems)]
    checks += [PlacedCheck(f"value.schema {column.name}", check) for column in columns for check in column.checks]
    options: dict[str, Any] = {}
    if look.is_enveloped and look.event is None:
        options = {"json": {"envelope": True}}
    if delimiter:
        options = {"csv": {"delimiter": delimiter}} if delimiter != "," else {}
        problem = f"taken for CSV without names: the {width} columns are called c1 to c{width}; rename them"
        checks.append(PlacedCheck("value.schema", f"{problem}, or set format: string if this is plain text"))
        if misfit_count := len(texts) - len(rows):
            problem = f"{misfit_count} of {len(texts)} lines have not {width} columns"
            checks.append(PlacedCheck(f"topic={sample.topic} value", problem))
    checks += [*_list_event_checks(rows, record_format), *_list_opaque_checks(recognised)]
    remark = share + look.kind
    return ProposedValue(record_format, tuple(columns), options, remark=remark, rows=rows, checks=tuple(checks))


def _propose_columns(rows: Sequence[Row], recognised: Recognition) -> tuple[list[ProposedColumn], list[str]]:
    # deleted rows may have only the key
    live = [row for row in rows if not row.is_deleted] or rows
    look = recognised.look
    stated = read_stated_columns(live)
    data = [row.data for row in live]
    if look.event is not None and look.event.is_flat:
        data = read_cells(data)
    keeps_text = look.encoding is not Encoding.PACKED
    layout = look.event.event if look.event else None
    return propose_columns(
        Observed(data), stated, keeps_text=keeps_text, may_lack=bool(look.event and look.event.may_leave_out and layout)
    )


def _list_event_checks(rows: Sequence[Row], record_format: RecordFormat) -> list[PlacedCheck]:
    layout = record_format.event
    if layout is None:
        return []
    tables = {str(name) for row in rows if (name := find_in(row.look.data, layout.table)) is not None}
    if len(tables) < 2:
        return []
    names = ", ".join(sorted(tables)[:10])
    problem = (
        f"changes of {len(tables)} source tables ({names}) would be mixed in one; give each its own entry with `when`"
    )
    return [PlacedCheck("tables", problem)]


def _list_opaque_checks(recognised: Recognition) -> list[PlacedCheck]:
    look = recognised.look
    looks = recognised.looks
    if look.encoding is Encoding.BYTES:
        problem = "no format explains these bytes: bare Avro needs avro.schema, bare Protobuf protobuf.descriptor"
        widths = {len(look.data) for look in looks}
        number = "; all are of one length: a number is declared by its type, e.g. BIGINT or DOUBLE"
        return [PlacedCheck("value", problem + (number if widths <= {1, 2, 4, 8} and len(widths) == 1 else ""))]
    lists = sum(isinstance(look.data, list) for look in looks) if look.encoding is Encoding.TEXT else 0
    number = "1 value is a JSON list" if lists == 1 else f"{lists} values are JSON lists"
    problem = f"{number}, of which no format makes rows; kept as text"
    return [PlacedCheck("value", problem)] if lists else []


def _propose_key(
    sample: TopicSample,
    value: ProposedValue,
    columns: Mapping[str, ProposedColumn],
    lookup: Lookup,
    fields: Sequence[str],
) -> ProposedKey:
    recognised = recognise(sample, "key")
    if fields:
        key_data = recognised.look.data if recognised else None
        is_in_key = isinstance(key_data, dict) and {*fields} <= key_data.keys() and {*fields} <= columns.keys()
        named_key = propose_named_key(fields, columns, is_in_key)
        return replace(named_key, from_value=not is_in_key and not value.format.holds_several_rows)
    if value.format.holds_several_rows and value.rows:
        return propose_event_key(recognised, value.rows)
    if recognised is None:
        return ProposedKey()
    keyless_records = sum(record.key is None for record in sample.records)
    if 2 * keyless_records > len(sample.records):
        check = f"{keyless_records} of {format_count(len(sample.records), 'record')} have no key, so that none is used"
        return ProposedKey(checks=(check,))
    checks = tuple(f"{check.text}" for check in recognised.checks)
    if recognised.look.encoding is Encoding.SCHEMA:
        registered = lookup(sample, "key", recognised)
        names = tuple(column.name for column in registered.columns)
        key = ProposedKey(
            names, registered.format.name, registered.options, (), remarks=("the key's registered schema",)
        )
        return _settle_registered(replace(key, checks=(*checks, *registered.checks)), registered, value)
    key = propose_record_key(recognised, value.rows, columns)
    return replace(key, checks=(*checks, *key.checks))


def _settle_registered(key: ProposedKey, registered: Registered, value: ProposedValue) -> ProposedKey:
    types = {column.name.casefold(): (column.name, column.type) for column in value.columns}
    for column in registered.columns:
        # key and value need one type and spelling of a column, or the key gets a prefix
        value_column = types.get(column.name.casefold(), (column.name, column.type))
        if value_column != (column.name, column.type):
            check = f"{column.name} is {column.type} in the key and {value_column[0]} {value_column[1]} in the value"
            return replace(key, prefix="key_", checks=(*key.checks, f"{check}; the key's columns are called key_…"))
    return key


def _find_delete_condition(value: ProposedValue, key: ProposedKey) -> str:
    if not key.fields or value.format.is_change_event:
        return ""
    types = {column.name: column.type for column in value.columns}
    if types.get("__deleted") == "BOOLEAN":
        return "__deleted"
    return next((text for name, text in DELETED_FIELDS.items() if types.get(name) == "STRING"), "")


def _list_sample_checks(table: ProposedTable) -> list[PlacedCheck]:
    sample = table.sample
    place = f"topic={table.sample.topic}"
    checks = []
    if len(sample.records) < FEW_RECORDS:
        problem = f"only {format_count(len(sample.records), 'record')} could be looked at; types may change"
        checks.append(PlacedCheck(place, problem))
    if sample.stopped_by:
        checks.append(PlacedCheck(place, f"sampling ended early, by {sample.stopped_by}; what was not read may differ"))
    if table.delete_when:
        checks.append(PlacedCheck("tables.delete_when", f"rows with {table.delete_when} are taken for deletes"))
    return checks


def _list_key_checks(table: ProposedTable) -> list[PlacedCheck]:
    sample = table.sample
    key = table.key
    checks = [PlacedCheck("key", check) for check in key.checks]
    records = [record for record in sample.records if record.key is not None]
    keyless_records = len(sample.records) - len(records)
    if not table.is_keyed:
        basis = "is used" if key.checks else f"in {sample.size}"
        problem = f"no key {basis}: every record is appended, and none is ever updated or deleted"
        checks.append(PlacedCheck("tables.upsert", f"{problem}; name the key with --key, if the values have one"))
        if table.tombstones:
            seen = f"{format_count(table.tombstones, 'tombstone')} {'was' if table.tombstones == 1 else 'were'} seen"
            checks.append(PlacedCheck("tables.delete", f"{seen}, and there is no key"))
        return checks
    if keyless_records and not key.from_value and not table.value.format.holds_several_rows:
        problem = f"{keyless_records} of {format_count(len(sample.records), 'record')} have no key"
        checks.append(PlacedCheck("key", problem))
    distinct = len({record.key for record in records})
    is_log = not (table.value.format.is_change_event or table.tombstones or sample.is_compacted)
    if is_log and 0 < distinct < len(records):
        problem = f"{len(records)} records have {format_count(distinct, 'key')}, and upsert keeps the last of each"
        remedy = "if each record is an event of its own, set upsert and delete: false"
        checks.append(PlacedCheck("tables.upsert", f"{problem}; {remedy}"))
    return checks
