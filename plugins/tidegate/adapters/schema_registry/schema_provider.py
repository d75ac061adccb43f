"""Gives a table the columns and the decoding of its Avro or Protobuf key and value: from a registry, or from a file."""

from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tidegate.adapters.schema_registry import protobuf_descriptors
from tidegate.adapters.schema_registry.apicurio import ApicurioRegistry, is_apicurio
from tidegate.adapters.schema_registry.client import Registry, Version, registry_settings
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError
from tidegate.schema import json_schema
from tidegate.schema.avro import (
    END,
    MAX_PRECISION,
    Names,
    branches,
    columns_of,
    is_record,
    is_variable_scale,
    named_types,
    parsed,
    resolved,
    spark_type,
    with_references,
)
from tidegate.schema.avro_resolution import decoding
from tidegate.schema.avro_versions import join_records
from tidegate.schema.column import Column
from tidegate.schema.data_types import Primitive, parse
from tidegate.schema.protobuf import column_type
from tidegate.schema.wire_format import OTHER_IDS, WIRE, lay_out
from tidegate.spec.table import Table

AVRO = ("avro", "debezium-avro")
DESCRIBED, REGISTRY = (*AVRO, "protobuf"), "registry"
# without loss; a time without a zone is one of UTC, as the session's is
WIDER = {("INT", "BIGINT"), ("FLOAT", "DOUBLE"), ("INT", "DOUBLE"), ("TIMESTAMP_NTZ", "TIMESTAMP")}


UNNAMED = {
    "confluent-header": "the registry tells no GUIDs of its schemas; Confluent's from version 8 on do",
    "apicurio-header": "the registry tells no globalId and contentId; give the address of Apicurio's own API, "
    "http(s)://host/apis/registry/v3",
}


class RegistrySchemas:
    """Implements the port `Schemas`. A registry is asked once per subject in the life of this object.

    Paths of descriptor files are relative to `folder`.
    """

    def __init__(self, resolve: Resolve, folder: Path = Path()) -> None:
        self._resolve, self._folder = resolve, folder
        self._registries: dict[tuple[str, str | None], Registry | ApicurioRegistry] = {}
        self._tables: dict[str, Table] = {}

    def described(self, table: Table) -> Table:
        """See the port."""
        if not any(part.format in DESCRIBED or REGISTRY in part.options for part in (table.key, table.value)):
            return table
        if table.name not in self._tables:
            self._tables[table.name] = self._with_key(self._with_value(table))
        return self._tables[table.name]

    def _with_value(self, table: Table) -> Table:
        value = table.value
        if value.format == "protobuf":
            options = self._messages(value.options, table, "value")
            columns = _agreed(table, "value", value.columns, _message_columns(options))
            return replace(table, value=replace(value, columns=columns, options=options))
        if value.format == "json" and REGISTRY in value.options:
            options, found = self._objects(value.options, table, "value", value.columns is None)
            return replace(table, value=replace(value, columns=value.columns or found, options=options))
        if value.format not in AVRO:
            return table
        options = self._options(value.options, table, "value")
        schema = parsed(options["reader"])
        row = row_of(schema) if value.format == "debezium-avro" else schema
        names = {**named_types(schema), **named_types(row)}
        found = columns_of(row) if is_record(row) else ()
        if not found:
            raise ConfigurationError(
                f"table={table.name}: the schema of its values is no record; use value.format: raw"
            )
        columns = _agreed(table, "value", value.columns, found, numbers_of(row, names))
        options |= {name: word for name, word in value.options.items() if name == "truncate"}
        _check_names(names)
        return replace(table, value=replace(value, columns=columns, options=options))

    def _with_key(self, table: Table) -> Table:
        key = table.key
        if key.format == "json" and REGISTRY in key.options and key.fields:
            options, found = self._objects(key.options, table, "key", key.columns is None)
            return replace(table, key=replace(key, columns=key.columns or found, options=options))
        if key.format not in ("avro", "protobuf") or not key.fields:
            return table
        bare: tuple[Column, ...] = ()
        numbers: set[str] = set()
        if key.format == "protobuf":
            options = self._messages(key.options, table, "key")
            found = _message_columns(options)
        else:
            options = self._options(key.options, table, "key")
            schema = parsed(options["reader"])
            bare = () if is_record(schema) else (Column(key.fields[0], spark_type(schema, {})),)
            found = bare or columns_of(schema)
            numbers = numbers_of(schema, named_types(schema))
        declared = {c.name for c in found}
        missing = [name for name in key.fields if name not in declared]
        if missing or (bare and len(key.fields) > 1):
            raise ConfigurationError(
                f"table={table.name}: key.fields={missing or list(key.fields)} are not in the key's schema, which has "
                f"{', '.join(sorted(declared))}; correct key.fields"
            )
        columns = _agreed(table, "key", key.columns, found, numbers)
        return replace(table, key=replace(key, columns=columns, options=options))

    def _options(self, given: dict[str, Any], table: Table, part: str) -> dict[str, Any]:
        if "schema" in given:
            return asdict(decoding(parsed(given["schema"]), {}), dict_factory=_without_writers)
        versions = self._versions(given, table, part, "avro")
        writers, newest = {}, {}
        for version in versions:
            known = {name: parsed(text) for name, text in version.references.items()}
            writers[version.id] = with_references(parsed(version.text), known)
            newest[version.subject] = writers[version.id]
        several = len(given.get("records", ())) > 1
        latest = join_records(list(newest.values())) if several else writers[versions[-1].id]
        return asdict(decoding(latest, writers)) | self._beside(given, table, part, versions)

    def _messages(self, given: dict[str, Any], table: Table, part: str) -> dict[str, Any]:
        if "descriptor" in given:
            return protobuf_descriptors.from_file(self._folder / given["descriptor"], given.get("message"))
        versions = self._versions(given, table, part, "protobuf")
        made = protobuf_descriptors.from_registry(
            versions, given.get("message") or next(iter(given.get("records", ())), None)
        )
        return made | self._beside(given, table, part, versions)

    def _objects(
        self, given: dict[str, Any], table: Table, part: str, wanted: bool
    ) -> tuple[dict[str, Any], tuple[Column, ...] | None]:
        """Options with the ids that records may have, and the columns of the newest schema if they are `wanted`."""
        versions = self._versions(given, table, part, "json")
        options = {**given, "ids": sorted({version.id for version in versions})}
        options |= self._beside(given, table, part, versions)
        is_value = part == "value"
        kinds = {str(version.id): json_schema.kinds_of(version.text) for version in versions if is_value}
        options |= {"kinds": kinds} if any(kinds.values()) else {}
        if not wanted:
            return options, None
        older = [version.text for version in reversed(versions[:-1])]
        return options, json_schema.columns_of(versions[-1].text, older, logical=is_value)

    def _versions(self, given: dict[str, Any], table: Table, part: str, word: str) -> list[Version]:
        """All versions of the subject, or of the subjects of topics and record types; of each the newest last."""
        subjects = find_subjects(given, table, part, given.get("records", ()))
        if not subjects:
            raise ConfigurationError(
                f"table={table.name}: its topics come from a pattern, so {part}.{word}.subject must be given"
            )
        versions = self._all_of(given, subjects)
        other = next((version for version in versions if version.kind != word.upper()), None)
        if other is not None:
            raise ConfigurationError(
                f"table={table.name}: the schema id={other.id} of its {part}s is of type {other.kind}; "
                f"correct {part}.format={word}, or the subject"
            )
        return versions

    def _all_of(self, given: dict[str, Any], subjects: list[str]) -> list[Version]:
        registry = self._registry(given.get("registry", "schema_registry_default"), given.get("use_id"))
        return [version._replace(subject=subject) for subject in subjects for version in registry.versions(subject)]

    def _beside(self, given: dict[str, Any], table: Table, part: str, versions: list[Version]) -> dict[str, Any]:
        """Where the job finds schema ids, and which are those of record types that change nothing."""
        ignored = given.get("ignored_records", ())
        others = self._all_of(given, find_subjects(given, table, part, ignored)) if ignored else []
        word = given.get("wire_format", "confluent")
        wire = lay_out(word, [*versions, *others])
        if wire and "headers" in wire and not any(wire["headers"].values()):
            raise ConfigurationError(f"table={table.name}: {part}s with wire_format={word}: {UNNAMED[word]}")
        apart = sorted({version.id for version in others} - {version.id for version in versions})
        return ({WIRE: wire} if wire else {}) | ({OTHER_IDS: apart} if apart else {})

    def _registry(self, place: str, use_id: str | None) -> Registry | ApicurioRegistry:
        if (place, use_id) not in self._registries:
            settings = registry_settings(place, self._resolve)
            is_own = is_apicurio(settings["url"])
            made = ApicurioRegistry(place, settings, use_id) if is_own else Registry(place, settings)
            self._registries[place, use_id] = made
        return self._registries[place, use_id]


def find_subjects(given: dict[str, Any], table: Table, part: str, records: Collection[str]) -> list[str]:
    """The subjects of a table's keys or values, as their producers call them; empty where nothing names them."""
    strategy = given.get("subject_name_strategy")
    if strategy == "RecordNameStrategy":
        return list(records)
    if strategy == "TopicRecordNameStrategy":
        return [f"{topic}-{record}" for record in records for topic in table.topics]
    return [given["subject"]] if "subject" in given else [f"{topic}-{part}" for topic in table.topics]


def _message_columns(options: dict[str, Any]) -> tuple[Column, ...]:
    return tuple(Column(field["name"], column_type(field["shape"])) for field in options["shape"]["fields"])


def _without_writers(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A fixed schema: no ids, so nothing to refuse by them."""
    return {name: value for name, value in pairs if name != "refused"}


def row_of(schema: Any) -> Any:
    """The record of `after` in a change event's schema."""
    fields = {f["name"]: f["type"] for f in schema.get("fields", ())} if isinstance(schema, dict) else {}
    found = [resolved(branch, named_types(schema)) for name in ("before", "after") if name in fields
             for branch in branches(fields[name])]  # fmt: skip
    rows = [row for row in found if is_record(row)]
    if not rows or "op" not in fields:
        raise ConfigurationError("the Avro schema is no Debezium change event: it needs before, after and op")
    return rows[-1]


def numbers_of(row: Any, names: Names) -> set[str]:
    """The fields of a record that hold a number as scale and bytes: they may be declared as the number itself."""
    return (
        {f["name"] for f in row.get("fields", ()) if is_variable_scale(f["type"], names)} if is_record(row) else set()
    )


def _check_names(names: dict[str, Any]) -> None:
    for node in names.values():
        if any(field["name"] == END for field in node.get("fields", ())):
            raise ConfigurationError(f"an Avro field is called {END}, which the product needs; rename the field")


def _agreed(
    table: Table,
    part: str,
    wanted: tuple[Column, ...] | None,
    found: tuple[Column, ...],
    numbers: Collection[str] = (),
) -> tuple[Column, ...]:
    """The columns that were declared, as far as the schema can give them without loss; all of it if none were.

    `numbers` are the fields that may also be a DECIMAL or the number's text.
    """
    if wanted is None:
        return found
    by_name = {c.name: c.type for c in found}
    for column in wanted:
        held = by_name.get(column.name)
        if column.name in numbers and column.type.startswith(("DECIMAL", "STRING")):
            continue
        if held is None or not (held == column.type or _widens(held, column.type)):
            raise ConfigurationError(
                f"table={table.name}: {part}.schema has {column.name} {column.type}, and the registered schema "
                f"{f'has it as {held}' if held else 'has no such field'}; correct it, or leave {part}.schema out"
            )
    return wanted


def _widens(held: str, wanted: str) -> bool:
    if parse(held) == parse(wanted) or (held, wanted) in WIDER:
        return True
    ours, theirs = parse(held), parse(wanted)
    if not (isinstance(ours, Primitive) and isinstance(theirs, Primitive) and ours.decimal and theirs.decimal):
        return False
    (p, s), (wider, scale) = ours.decimal, theirs.decimal
    # a registered precision that is the highest says nothing: each number is held to the declared one
    return scale >= s and (p == MAX_PRECISION or wider - scale >= p - s)
