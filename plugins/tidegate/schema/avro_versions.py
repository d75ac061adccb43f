"""The fields that a subject's latest Avro schema dropped, kept as optional ones: older records still have them.

Without them an older record would lose its value in silence, and a newer one would leave the old value in its row.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.schema.avro import (
    NAMED_TYPES,
    collect_named_types,
    get_full_name,
    get_type_name,
    is_record,
    list_branches,
    resolve_name,
    to_spark_type,
)


def restore_dropped_fields(latest: Any, older: Iterable[Any]) -> Any:
    """`latest` with each field that only older versions have, optional, behind its own; the first of `older` wins.

    `latest` itself where nothing was dropped. A field that was renamed by an alias was not dropped.
    """
    inlined = whole = _inline_types(latest, collect_named_types(latest))
    for version in older:
        whole = _adopt_fields(whole, _inline_types(version, collect_named_types(version)))
    return latest if whole == inlined else _define_types_once(whole, set())


def join_records(newest: Sequence[Any]) -> Any:
    """The first of several record types with all of its fields, optional where another type lacks them.

    What only the others have is added as dropped fields are. ConfigurationError names a field of two types.
    """
    whole = [_inline_types(schema, collect_named_types(schema)) for schema in newest]
    fields_by_record = [{field["name"]: field for field in schema["fields"]} for schema in whole]
    for other, fields in zip(whole[1:], fields_by_record[1:], strict=True):
        for name in fields_by_record[0].keys() & fields.keys():
            ours, theirs = (to_spark_type(of[name]["type"], {}) for of in (fields_by_record[0], fields))
            if ours != theirs:
                first = f"field={name} is {ours} in record={get_full_name(whole[0])}"
                second = f"{theirs} in record={get_full_name(other)}"
                raise ConfigurationError(f"{first} and {second}; read them into tables of their own")
    shared = set.intersection(*(set(fields) for fields in fields_by_record))
    joined_fields = [field if field["name"] in shared else _optional(field) for field in whole[0]["fields"]]
    return _define_types_once({**whole[0], "fields": joined_fields}, set())


def _optional(field: Any) -> Any:
    return {"name": field["name"], "type": ["null", *list_branches(field["type"])], "default": None}


def _adopt_fields(ours: Any, theirs: Any) -> Any:
    """`ours` with what `theirs` has more, at every depth; both with each type written out."""
    if isinstance(ours, list):
        records = list_branches(ours)
        if len(records) != 1 or len(list_branches(theirs)) != 1:
            return ours
        adopted = _adopt_fields(records[0], list_branches(theirs)[0])
        return [adopted if branch is records[0] else branch for branch in ours]
    if isinstance(theirs, list):
        return _adopt_fields(ours, list_branches(theirs)[0]) if len(list_branches(theirs)) == 1 else ours
    if is_record(ours) and is_record(theirs):
        return {**ours, "fields": [*_adopt_record_fields(ours, theirs), *_list_dropped_fields(ours, theirs)]}
    part = {"array": "items", "map": "values"}.get(get_type_name(ours))
    if part and get_type_name(ours) == get_type_name(theirs):
        return {**ours, part: _adopt_fields(ours[part], theirs[part])}
    return ours


def _adopt_record_fields(ours: Any, theirs: Any) -> list[Any]:
    written_types = {field["name"]: field["type"] for field in theirs["fields"]}
    pairs = ((field, find_written_type(field, written_types)) for field in ours["fields"])
    return [field if old is None else {**field, "type": _adopt_fields(field["type"], old)} for field, old in pairs]


def find_written_type(field: Any, written: dict[str, Any]) -> Any:
    """The type that a writer has for a reader's field, under its name or one of its aliases; None for none."""
    return next((written[name] for name in (field["name"], *field.get("aliases", ())) if name in written), None)


def _list_dropped_fields(ours: Any, theirs: Any) -> list[Any]:
    known_names = {name for field in ours["fields"] for name in (field["name"], *field.get("aliases", ()))}
    return [_optional(field) for field in theirs["fields"] if field["name"] not in known_names]


def _inline_types(node: Any, names: dict[str, Any], space: str = "", inside: tuple[str, ...] = ()) -> Any:
    """A schema with each named type written out where it is used, with its namespace, but for one inside itself."""
    node = resolve_name(node, names)
    if isinstance(node, list):
        return [_inline_types(branch, names, space, inside) for branch in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") in NAMED_TYPES:
        space = str(node.get("namespace", space))
        node = {**node, "namespace": space} if space else node
        if get_full_name(node) in inside:
            return get_full_name(node)
        inside = (*inside, get_full_name(node))
    made = {k: _inline_types(v, names, space, inside) if k in ("items", "values") else v for k, v in node.items()}
    if "fields" in node:
        made["fields"] = [{**f, "type": _inline_types(f["type"], names, space, inside)} for f in node["fields"]]
    return made


def _define_types_once(node: Any, defined: set[str]) -> Any:
    """A schema with each named type written out where it is first used, and named by its full name afterwards."""
    if isinstance(node, list):
        return [_define_types_once(branch, defined) for branch in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") in NAMED_TYPES:
        if get_full_name(node) in defined:
            return get_full_name(node)
        defined.add(get_full_name(node))
    made = {k: _define_types_once(v, defined) if k in ("items", "values") else v for k, v in node.items()}
    if "fields" in node:
        made["fields"] = [{**f, "type": _define_types_once(f["type"], defined)} for f in node["fields"]]
    return made
