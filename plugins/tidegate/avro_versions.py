"""The fields that a subject's latest Avro schema dropped, kept as optional ones: older records still have them.

Without them an older record would lose its value in silence, and a newer one would leave the old value in its row.
"""

from collections.abc import Iterable
from typing import Any

from tidegate.avro_schema import NAMED, branches, full_name, is_record, named_types, resolved, type_name


def with_dropped_fields(latest: Any, older: Iterable[Any]) -> Any:
    """`latest` with each field that only older versions have, optional, behind its own; the first of `older` wins.

    `latest` itself where nothing was dropped. A field that was renamed by an alias was not dropped.
    """
    inlined = whole = _inline(latest, named_types(latest))
    for version in older:
        whole = _adopt(whole, _inline(version, named_types(version)))
    return latest if whole == inlined else _define_once(whole, set())


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
    return [
        {"name": field["name"], "type": ["null", *branches(field["type"])], "default": None}
        for field in theirs["fields"]
        if field["name"] not in known
    ]


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
