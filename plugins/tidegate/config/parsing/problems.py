"""Collects everything that is wrong with one file, so that its author hears of all mistakes at once."""

import difflib
import traceback
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tidegate.config.parsing.yaml_document import Document, KeyPath
from tidegate.errors import ConfigurationError
from tidegate.redaction import SECRET_MASK, has_secret, is_secret_name, mask_addresses
from tidegate.settings import format_path

MAX_VALUE_CHARACTERS = 60


class Problems:
    """The problems of one document, each ``file:line: key.path=value: what is wrong; the way out``."""

    def __init__(self, document: Document) -> None:
        self.document = document
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
        """Note each entry of the list at `path` that stands before it, too: one problem for each. `names` are its
        entries, folded where case does not tell them apart."""
        for index, name in enumerate(names):
            if name in names[:index]:
                self.add((*path, index), "listed twice; keep one")

    def warn(self, path: KeyPath, message: str) -> None:
        """Note what is allowed and probably not meant."""
        _, text = self._format_entry(path, message)
        if text not in self.warnings:
            self.warnings.append(text)

    def _format_entry(self, path: KeyPath, message: str) -> tuple[int, str]:
        line = self.document.find_line(path)
        place = format_key_path(path) + format_value(path, get_value(self.document.data, path)) + ": " if path else ""
        return line, f"{self.document.shown}:{line}: {place}{mask_addresses(message)}"

    def add_broken(self, path: KeyPath, message: str) -> None:
        """Note that the value at `path` cannot be used at all: later checks of it would only repeat that."""
        self.add(path, message)
        self.broken.append(path)

    def pass_over(self, path: KeyPath) -> None:
        """Say nothing of `path`: what is wrong there follows from a problem that is noted elsewhere."""
        self.broken.append(path)

    def raise_if_any(self) -> None:
        """ConfigurationError with all problems in the order of their lines."""
        if self.entries:
            raise ConfigurationError(*(line for _, line in sorted(self.entries, key=lambda entry: entry[0])))


def to_unexpected_problem(path: Path, error: Exception) -> ConfigurationError:
    """The problem of a file over which Tidegate itself has failed, with the place in its code; no value is repeated."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return ConfigurationError(
        f"{format_path(path)}: an unexpected {type(error).__name__} ({Path(frame.filename).name}:{frame.lineno}) while "
        "it was read, which is a mistake of Tidegate's; take back what was changed last, and report it with the file"
    )


def format_key_path(path: KeyPath) -> str:
    """``("tables", 0, "name")`` as ``tables[0].name``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def get_value(data: Any, path: KeyPath) -> Any:
    """What stands at `path` in YAML data; Ellipsis when nothing does."""
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
    """Note each secret in what stands at `path`, however deep it lies, and the `place` where it belongs."""
    if isinstance(value, dict | list):
        for part, item in value.items() if isinstance(value, dict) else enumerate(value):
            refuse_secrets(item, (*path, part), findings, place)
    elif any(is_secret_name(part) for part in path) or has_secret(value):
        findings.add(path, f"a secret in a file; put it into {place}")


def find_closest(word: object, allowed: Iterable[str]) -> list[str]:
    """The one or two of `allowed` that may have been meant by `word`."""
    return difflib.get_close_matches(str(word).lower(), sorted(allowed), n=2, cutoff=0.55)


def suggest_closest(word: object, allowed: Iterable[str]) -> str:
    """``did you mean a or b?``, or all that is allowed when nothing comes near."""
    names = sorted(allowed)
    closest_words = find_closest(word, names)
    return f"did you mean {' or '.join(closest_words)}?" if closest_words else f"allowed: {', '.join(names)}"
