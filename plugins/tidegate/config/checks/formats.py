"""Checks that a format, its options and its columns fit together, for keys and for values."""

import re
from collections.abc import Mapping

from pydantic import BaseModel

from tidegate.adapters.server_probe import explain_address
from tidegate.config.models.formats import AvroModel, KeyModel, ValueModel, WrittenModel, get_options
from tidegate.config.parsing.problems import Problems, refuse_secrets
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.errors import ConfigurationError
from tidegate.formats.registry import FORMATS, get_format
from tidegate.schema.avro import is_record, parse_schema, to_columns, to_spark_type
from tidegate.schema.data_types import Column, Primitive, has_other_keys, parse_type
from tidegate.spec.source import METADATA_TYPES

OPTION_KEYS = sorted({format_spec.options for format_spec in FORMATS.values() if format_spec.options is not None})
TIMES = re.compile(r"\bTIMESTAMP(_NTZ)?\b")
NUMBERS = re.compile(r"\b(TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|DECIMAL)\b")
BINARY = re.compile(r"\bBINARY\b")
# options that may be given by column: which columns they are for
OPTIONS_OF_COLUMNS = (
    ("json", "numbers", NUMBERS, "a number"),
    ("json", "binary", BINARY, "bytes"),
    ("csv", "binary", BINARY, "bytes"),
)
WRITTEN = ("subject_name_strategy", "records", "ignored_records", "wire_format", "use_id")
RECORDS = "[shop.Order]"
LAST_CHARACTER = 0xFFFF  # that is one of Java's
Columns = tuple[Column, ...] | None


def check_format(
    part: KeyModel | ValueModel,
    columns: Columns,
    path: KeyPath,
    findings: Problems,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Problems of a key's or value's format with its columns, and options of an unused format.

    `metadata`: the columns beside a value's own, each with the word that fills it.
    """
    format_spec = get_format(part.format)
    part_name = "value" if isinstance(part, ValueModel) else "key"
    _check_options(part, path, findings)
    if format_spec.only_column is not None and columns is not None and len(columns) > 1:
        findings.add((*path, "schema"), f"a {part_name} of format {part.format} is one value; declare one column")
    for column in columns or ():
        if format_spec.column_types and column.type not in format_spec.column_types:
            types = ", ".join(format_spec.column_types)
            problem = f"a {part_name} of format {part.format} is {format_spec.noun}"
            findings.add((*path, "schema"), f"{problem}; declare {column.name} as one of {types}")
        if format_spec.is_flat and not isinstance(parse_type(column.type), Primitive):
            kind = column.type.replace("`", "")
            problem = f"{column.name} is {kind}, and format {part.format} has no parts inside a column"
            findings.add((*path, "schema"), f"{problem}; use STRING, or format json")
    if part.avro is not None and part.avro.schema_ is not None:
        check_avro(part.avro, (*path, "avro"), findings)
    check_registries(part, path, findings)
    _check_protobuf(part, path, findings)
    _check_written(part, path, findings)
    if isinstance(part, ValueModel):
        _check_times(part, columns, path, findings, metadata or {})
    _check_options_of_columns(part, columns, path, findings)
    if part.json_ is not None and part.json_.subject is not None and part.json_.registry is None:
        findings.add((*path, "json", "subject"), "a subject of no registry; give json.registry")
    if format_spec.is_positional and part_name == "value" and part.schema_ is None:
        problem = f"columns of {part.format} are known by their place; give value.schema in their order"
        findings.add((*path, "format"), problem)


def check_registries(part: BaseModel, path: KeyPath, findings: Problems) -> None:
    """An address with a login in it, or that is none."""
    for word in ("avro", "protobuf", "json_"):
        registry = getattr(getattr(part, word, None), "registry", None)
        registry_path = (*path, word.rstrip("_"), "registry")
        refuse_secrets(registry, registry_path, findings, "an Airflow connection, and write its id here")
        if registry is not None and "://" in registry and (problem := explain_address(registry)) is not None:
            findings.add(registry_path, problem)


def check_csv(part: BaseModel, path: KeyPath, findings: Problems) -> None:
    """Characters that cannot separate lines, or that Spark does not take."""
    options = getattr(part, "csv", None)
    delimiters = {word: getattr(options, word, None) for word in ("delimiter", "quote", "escape")}
    for word, character in delimiters.items():
        if character is not None and (character in "\r\n" or ord(character) > LAST_CHARACTER):
            problem = "a line break, or a character beyond U+FFFF, of which Java makes two; choose another"
            findings.add((*path, "csv", word), problem)
        if word != "delimiter" and character is not None and character == delimiters["delimiter"]:
            findings.add((*path, "csv", word), "the same as delimiter: columns could not be separated; choose another")


def _check_options(part: KeyModel | ValueModel, path: KeyPath, findings: Problems) -> None:
    format_spec = get_format(part.format)
    for word in OPTION_KEYS:
        options_model = get_options(part, word)
        if options_model is None:
            continue
        known = options_model.model_fields_set if format_spec.option_names is None else format_spec.option_names
        if word != format_spec.options or options_model.model_fields_set - set(known):
            findings.add((*path, word), f"options of another format than {part.format}; leave them out")
    check_csv(part, path, findings)
    if isinstance(part, ValueModel) and part.truncate != "refuse" and not format_spec.knows_truncate:
        findings.add((*path, "truncate"), f"format {part.format} knows no truncate; leave it out")
    if isinstance(part, ValueModel) and "unknown_fields" in part.model_fields_set and not format_spec.reads_by_name:
        problem = f"format {part.format} has no fields that name themselves in each record; leave it out"
        findings.add((*path, "unknown_fields"), problem)


def _check_options_of_columns(part: KeyModel | ValueModel, columns: Columns, path: KeyPath, findings: Problems) -> None:
    types = {column.name.casefold(): column.type for column in columns or ()}
    for word, option, pattern, noun in OPTIONS_OF_COLUMNS:
        setting = getattr(get_options(part, word), option, None)
        for name in setting if isinstance(setting, dict) and columns is not None else ():
            if not pattern.search(types.get(name.casefold(), "")):
                findings.add((*path, word, option, name), f"no column of the schema that holds {noun}; name one")
    if part.json_ is not None and part.json_.extended and part.json_.binary is not None:
        findings.add((*path, "json", "binary"), "extended JSON says itself that its bytes are base64; leave it out")
    for column in (columns or ()) if get_format(part.format).options == "json" else ():
        if has_other_keys(parse_type(column.type)):
            kind = column.type.replace("`", "")
            problem = f"{column.name} is {kind}, and names in JSON are texts; declare a MAP with STRING keys"
            findings.add((*path, "schema"), problem)


def _check_times(
    part: ValueModel, columns: Columns, path: KeyPath, findings: Problems, metadata: Mapping[str, str]
) -> None:
    value_types = {column.name.casefold(): column.type for column in columns or ()}
    metadata_types = {name.casefold(): METADATA_TYPES.get(word, "TIMESTAMP") for name, word in metadata.items()}
    for word, setting, types in (
        ("timestamp_unit", part.timestamp_unit, value_types),
        ("nanoseconds", part.nanoseconds, metadata_types | value_types),
    ):
        for name in sorted(setting) if isinstance(setting, dict) and columns is not None else ():
            if name.casefold() not in types:
                findings.add((*path, word, name), "no column of value.schema; name one that holds a time")
            elif not TIMES.search(types[name.casefold()]):
                problem = f"{name} is {types[name.casefold()].replace('`', '')}, which holds no TIMESTAMP"
                findings.add((*path, word, name), f"{problem}; name a column that does, or leave it out")


def check_times_of_key(key: KeyModel, value: ValueModel, path: KeyPath, findings: Problems) -> None:
    """Fields of the key in which nanoseconds would be cut."""
    keys = {name.casefold() for name in key.fields}
    nanoseconds = value.nanoseconds if isinstance(value.nanoseconds, dict) else {}
    for name, word in nanoseconds.items():
        if name.casefold() in keys and word == "truncate":
            problem = "a field of the key, where two keys would become one; leave it out"
            findings.add((*path, "nanoseconds", name), problem)


def _check_written(part: KeyModel | ValueModel, path: KeyPath, findings: Problems) -> None:
    has_no_registry = (
        (part.avro is not None and part.avro.schema_ is not None)
        or (part.protobuf is not None and part.protobuf.descriptor is not None)
        or (part.json_ is not None and part.json_.registry is None)
    )
    for word, format_model in (("avro", part.avro), ("protobuf", part.protobuf), ("json", part.json_)):
        if format_model is None:
            continue
        at = (*path, word)
        option_names = [name for name in WRITTEN if getattr(format_model, name) is not None]
        if option_names and has_no_registry:
            problem = "of records whose schema comes from no registry; leave it out, or give one"
            findings.add((*at, option_names[0]), problem)
        if format_model.wire_format in ("apicurio", "apicurio-header") and word == "protobuf":
            findings.add((*at, "wire_format"), "Apicurio's Protobuf has a form of its own, which is not read")
        _check_records(format_model, part.format, at, findings)


def _check_records(format_model: WrittenModel, word: str, at: KeyPath, findings: Problems) -> None:
    names = format_model.records or []
    ignored_records = format_model.ignored_records or []
    if format_model.subject_name_strategy in (None, "TopicNameStrategy"):
        for key in (key for key in ("records", "ignored_records") if getattr(format_model, key)):
            problem = "record types are subjects only with RecordNameStrategy and TopicRecordNameStrategy"
            findings.add((*at, key), f"{problem}; give subject_name_strategy, or leave it out")
        return
    if not names:
        findings.add((*at, "records"), f"missing; name the record types that are read, as {RECORDS}")
    if getattr(format_model, "subject", None) is not None:
        findings.add((*at, "subject"), "the subjects are those of records; leave it out, or subject_name_strategy")
    if len(names) > 1 and not get_format(word).reads_several_types:
        findings.add((*at, "records"), f"format {word} reads one record type; give each table its own value")
    for name in sorted(set(names) & set(ignored_records)):
        findings.add((*at, "ignored_records"), f"{name} is read too; keep it in one of the two")


def _check_protobuf(part: KeyModel | ValueModel, path: KeyPath, findings: Problems) -> None:
    format_model = part.protobuf
    if format_model is None or format_model.descriptor is None:
        return
    if format_model.subject is not None or "registry" in format_model.model_fields_set:
        findings.add((*path, "protobuf", "descriptor"), "a registry is given too; keep the file or the registry")
    if format_model.message is None:
        findings.add((*path, "protobuf", "message"), "missing; name the message of the descriptor set")


def check_avro(avro: AvroModel, path: KeyPath, findings: Problems) -> None:
    """A schema that is none, or that stands beside a registry."""
    if avro.subject is not None or "registry" in avro.model_fields_set:
        findings.add((*path, "schema"), "a registry is given too; keep the schema or the registry")
    try:
        schema = parse_schema(avro.schema_ or "")
        _ = to_columns(schema) if is_record(schema) else to_spark_type(schema, {})
    except (ConfigurationError, KeyError, TypeError, ValueError) as fault:
        findings.add((*path, "schema"), f"not an Avro schema ({fault}); write its JSON")
