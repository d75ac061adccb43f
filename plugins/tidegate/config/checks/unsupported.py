"""What the pipeline file's contract already names and this version cannot do yet: refused in one clear line each."""

from typing import Any

from tidegate.config.parsing.problems import Problems, format_key_path
from tidegate.config.parsing.yaml_document import KeyPath

# Key -> the values that work today. Delete a line, or add a value to it, and the feature is on.
SUPPORTED_VALUES: dict[str, tuple[Any, ...]] = {"tables.strategy": ("merge",)}


def refuse_unsupported(data: Any, findings: Problems, path: KeyPath = ()) -> None:
    """Walk a pipeline model's plain data and note every value that only a later version can honour."""
    words = [part for part in path if isinstance(part, str)]
    for length in (1, 2, 3):
        allowed = SUPPORTED_VALUES.get(".".join(words[-length:]))
        if allowed is not None and len(words) > 1 and data not in allowed:
            findings.add(path, format_unsupported(*allowed))
            return
    for step, value in _list_children(data, format_key_path(path)):
        refuse_unsupported(value, findings, (*path, step))


def format_unsupported(*alternatives: Any) -> str:
    """The message, with the values that work today."""
    words = [str(word) for word in alternatives if word not in (None, [])]
    words = [{"True": "true", "False": "false"}.get(word, word) for word in words]
    return f"not available in this version; {'use ' + ' or '.join(words) if words else 'leave it out'}"


def _list_children(data: Any, path: str) -> list[tuple[Any, Any]]:
    if path.endswith(("kafka", "metadata", "properties", "conf", "offsets")):
        return []  # the user's own names stand there, not the contract's
    if isinstance(data, dict):
        return list(data.items())
    return list(enumerate(data)) if isinstance(data, list) else []
