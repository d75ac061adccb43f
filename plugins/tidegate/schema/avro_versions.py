"""The fields that a subject's latest Avro schema dropped, kept as optional ones: older records still have them.

Without them an older record would lose its value in silence, and a newer one would leave the old value in its row.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from tidegate.errors import ConfigurationError
from tidegate.schema.avro import NAMED, branches, full_name, is_record, named_types, resolved, spark_type, type_name


def with_dropped_fields(latest: Any, older: Iterable[Any]) -> Any:
    """`latest` with each field that only older versions have, optional, behind its own; the first of `older` wins.

    `latest` itself where nothing was dropped. A field that was renamed by an alias was not dropped.
    """
    inlined = whole = _inline(latest, named_types(latest))
    for version in older:
        whole = _adopt(whole, _inline(version, named_types(version)))
    return latest if whole == inlined else _define_once(whole, set())


def join_records(newest: Sequence[Any]) -> Any:
    """The first of several record types with all of its fields, optional where another type lacks them.

    What only the others have is added as dropped fields are. ConfigurationError names a field of two types.
    """
    whole = [_inline(schema, named_types(schema)) for schema in newest]
    known = [{field["name"]: field for field in schema["fields"]} for schema in whole]
    for other, fields in zip(whole[1:], known[1:], strict=True):
        for name in known[0].keys() & fields.keys():
            ours, theirs = (spark_type(of[name]["type"], {}) for of in (known[0], fields))
            if ours != theirs:
                first = f"field={name} is {ours} in record={full_name(whole[0])}"
                second = f"{theirs} in record={full_name(other)}"
                raise ConfigurationError(f"{first} and {second}; read them into tables of their own")
    shared = set.intersection(*(set(fields) for fields in known))
    kept = [field if field["name"] in shared else _optional(field) for field in whole[0]["fields"]]
    return _define_once({**whole[0], "fields": kept}, set())


def _optional(field: Any) -> Any:
    return {"name": field["name"], "type": ["null", *branches(field["type"])], "default": None}


def _adopt(ours: Any, theirs: Any) -> Any:
    """`ours` with what `theirs` has more, at every depth; both with each type written out."""
    if isinstance(ours, list):
        records = branches(ours)
        if len(records) != 1 or len(branches(theirs)) != 1:
            return ours
        adopted = _adopt(records[0], branches(theirs)[0])
        return [adopted if branch is records[0] else branch for branch in ours]
    if isinstance(theirs, list):
        return _adopt(ours, branches(theirs)[0]) if len(branches(theirs)) == 1 else ours
    if is_record(ours) and is_record(theirs):
        return {**ours, "fields": [*_fields(ours, theirs), *_dropped(ours, theirs)]}
    part = {"array": "items", "map": "values"}.get(type_name(ours))
    if part and type_name(ours) == type_name(theirs):
        return {**ours, part: _adopt(ours[part], theirs[part])}
    return ours


def _fields(ours: Any, theirs: Any) -> list[Any]:
    known = {field["name"]: field["type"] for field in theirs["fields"]}
    pairs = ((field, written_type(field, known)) for field in ours["fields"])
    return [field if old is None else {**field, "type": _adopt(field["type"], old)} for field, old in pairs]


def written_type(field: Any, written: dict[str, Any]) -> Any:
    """The type that a writer has for a reader's field, under its name or one of its aliases; None for none."""
    return next((written[name] for name in (field["name"], *field.get("aliases", ())) if name in written), None)


def _dropped(ours: Any, theirs: Any) -> list[Any]:
    known = {name for field in ours["fields"] for name in (field["name"], *field.get("aliases", ()))}
    return [_optional(field) for field in theirs["fields"] if field["name"] not in known]


def _inline(node: Any, names: dict[str, Any], space: str = "", inside: tuple[str, ...] = ()) -> Any:
    """A schema with each named type written out where it is used, with its namespace, but for one inside itself."""
    node = resolved(node, names)
    if isinstance(node, list):
        return [_inline(branch, names, space, inside) for branch in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") in NAMED:
        space = str(node.get("namespace", space))
        node = {**node, "namespace": space} if space else node
        if full_name(node) in inside:
            return full_name(node)
        inside = (*inside, full_name(node))
    made = {k: _inline(v, names, space, inside) if k in ("items", "values") else v for k, v in node.items()}
    if "fields" in node:
        made["fields"] = [{**f, "type": _inline(f["type"], names, space, inside)} for f in node["fields"]]
    return made


def _define_once(node: Any, defined: set[str]) -> Any:
    """A schema with each named type written out where it is first used, and named by its full name afterwards."""
    if isinstance(node, list):
        return [_define_once(branch, defined) for branch in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") in NAMED:
        if full_name(node) in defined:
            return full_name(node)
        defined.add(full_name(node))
    made = {k: _define_once(v, defined) if k in ("items", "values") else v for k, v in node.items()}
    if "fields" in node:
        made["fields"] = [{**f, "type": _define_once(f["type"], defined)} for f in node["fields"]]
    return made
