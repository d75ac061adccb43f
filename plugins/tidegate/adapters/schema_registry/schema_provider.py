"""Gives a table the columns and the decoding of its Avro or Protobuf key and value: from a registry, or from a file."""

from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tidegate.adapters.schema_registry import protobuf_descriptors
from tidegate.adapters.schema_registry.client import (
    UNREADABLE,
    ApicurioRegistry,
    Registry,
    Version,
    is_apicurio,
    resolve_registry_settings,
)
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError
from tidegate.formats.registry import SchemaKind, get_format
from tidegate.schema import avro, json_schema
from tidegate.schema.avro_resolution import find_missing_key_field, plan_decoding
from tidegate.schema.avro_versions import join_records
from tidegate.schema.data_types import MAX_PRECISION, Column, Primitive, format_type, parse_type
from tidegate.schema.protobuf import to_column_type
from tidegate.schema.wire_format import APICURIO_HEADERS, CONFLUENT_HEADER, KEYLESS, OTHER_IDS, PLACES, WIRE
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Table

REGISTRY_OPTION = "registry"
# without loss; a time without a zone is one of UTC, as the session's is
LOSSLESS_WIDENINGS = {("INT", "BIGINT"), ("FLOAT", "DOUBLE"), ("INT", "DOUBLE"), ("TIMESTAMP_NTZ", "TIMESTAMP")}
RecordParts = tuple[KeyFormat, ValueFormat]

MISSING_ID_REASONS = {
    "confluent-header": "the registry has no GUIDs of its schemas; Confluent's from version 8 on do",
    "apicurio-header": "the registry has no globalId and contentId; give the address of Apicurio's own API, "
    "http(s)://host/apis/registry/v3",
}
GUID_WIDTH = 17  # in a header: a byte 01 and the schema's GUID


class RegistrySchemas:
    """Implements the port `Schemas`. A registry is asked once per subject, and again behind `forget`.

    Paths of descriptor files are relative to `folder`.
    """

    def __init__(self, resolve: Resolve, folder: Path = Path()) -> None:
        self._resolve = resolve
        self._folder = folder
        self._registries: dict[tuple[str, str | None], Registry | ApicurioRegistry] = {}
        self._tables: dict[str, Table] = {}
        self._described_parts: dict[tuple[str, ...], list[tuple[RecordParts, RecordParts]]] = {}  # by topics

    def describe_table(self, table: Table) -> Table:
        if not any(
            get_format(part.format).schema is not None or REGISTRY_OPTION in part.options
            for part in (table.key, table.value)
        ):
            return table
        if table.name not in self._tables:
            # to plan the decoding of many versions takes a part of a second, and records may name thousands of tables
            known = self._described_parts.setdefault(table.topics, [])
            parts = next((parts for given, parts in known if given == (table.key, table.value)), None)
            if parts is None:
                described_table = self._describe_part("key", self._describe_part("value", table))
                parts = described_table.key, described_table.value
                known.append(((table.key, table.value), parts))
            self._tables[table.name] = replace(table, key=parts[0], value=parts[1])
        return self._tables[table.name]

    def forget(self) -> None:
        self._registries.clear()
        self._tables.clear()
        self._described_parts.clear()

    def _describe_part(self, part: str, table: Table) -> Table:
        """`ConfigurationError` names the version that cannot be read."""
        describe = {"key": self._describe_key, "value": self._describe_value}[part]
        kind = get_format(_get_part(table, part).format).schema
        options = _get_part(table, part).options
        is_fixed = "schema" in options or "descriptor" in options
        if (kind is None and REGISTRY_OPTION not in options) or (part == "key" and not table.key.fields):
            return table
        versions = [] if is_fixed else self._read_versions(options, table, part, "json" if kind is None else kind)
        try:
            return describe(table, versions)
        except (ConfigurationError, *UNREADABLE) as fault:
            if str(fault).startswith("table="):
                raise
            place = f"table={table.name}: the schema of its {part}s"
            if versions:
                wrong = next((v for v in versions if _is_refused(describe, table, v)), versions[-1])
                place += f" with subject={wrong.subject} version={wrong.number} id={wrong.id}"
            if isinstance(fault, ConfigurationError):  # which says what to do
                raise ConfigurationError(*(f"{place}: {problem}" for problem in fault.problems)) from fault
            raise ConfigurationError(
                f"{place}: it cannot be read: {type(fault).__name__}: {fault}; correct it"
            ) from fault

    def _describe_value(self, table: Table, versions: list[Version]) -> Table:
        value = table.value
        value_format = get_format(table.value.format)
        if value_format.schema is SchemaKind.PROTOBUF:
            options = self._read_protobuf_options(value.options, table, "value", versions)
            schema_columns = _require_columns(table, _to_message_columns(options))
            columns = _choose_value_columns(table, schema_columns)
            return replace(table, value=replace(value, columns=columns, options=options))
        if value_format.schema is None:
            options, json_columns = self._read_json_options(table, "value", versions)
            return replace(table, value=replace(value, columns=value.columns or json_columns, options=options))
        options = self._read_avro_options(value.options, table, "value", versions)
        schema = avro.parse_schema(options["reader"])
        row = find_row_type(schema) if value_format.is_change_event else schema
        names = {**avro.collect_named_types(schema), **avro.collect_named_types(row)}
        schema_columns = _require_columns(table, avro.to_columns(row) if avro.is_record(row) else ())
        columns = _choose_value_columns(table, schema_columns, find_number_fields(row, names))
        options |= {name: word for name, word in value.options.items() if name == "truncate"}
        if any(field["name"] == avro.END_FIELD for node in names.values() for field in node.get("fields", ())):
            raise ConfigurationError(
                f"an Avro field is called {avro.END_FIELD}, a name that Tidegate uses itself; rename the field"
            )
        return replace(table, value=replace(value, columns=columns, options=options))

    def _describe_key(self, table: Table, versions: list[Version]) -> Table:
        key = table.key
        kind = get_format(key.format).schema
        if kind is None:
            options, schema_columns = self._read_json_options(table, "key", versions)
            return replace(table, key=replace(key, columns=key.columns or schema_columns, options=options))
        bare: tuple[Column, ...] = ()
        numbers: set[str] = set()
        if kind is SchemaKind.PROTOBUF:
            options = self._read_protobuf_options(key.options, table, "key", versions)
            schema_columns = _to_message_columns(options)
        else:
            options = self._read_avro_options(key.options, table, "key", versions)
            schema = avro.parse_schema(options["reader"])
            bare = () if avro.is_record(schema) else (Column(key.fields[0], avro.to_spark_type(schema, {})),)
            schema_columns = bare or avro.to_columns(schema)
            numbers = find_number_fields(schema, avro.collect_named_types(schema))
        declared_columns = {c.name for c in schema_columns}
        missing = [name for name in key.fields if name not in declared_columns]
        if missing or (bare and len(key.fields) > 1):
            raise ConfigurationError(
                f"table={table.name}: key.fields={missing or list(key.fields)} are not in the key's schema, which has "
                f"{', '.join(sorted(declared_columns))}; correct key.fields"
            )
        columns = _choose_columns(table, "key", key.columns, schema_columns, numbers)
        return replace(table, key=replace(key, columns=columns, options=options))

    def _read_avro_options(
        self, settings: dict[str, Any], table: Table, part: str, versions: list[Version]
    ) -> dict[str, Any]:
        kept = _list_kept_fields(table, part)
        is_event = get_format(_get_part(table, part).format).is_change_event
        find_row = find_row_type if is_event else lambda schema: schema
        if "schema" in settings:
            fixed_plan = asdict(plan_decoding(avro.parse_schema(settings["schema"]), {}, (), kept, find_row))
            return {
                n: v for n, v in fixed_plan.items() if n not in ("refused", "changed") and (n, v) != ("written", "")
            }
        writers = {}
        newest = {}
        for version in versions:
            named_types = {name: avro.parse_schema(text) for name, text in version.references.items()}
            writers[version.id] = avro.qualify_names(
                avro.inline_references(avro.parse_schema(version.text), named_types)
            )
            newest[version.subject] = writers[version.id]
        several = len(settings.get("records", ())) > 1
        latest = join_records(list(newest.values())) if several else writers[versions[-1].id]
        plan = plan_decoding(latest, writers, table.key.fields if part == "key" else (), kept, find_row)
        keyless = find_keyless_versions(writers, avro.parse_schema(plan.reader), table) if part == "value" else {}
        wire_options = self._build_wire_options(settings, table, part, versions)
        return settings | asdict(plan) | ({KEYLESS: keyless} if keyless else {}) | wire_options

    def _read_protobuf_options(
        self, settings: dict[str, Any], table: Table, part: str, versions: list[Version]
    ) -> dict[str, Any]:
        kept = _list_kept_fields(table, part)
        if "descriptor" in settings:
            return protobuf_descriptors.from_file(self._folder / settings["descriptor"], settings.get("message"), kept)
        options = protobuf_descriptors.from_registry(
            versions,
            settings.get("message") or next(iter(settings.get("records", ())), None),
            table.key.fields,
            part,
            kept,
        )
        return settings | options | self._build_wire_options(settings, table, part, versions)

    def _read_json_options(
        self, table: Table, part: str, versions: list[Version]
    ) -> tuple[dict[str, Any], tuple[Column, ...] | None]:
        settings = _get_part(table, part).options
        options = {**settings, "ids": sorted({version.id for version in versions})}
        options |= self._build_wire_options(settings, table, part, versions)
        is_value = part == "value"
        kinds = {str(version.id): json_schema.describe_logical_types(version.text) for version in versions}
        options |= {"kinds": kinds} if any(kinds.values()) else {}
        if _get_part(table, part).columns is not None:
            return options, None
        older = [version.text for version in reversed(versions[:-1])]
        return options, json_schema.to_columns(versions[-1].text, older, logical=is_value)

    def _read_versions(self, settings: dict[str, Any], table: Table, part: str, word: str) -> list[Version]:
        subjects = find_subjects(settings, table, part, settings.get("records", ()))
        if not subjects:
            raise ConfigurationError(
                f"table={table.name}: its topics come from a pattern, so no name of a topic gives the subject; set "
                f"{part}.{word}.subject"
            )
        versions = self._read_all_versions(settings, subjects)
        if len(settings.get("records", ())) < 2:  # of the subjects of several topics the newest schema has the columns
            newest_ids = {version.subject: version.id for version in versions}
            versions.sort(key=lambda version: newest_ids[version.subject])
        foreign_version = next((version for version in versions if version.kind != word.upper()), None)
        if foreign_version is not None:
            raise ConfigurationError(
                f"table={table.name}: the schema id={foreign_version.id} of its {part}s is of type "
                f"{foreign_version.kind}; correct {part}.format={word}, or the subject"
            )
        return versions

    def _read_all_versions(self, settings: dict[str, Any], subjects: list[str]) -> list[Version]:
        registry = self._get_registry(settings.get("registry", "schema_registry_default"), settings.get("use_id"))
        return [v._replace(subject=subject) for subject in subjects for v in registry.read_versions(subject)]

    def _build_wire_options(
        self, settings: dict[str, Any], table: Table, part: str, versions: list[Version]
    ) -> dict[str, Any]:
        ignored_records = settings.get("ignored_records", ())
        subjects = find_subjects(settings, table, part, ignored_records) if ignored_records else []
        other_versions = self._read_all_versions(settings, subjects) if subjects else []
        word = settings.get("wire_format", "confluent")
        wire = _lay_out(word, [*versions, *other_versions])
        if wire and "headers" in wire and not any(wire["headers"].values()):
            raise ConfigurationError(f"table={table.name}: {part}s with wire_format={word}: {MISSING_ID_REASONS[word]}")
        ignored_ids = sorted({version.id for version in other_versions} - {version.id for version in versions})
        places = {PLACES: list_places(versions, table, part, settings.get("records", ()))}
        return places | ({WIRE: wire} if wire else {}) | ({OTHER_IDS: ignored_ids} if ignored_ids else {})

    def _get_registry(self, place: str, use_id: str | None) -> Registry | ApicurioRegistry:
        if (place, use_id) not in self._registries:
            settings = resolve_registry_settings(place, self._resolve)
            is_own = is_apicurio(settings["url"])
            new_registry = ApicurioRegistry(place, settings, use_id) if is_own else Registry(place, settings)
            self._registries[place, use_id] = new_registry
        return self._registries[place, use_id]


def _get_part(table: Table, part: str) -> KeyFormat | ValueFormat:
    return table.key if part == "key" else table.value


def _list_kept_fields(table: Table, part: str) -> frozenset[str] | None:
    """The fields that become columns, None for all: a table need not hold the types of others."""
    if part == "key":
        return frozenset(table.key.fields)
    if table.value.columns is None:
        return None
    return frozenset(column.name for column in table.value.columns) | frozenset(table.key.fields)


def _lay_out(word: str, versions: list[Version]) -> dict[str, Any] | None:
    """Describe this wire format to the job; None if the id stands before the bytes, as decoders expect it."""
    if word == "confluent-header":
        guids = {f"01{v.guid.replace('-', '').upper()}": v.id for v in versions if v.guid}
        return {"format": word, "width": GUID_WIDTH, "headers": {CONFLUENT_HEADER: guids}}
    if word == "apicurio-header":
        by_global = {f"{v.global_id:016X}": v.id for v in versions if v.global_id is not None}
        by_content = {f"{v.content_id:016X}": v.id for v in versions if v.content_id is not None}
        return {"format": word, "headers": dict(zip(APICURIO_HEADERS, (by_global, by_content), strict=True))}
    return {"format": word} if word == "apicurio" else None


def _is_refused(describe: Callable[[Table, list[Version]], Table], table: Table, version: Version) -> bool:
    try:
        describe(table, [version])
    except (ConfigurationError, *UNREADABLE):
        return True
    return False


def find_subjects(settings: dict[str, Any], table: Table, part: str, records: Collection[str]) -> list[str]:
    """Subjects of a table's keys or values by their producers' naming; empty where nothing names them."""
    strategy = settings.get("subject_name_strategy")
    if strategy == "RecordNameStrategy":
        return list(records)
    if strategy == "TopicRecordNameStrategy":
        return [f"{topic}-{record}" for record in records for topic in table.topics]
    return [settings["subject"]] if "subject" in settings else [f"{topic}-{part}" for topic in table.topics]


def list_places(
    versions: list[Version], table: Table, part: str, records: Collection[str]
) -> dict[str, tuple[str, str]]:
    """Subject and version of each schema id; of one that several subjects have, also for each topic with its own."""
    words = (part, *records)
    topics = {f"{topic}-{word}": topic for topic in table.topics for word in words}
    places = dict[str, tuple[str, str]]()
    for version in versions:
        place = version.subject, version.number
        name = str(version.id)
        if places.setdefault(name, place)[0] == version.subject:
            places[name] = place  # registered once more
        else:
            places[f"{name} {topics.get(version.subject, '')}"] = place
    return places


def _require_columns(table: Table, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    if not columns:
        raise ConfigurationError(
            f"table={table.name}: the schema of its values is no record with fields that a table can hold; register "
            "one with such fields, or use value.format: raw"
        )
    return columns


def _to_message_columns(options: dict[str, Any]) -> tuple[Column, ...]:
    return tuple(Column(field["name"], to_column_type(field["shape"])) for field in options["shape"]["fields"])


def find_row_type(schema: Any) -> Any:
    fields = {f["name"]: f["type"] for f in schema.get("fields", ())} if isinstance(schema, dict) else {}
    names = avro.collect_named_types(schema)
    branches = [branch for name in ("before", "after") if name in fields for branch in avro.list_branches(fields[name])]
    rows = [row for row in (avro.resolve_name(branch, names) for branch in branches) if avro.is_record(row)]
    if not rows or "op" not in fields:
        raise ConfigurationError("the Avro schema is no Debezium change event: it needs before, after and op")
    return rows[-1]


def find_keyless_versions(writers: dict[int, Any], reader: Any, table: Table) -> dict[str, str]:
    """By version, the missing key field: such a key cannot be taken from its values."""
    rows = writers
    reader_row = reader
    if get_format(table.value.format).is_change_event:
        events = {n: w for n, w in writers.items() if avro.is_record(w) and "op" in {f["name"] for f in w["fields"]}}
        rows = {n: find_row_type(event) for n, event in events.items()}
        reader_row = find_row_type(reader)
    reasons = {str(n): find_missing_key_field(row, reader_row, table.key.fields) for n, row in rows.items()}
    return {number: reason for number, reason in reasons.items() if reason}


def find_number_fields(row: Any, names: avro.Names) -> set[str]:
    """The fields of a record that hold a number as scale and bytes: they may be declared as the number itself."""
    fields = row.get("fields", ()) if avro.is_record(row) else ()
    return {field["name"] for field in fields if avro.is_variable_scale(field["type"], names)}


def _choose_value_columns(
    table: Table, schema_columns: tuple[Column, ...], numbers: Collection[str] = ()
) -> tuple[Column, ...]:
    if table.key.from_value:  # else a cast of one value could fail, and its whole batch with it
        own_columns = tuple(column for column in table.key.columns or () if column.name in table.key.fields)
        _choose_columns(table, "key", own_columns, schema_columns, numbers)
    return _choose_columns(table, "value", table.value.columns, schema_columns, numbers)


def _choose_columns(
    table: Table,
    part: str,
    declared_columns: tuple[Column, ...] | None,
    schema_columns: tuple[Column, ...],
    numbers: Collection[str],
) -> tuple[Column, ...]:
    """The declared columns, if the schema gives them without loss; all of the schema's if none are declared.

    `numbers`: fields that may also be a DECIMAL or the number's text.
    """
    if declared_columns is None:
        return schema_columns
    by_name = {c.name: c.type for c in schema_columns}
    for column in declared_columns:
        source = by_name.get(column.name)
        if column.name in numbers and column.type.startswith(("DECIMAL", "STRING")):
            continue
        if source is None or not (source == column.type or _can_widen(source, column.type)):
            raise ConfigurationError(
                f"table={table.name}: {part}.schema has {column.name} {column.type}, and the registered schema "
                f"{f'has it as {source}' if source else 'has no such field'}; correct it, or leave {part}.schema out"
            )
    return declared_columns


def _can_widen(source: str, target: str) -> bool:
    old = parse_type(source)
    new = parse_type(target)
    # a declared part may be NOT NULL where the schema has it optional: a record with NULL there is bad
    if format_type(old) == format_type(new) or (source, target) in LOSSLESS_WIDENINGS:
        return True
    if not (isinstance(old, Primitive) and isinstance(new, Primitive) and old.decimal and new.decimal):
        return False
    (p, s), (wider, scale) = old.decimal, new.decimal
    # a registered precision that is the highest says nothing: each number is held to the declared one
    return scale >= s and (p == MAX_PRECISION or wider - scale >= p - s)
