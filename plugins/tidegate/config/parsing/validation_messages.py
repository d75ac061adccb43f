"""Turns what Pydantic says about a pipeline file into messages with a remedy, and cuts the broken parts out.

What is left can still be checked as a whole, so that one wrong word does not hide the other mistakes.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from tidegate.config.parsing.problems import Problems, find_closest, get_value, suggest_closest
from tidegate.config.parsing.yaml_document import KeyPath

REMEDIES = {
    "missing": "missing, and it has no default; add it",
    "string_type": "must be text; put it in quotes",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "list_type": "must be a list, e.g. [a, b]",
    "tables_type": "must be a list; begin each entry with a dash, e.g. - name: lake.shop.orders",
    "dict_type": "must be a mapping of key: value",
    "model_type": "must be a mapping of key: value",
    "model_attributes_type": "must be a mapping of key: value",
    "invalid_key": "a key must be text; put it in quotes",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty; list at least one",
}
BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
}
# What stands in for a required value that is broken; every check of it is silent, since its path is.
STAND_INS: dict[Any, Any] = {"source": {}, "tables": []}  # any other: empty text
MAX_ROUNDS = 5
M = TypeVar("M", bound=BaseModel)


def read_model(model: type[M], data: dict[Any, Any], findings: Problems, root: KeyPath = ()) -> M:
    """`data` as `model`; what does not fit is noted in `findings` under `root` and left at its default."""
    remaining_data = deepcopy(data)
    for _ in range(MAX_ROUNDS):
        try:
            return model.model_validate(remaining_data)
        except ValidationError as fault:
            errors = fault.errors(include_url=False)
            _pass_over_misspelled_keys(errors, model, findings, root)
            for error in errors:
                path = _find_path(error)
                findings.add_broken((*root, *path), _format_message(error, model, path))
                _remove_value(remaining_data, path, missing=error["type"] == "missing")
    findings.raise_if_any()
    raise AssertionError(f"model={model.__name__}: its defaults do not fit it; fix the model")


def _find_path(error: Any) -> KeyPath:
    """The keys on the way to what does not fit, without pydantic's own words. An unknown key stays as it is written."""
    around = error["loc"][:-1]
    last = error["loc"][-1:]
    is_users = error["type"] == "extra_forbidden"
    return tuple(part for part in around if not _is_pydantics(part)) + (
        last if is_users else tuple(part for part in last if not _is_pydantics(part))
    )


def _is_pydantics(part: int | str) -> bool:
    return str(part).startswith(("<", "[key]"))


def _pass_over_misspelled_keys(
    errors: Iterable[Any], model: type[BaseModel], findings: Problems, root: KeyPath
) -> None:
    """Beside an unknown key that looks like one that is not there, nothing is said of the missing one."""
    for error in errors:
        if error["type"] == "extra_forbidden":
            *around, word = error["loc"]
            for key in find_closest(word, _list_allowed_keys(model, tuple(around))):
                path = (*root, *around, key)
                if get_value(findings.document.data, path) is ...:
                    findings.pass_over(path)


def _format_message(error: Any, model: type[BaseModel], path: KeyPath) -> str:
    kind = error["type"]
    context = error.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown key; {suggest_closest(path[-1], _list_allowed_keys(model, path[:-1]))}"
    if kind == "literal_error":
        words = [word.strip(" '") for word in context["expected"].replace(" or ", ",").split(",")]
        return f"not a known word; {suggest_closest(error['input'], words)}"
    if kind in BOUNDS:
        word, name = BOUNDS[kind]
        return f"out of range; must be {word} {context[name]}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "list_type" and path == ("tables",):
        kind = "tables_type"
    return REMEDIES.get(kind, str(error["msg"]))


def _list_allowed_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys that the mapping at `path` may have."""
    models = [model]
    for part in path:
        if isinstance(part, str):
            fields = [(n, f) for m in models for n, f in m.model_fields.items()]
            models = [m for n, f in fields if part in (n, f.alias) for m in _find_models(f.annotation)]
    return [field.alias or name for m in models for name, field in m.model_fields.items()]


def _find_models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _find_models(argument)]


def _remove_value(data: Any, path: KeyPath, *, missing: bool) -> None:
    """Drop the value at `path`, or the list around it; a required one gets its stand-in."""
    if path[:2] == ("source", "start") and len(path) == 3:
        path = path[:2]  # half a start means nothing
    while path:
        around = get_value(data, path[:-1])
        if isinstance(around, dict):
            around.pop(path[-1], None)
            if missing:
                around[path[-1]] = deepcopy(STAND_INS.get(path[-1], ""))
            return
        if isinstance(around, list) and path[-2:-1] == ("tables",):
            around[int(path[-1])] = {}  # not removed: the others keep their numbers
            return
        path = path[:-1]
