"""Checks how a key meets the value in a pipeline file: the one column that holds it, and the fields that both have."""

from collections.abc import Mapping

from tidegate.config.models.formats import KeyModel, ValueModel
from tidegate.config.parsing.ddl import parse_columns
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.formats.registry import get_format
from tidegate.schema.column import Column


def check_into(key: KeyModel, into: str, in_value: Mapping[str, Column], path: KeyPath, findings: Problems) -> None:
    """Note what keeps `key.into` from being a column of its own."""
    if not into.strip():
        findings.add(path, "empty; name the struct column, or leave it out")
    if not key.fields:
        findings.add(path, "nothing to put into it; give key.fields, the fields of the struct")
    if key.prefix:
        findings.add(path, "key.prefix has no meaning for the fields of one struct; keep one of the two")
    if into.casefold() in in_value:
        findings.add(path, f"{in_value[into.casefold()].name} is a column of the value too; choose another name")


def check_source_of_key(
    key: KeyModel, value: ValueModel, columns: tuple[Column, ...] | None, path: KeyPath, findings: Problems
) -> None:
    """Note what `key.from` cannot mean here; `columns` are the value's, None where they are not declared."""
    from_path = (*path, "from")
    if key.from_ == "record":
        if "from_" in key.model_fields_set and get_format(value.format).holds_several_rows:
            rows = f"messages of format {value.format} hold rows, and the key is taken from each"
            findings.add(from_path, f"{rows}; write value, or leave it out")
        return
    if not key.fields:
        findings.add(from_path, "no field to take from the value; give key.fields")
    for word in sorted(key.model_fields_set & {"format", "json_", "avro", "protobuf", "csv"}):
        findings.add((*path, word.rstrip("_")), "the record's key is not read with key.from: value; leave it out")
    if get_format(value.format).only_column is not None:
        findings.add(from_path, f"a value of format {value.format} has no fields; use another format, or from: record")
    if value.fields_include == "EXCEPT_KEY":
        findings.add(
            from_path, "value.fields_include: EXCEPT_KEY says that the value lacks the key; keep one of the two"
        )
    if get_format(value.format).is_positional:
        names = {column.name for column in columns or ()}
        for index, name in enumerate(key.fields if columns is not None else ()):
            if name not in names:
                findings.add((*path, "fields", index), "not a column of value.schema, where key.from looks for it")


def check_integrity(key: KeyModel, value: ValueModel, paths: tuple[KeyPath, KeyPath], findings: Problems) -> None:
    """Note why `verify_integrity` has nothing to compare: key and value need a field in common, of one type."""
    verify: KeyPath = ("source", "verify_integrity")
    if not key.fields:
        findings.add(verify, "there is no key to compare with the value; give key.fields, or leave it out")
        return
    if key.from_ == "value":
        findings.add(verify, "key.from: value takes the key from the value, so nothing can differ; keep one of the two")
        return
    if value.fields_include == "EXCEPT_KEY":
        clash = "EXCEPT_KEY says that the value lacks what verify_integrity compares"
        findings.add((*paths[1], "fields_include"), f"{clash}; keep one of the two")
        return
    types = {column.name: column.type for column in _try_parse_columns(value.schema_)}
    if types and not set(key.fields) & set(types):
        findings.add(verify, "no field of the key is in value.schema, so nothing can differ; add it there")
    for column in (
        _try_parse_columns(key.schema_) if key.prefix or key.into else ()
    ):  # else they are one column, checked as such
        value_type = types.get(column.name, column.type)
        if column.name in key.fields and value_type != column.type:
            clash = f"verify_integrity cannot compare {column.name}: {column.type} here, {value_type} in value.schema"
            findings.add((*paths[0], "schema"), f"{clash}; use one type")


def _try_parse_columns(ddl: str | None) -> tuple[Column, ...]:
    try:
        return parse_columns(ddl) if ddl is not None else ()
    except ValueError:
        return ()  # said where the schema is checked
