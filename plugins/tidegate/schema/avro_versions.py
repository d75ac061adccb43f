"""What a subject's latest Avro schema dropped and older records still have: optional fields, and symbols of enums.

Without them an older record would lose its value silently, and a newer one would leave the old value in its row.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.schema.avro import (
    NAMED_TYPES,
    Names,
    change_inner_types,
    collect_named_types,
    get_full_name,
    get_type_name,
    is_named,
    is_record,
    list_branches,
    resolve_name,
    to_spark_type,
)

# what Avro reads as another type, where a union has not the type itself
PROMOTIONS = {
    "int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",),
    "string": ("bytes",), "bytes": ("string",),
}  # fmt: skip


def restore_dropped_fields(latest: Any, older: Iterable[Any]) -> Any:
    """Add to `latest` each field, and symbol of an enum, that only older versions have; the first of `older` wins.

    Returns `latest` itself if nothing was dropped. A rename by an alias is no drop, nor is another case of a name.
    """
    inlined = merged_schema = _inline_types(latest, collect_named_types(latest))
    names_by_version = []
    for version in older:
        names_by_version.append(collect_named_types(version))
        merged_schema = _adopt_fields(merged_schema, _inline_types(version, names_by_version[-1]))
    merged_schema = _join_symbols(merged_schema, names_by_version)
    return latest if merged_schema == inlined else _define_types_once(merged_schema)


def keep_fields(schema: Any, kept: Collection[str], find_row: Callable[[Any], Any]) -> Any:
    """Drop from the schema's row, which `find_row` finds, all fields but those `kept`.

    What no column reads may have a type that no table holds, or had another one in an older version.
    """
    inlined = _inline_types(schema, collect_named_types(schema))
    row = find_row(inlined)
    if not is_record(row) or not 0 < sum(field["name"] in kept for field in row["fields"]) < len(row["fields"]):
        return schema

    def drop(node: Any) -> Any:
        if is_record(node) and get_full_name(node) == get_full_name(row):
            return {**node, "fields": [field for field in node["fields"] if field["name"] in kept]}
        return change_inner_types(node, drop)

    return _define_types_once(drop(inlined))


def join_records(newest: Sequence[Any]) -> Any:
    """Return the first record type with the fields of all, optional if another type lacks them.

    `ConfigurationError` names a field of two types.
    """
    schemas = [_inline_types(schema, collect_named_types(schema)) for schema in newest]
    fields_by_record = [{field["name"]: field for field in schema["fields"]} for schema in schemas]
    for record, fields in zip(schemas[1:], fields_by_record[1:], strict=True):
        for name in fields_by_record[0].keys() & fields.keys():
            first_type, second_type = (to_spark_type(of[name]["type"], {}) for of in (fields_by_record[0], fields))
            if first_type != second_type:
                first = f"field={name} is {first_type} in record={get_full_name(schemas[0])}"
                second = f"{second_type} in record={get_full_name(record)}"
                raise ConfigurationError(f"{first} and {second}; read them into tables of their own")
    shared = set.intersection(*(set(fields) for fields in fields_by_record))
    joined_fields = [field if field["name"] in shared else _make_optional(field) for field in schemas[0]["fields"]]
    return _define_types_once({**schemas[0], "fields": joined_fields})


def _make_optional(field: Any) -> Any:
    return {"name": field["name"], "type": ["null", *list_branches(field["type"])], "default": None}


def _adopt_fields(newest: Any, older: Any) -> Any:
    if isinstance(newest, list) or isinstance(older, list):
        pairs = pair_branches(list_branches(older), list_branches(newest))

        def adopt(branch: Any) -> Any:
            return reduce(_adopt_fields, (old for old, new in pairs if new is branch), branch)

        return [adopt(branch) for branch in newest] if isinstance(newest, list) else adopt(newest)
    if is_record(newest) and is_record(older):
        known_names = {field["name"].casefold() for field in newest["fields"]}
        aliases = {alias for field in newest["fields"] for alias in field.get("aliases", ())}
        dropped = [
            _make_optional(field)
            for field in older["fields"]
            if field["name"].casefold() not in known_names and field["name"] not in aliases
        ]
        return {**newest, "fields": [*_adopt_record_fields(newest, older), *dropped]}
    part = {"array": "items", "map": "values"}.get(get_type_name(newest))
    if part and get_type_name(newest) == get_type_name(older):
        return {**newest, part: _adopt_fields(newest[part], older[part])}
    return newest


def _adopt_record_fields(newest: Any, older: Any) -> list[Any]:
    written_types = {field["name"]: field["type"] for field in older["fields"]}
    pairs = ((field, find_written_type(field, written_types)) for field in newest["fields"])
    return [field if old is None else {**field, "type": _adopt_fields(field["type"], old)} for field, old in pairs]


def find_written_type(field: Any, written_types: dict[str, Any]) -> Any:
    return next(
        (written_types[name] for name in (field["name"], *field.get("aliases", ())) if name in written_types), None
    )


def find_respelled_field(writer: Any, reader: Any) -> str:
    """Return which field the writer has in another case only, without an alias; Avro would read it as missing."""
    written = _inline_types(writer, collect_named_types(writer))
    read = _inline_types(reader, collect_named_types(reader))
    return _find_respelled_field(written, read, "")


def _find_respelled_field(writer: Any, reader: Any, above: str) -> str:
    pairs = pair_branches(list_branches(writer), list_branches(reader))
    return next((reason for pair in pairs if (reason := _find_respelled_in_branch(*pair, above))), "")


def _find_respelled_in_branch(writer: Any, reader: Any, above: str) -> str:
    part = {"array": "items", "map": "values"}.get(get_type_name(reader))
    if part and get_type_name(writer) == get_type_name(reader):
        return _find_respelled_field(writer[part], reader[part], above)
    if not (is_record(writer) and is_record(reader)):
        return ""
    written_types = {field["name"]: field["type"] for field in writer["fields"]}
    read_names = {field["name"] for field in reader["fields"]}
    other_names = {name.casefold(): name for name in written_types if name not in read_names}
    for field in reader["fields"]:
        name = field["name"]
        written_type = find_written_type(field, written_types)
        if written_type is None and name.casefold() in other_names:
            other = f"{above}{other_names[name.casefold()]}"
            return f"field {other} is {above}{name} in the latest version, without an alias for the other case"
        if written_type is not None and (
            reason := _find_respelled_field(written_type, field["type"], f"{above}{name}.")
        ):
            return reason
    return ""


def pair_branches(writers: list[Any], readers: list[Any]) -> list[tuple[Any, Any]]:
    """Pair each type that a writer has in a union, or alone, with the reader's type that Avro reads it as.

    Nothing is null here. One type alone on both sides is always a pair.
    """
    if len(writers) == len(readers) == 1:
        return [(writers[0], readers[0])]
    pairs = ((old, _find_branch(old, readers)) for old in writers)
    return [(old, new) for old, new in pairs if new is not None]


def _find_branch(writer: Any, branches: list[Any]) -> Any:
    # named types by name, else records; others by kind, else the first that Avro promotes to
    word = get_type_name(writer)
    alike = [branch for branch in branches if get_type_name(branch) == word]
    if word not in NAMED_TYPES:
        promoted = (branch for branch in branches if get_type_name(branch) in PROMOTIONS.get(word, ()))
        return alike[0] if alike else next(promoted, None)
    named_branches = [branch for branch in alike if get_full_name(writer) in _list_names(branch)]
    short = [branch for branch in alike if _shorten(writer["name"]) in map(_shorten, _list_names(branch))]
    return next(iter([*named_branches, *short, *(alike if word == "record" else [])]), None)


def _list_names(node: Any) -> list[str]:
    aliases = [str(alias) for alias in node.get("aliases", ())]
    return [get_full_name(node), *aliases, *(get_full_name({**node, "name": alias}) for alias in aliases)]


def _shorten(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _join_symbols(node: Any, older: Sequence[Names]) -> Any:
    if isinstance(node, dict) and node.get("type") == "enum":
        versions = (names[name] for names in older for name in _list_names(node) if name in names)
        symbols = (symbol for enum in versions if enum["type"] == "enum" for symbol in enum["symbols"])
        return {**node, "symbols": [*dict.fromkeys([*node["symbols"], *symbols])]}
    return change_inner_types(node, lambda inner: _join_symbols(inner, older))


def _inline_types(node: Any, names: dict[str, Any], space: str = "", inside: tuple[str, ...] = ()) -> Any:
    # except a type inside itself
    node = resolve_name(node, names)
    if is_named(node):
        space = str(node.get("namespace", space))
        node = {**node, "namespace": space} if space else node
        if get_full_name(node) in inside:
            return get_full_name(node)
        inside = (*inside, get_full_name(node))
    return change_inner_types(node, lambda inner: _inline_types(inner, names, space, inside))


def _define_types_once(schema: Any) -> Any:
    """Write out each named type where it is first used, with the fields of all its uses, and name it afterwards."""
    whole_types: Names = {}
    defined = set[str]()

    def collect(node: Any) -> Any:
        if is_record(node):
            name = get_full_name(node)
            whole_types[name] = _adopt_fields(whole_types[name], node) if name in whole_types else node
        return change_inner_types(node, collect)

    def define(node: Any) -> Any:
        if is_named(node):
            name = get_full_name(node)
            if name in defined:
                return name
            defined.add(name)
            node = whole_types.get(name, node)
        return change_inner_types(node, define)

    collect(schema)
    return define(schema)
