"""Collects everything that is wrong with one file, so that its author sees all mistakes at once."""

import difflib
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from tidegate.config.parsing.yaml_document import Document, KeyPath
from tidegate.errors import ConfigurationError
from tidegate.redaction import SECRET_MASK, has_secret, is_secret_name, mask_addresses
from tidegate.settings import format_path

MAX_VALUE_CHARACTERS = 60
R = TypeVar("R")


class Problems:
    """The problems of one document, each ``file:line: key.path=value: what is wrong; the way out``.

    `defaults`: what the document has of ``defaults.yaml``.
    """

    def __init__(self, document: Document, defaults: Mapping[str, Any] | None = None) -> None:
        self.document = document
        self.defaults = defaults
        self.entries = [(line, f"{document.shown}:{line}: {message}") for line, message in document.problems]
        self.broken: list[KeyPath] = []
        self.warnings: list[str] = []

    def add(self, path: KeyPath, message: str) -> None:
        """Note a problem at `path`, unless the value there is already known to be broken."""
        if any(path[: len(b)] == b or b[: len(path)] == path for b in self.broken if b):
            return
        entry = self._format_entry(path, message)
        if entry not in self.entries:
            self.entries.append(entry)

    def add_repeats(self, path: KeyPath, names: Sequence[str]) -> None:
        """Note each entry of the list at `path` that occurs before. `names`: the entries, folded where case does not
        count.
        """
        for index, name in enumerate(names):
            if name in names[:index]:
                self.add((*path, index), "listed twice; keep one")

    def run_check(self, path: KeyPath, check: Callable[..., R], *arguments: Any) -> R | None:
        """What `check` returns; what it raises about the value at `path` is noted."""
        try:
            return check(*arguments)
        except (ValueError, ConfigurationError) as fault:
            self.add(path, str(fault))
            return None

    def warn(self, path: KeyPath, message: str) -> None:
        """Note what is allowed and probably not meant."""
        _, text = self._format_entry(path, message)
        if text not in self.warnings:
            self.warnings.append(text)

    def _format_entry(self, path: KeyPath, message: str) -> tuple[int, str]:
        line = self.document.find_line(path)
        value = get_value(self.document.data, path)
        origin = ""
        if value is ... and (inherited := get_value(self.defaults, path)) is not ...:
            value = inherited
            origin = " (in defaults.yaml)"
        place = f"{format_key_path(path)}{format_value(path, value)}{origin}: " if path else ""
        return line, f"{self.document.shown}:{line}: {place}{mask_addresses(message)}"

    def add_broken(self, path: KeyPath, message: str) -> None:
        """Note that the value at `path` is unusable, and ignore later problems of it."""
        self.add(path, message)
        self.broken.append(path)

    def pass_over(self, path: KeyPath) -> None:
        """Ignore problems at `path`: they follow from one noted elsewhere."""
        self.broken.append(path)

    def raise_if_any(self) -> None:
        """`ConfigurationError` with all problems in the order of their lines."""
        if self.entries:
            raise ConfigurationError(*(line for _, line in sorted(self.entries, key=lambda entry: entry[0])))


def to_unexpected_problem(path: Path, error: Exception) -> ConfigurationError:
    """For a file over which Tidegate itself failed, with the place in its code; repeats no value."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return ConfigurationError(
        f"{format_path(path)}: an unexpected {type(error).__name__} ({Path(frame.filename).name}:{frame.lineno}) while "
        "it was read, which is a mistake of Tidegate's; take back what was changed last, and report it with the file"
    )


def format_key_path(path: KeyPath) -> str:
    """``("tables", 0, "name")`` as ``tables[0].name``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def get_value(data: Any, path: KeyPath) -> Any:
    """The value at `path` in YAML data; Ellipsis for none."""
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return ...
    return data


def format_value(path: KeyPath, value: Any) -> str:
    """``=value`` for a message: short, on one line, and never a secret."""
    if value is ... or isinstance(value, dict):
        return ""
    if any(is_secret_name(part) for part in path) or has_secret(value):
        return f"={SECRET_MASK}"
    if isinstance(value, datetime):
        value = value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bool) or value is None:
        return f"={'null' if value is None else str(value).lower()}"
    if isinstance(value, list) and any(isinstance(item, dict | list) or has_secret(item) for item in value):
        return ""
    text = " ".join(f"[{', '.join(map(str, value))}]".split() if isinstance(value, list) else str(value).split())
    if not text:
        text = repr(value)  # blanks are seen only between quotes
    return "=" + (text if len(text) <= MAX_VALUE_CHARACTERS else text[: MAX_VALUE_CHARACTERS - 1] + "…")


def refuse_secrets(value: Any, path: KeyPath, findings: Problems, place: str) -> None:
    """Note each secret at or below `path`, and the `place` where it belongs."""
    if isinstance(value, dict | list):
        for part, item in value.items() if isinstance(value, dict) else enumerate(value):
            refuse_secrets(item, (*path, part), findings, place)
    elif any(is_secret_name(part) for part in path) or has_secret(value):
        findings.add(path, f"a secret in a file; put it into {place}")


def find_closest(word: object, allowed: Iterable[str]) -> list[str]:
    """One or two of `allowed` that `word` may mean."""
    return difflib.get_close_matches(str(word).lower(), sorted(allowed), n=2, cutoff=0.55)


def suggest_closest(word: object, allowed: Iterable[str]) -> str:
    """``did you mean a or b?``, or all that is allowed when nothing comes near."""
    names = sorted(allowed)
    closest_words = find_closest(word, names)
    return f"did you mean {' or '.join(closest_words)}?" if closest_words else f"allowed: {', '.join(names)}"


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
    raise AssertionError(
        f"model={model.__name__}: its own defaults are refused, which is a mistake of Tidegate's; report it"
    )


def _find_path(error: Any) -> KeyPath:
    """The keys on the way to what does not fit, without pydantic's own words."""
    place: KeyPath = error["loc"]
    users_key = place[-1:] if error["type"] == "extra_forbidden" else ()  # whatever it is called
    around = place[: len(place) - len(users_key)]
    return (*(part for part in around if not str(part).startswith(("<", "[key]"))), *users_key)


def _pass_over_misspelled_keys(
    errors: Iterable[Any], model: type[BaseModel], findings: Problems, root: KeyPath
) -> None:
    for error in errors:
        if error["type"] == "extra_forbidden":
            *around, word = error["loc"]
            for key in find_closest(word, _list_allowed_keys(model, tuple(around))):
                path = (*root, *around, key)
                if get_value(findings.document.data, path) is ...:
                    # the unknown key is reported: the missing one that it resembles is not
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
