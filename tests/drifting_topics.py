"""Topics whose records drift as producers do: fields come, grow inside, are empty, or are spelled in another case.

No value is one that an earlier column cannot hold, so a table must be the same however the records are cut.
"""

import random
from typing import Any

RECORDS = 24
IDS = 9
ONLY_NEW = (10, 20)  # records whose objects have none of the fields that they had at first
Record = tuple[int, dict[str, Any] | None]  # the key, and the row; None for a delete
TEXTS = ["", "a", "1.50", "x.y:z", '"{', "{}", "[]", "null", '[{"a": null}]', "\\", "ß\u2028"]
HOLLOW = [None, {}, [], [{}], [None], {"a": None, "b": []}, {"a": {"b": [None, {}]}}]
KINDS = ["whole", "fraction", "point", "text", "flag", "object", "lines", "late", "never", "tags", "outer"]


def make_value(source: random.Random, kind: str, step: int) -> Any:
    """The value of a field in the record number `step` of its topic."""
    if source.random() < 0.25:
        return source.choice(HOLLOW)
    made = {
        "whole": lambda: source.choice([0, -1, 2**53 + 1, -(2**63), step]),
        "fraction": lambda: source.randint(1, 999) + 0.5,
        "point": lambda: float(source.randint(0, 9)) if step < 12 else source.randint(0, 9) + 0.25,
        "text": lambda: source.choice(TEXTS),
        "flag": lambda: source.random() < 0.5,
        "object": lambda: _make_object(source, step),
        "lines": lambda: [_make_line(source, n, step) for n in range(source.randint(0, 3))],
        "late": lambda: step if step > 15 else source.choice(HOLLOW),
        "never": lambda: source.choice(HOLLOW),
        "tags": lambda: [source.choice([None, "a", "[]"]) for _ in range(source.randint(0, 3))],
        "outer": lambda: {"in": {"deep": _make_object(source, step)}, "n": source.choice([None, 1])},
    }
    return made[kind]()


def _make_object(source: random.Random, step: int) -> dict[str, Any]:
    grown = {"Z": f"{step}"} if step > 8 else {}
    late = {"more": {"c": source.choice([None, step])}} if step > 16 else {}
    known = {"a": source.choice([None, step]), "empty": source.choice(HOLLOW)}
    return {**({} if step in ONLY_NEW else known), **grown, **late}


def _make_line(source: random.Random, number: int, step: int) -> Any:
    line = {"sku": source.choice([None, f"s{number}"]), **({"n": number + 0.5} if step > 10 else {})}
    return source.choice([None, {}, line, line, {**line, "q": []}])


def make_topic(seed: int, *, has_null_elements: bool = True, is_respelled: bool = True) -> list[Record]:
    """The records of one topic: with later rows of the same keys, deletes, and names in another case from some time on.

    A record has every field, or lacks some of them. BigQuery takes no list with NULL among its elements.
    """
    source = random.Random(seed)
    kinds = {f"{kind}{number}": kind for number, kind in enumerate(source.sample(KINDS, 7))}
    respelled = set(source.sample(sorted(kinds), 2)) if is_respelled else set()
    records: list[Record] = []
    for step in range(RECORDS):
        key = source.randrange(IDS)
        fields = {name: make_value(source, kind, step) for name, kind in kinds.items() if source.random() < 0.85}
        fields = fields if has_null_elements else {name: _drop_null_elements(field) for name, field in fields.items()}
        renamed = {name.title() if name in respelled and step > 13 else name: field for name, field in fields.items()}
        records.append((key, None if source.random() < 0.08 else {"id": key, **renamed}))
    return records


def _drop_null_elements(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _drop_null_elements(field) for name, field in value.items()}
    if isinstance(value, list):
        elements = [_drop_null_elements(element) for element in value]
        return [element for element in elements if drop_nothing(element) is not None] or value[:1]
    return value


def drop_nothing(value: Any) -> Any:
    """A value as a table may have it: without fields that hold no scalar, and None for what holds none at all."""
    if isinstance(value, dict):
        fields = {name: drop_nothing(field) for name, field in value.items()}
        return {name: field for name, field in sorted(fields.items()) if field is not None} or None
    if isinstance(value, list | tuple):
        elements = [drop_nothing(element) for element in value]
        return elements if any(element is not None for element in elements) else None
    return value


def list_rows(records: list[Record]) -> list[dict[str, Any]]:
    """The rows that a table of these records has, by their key; names without case."""
    last_rows = dict(records)
    return [normalize_row(row) for _, row in sorted(last_rows.items()) if row is not None]


def normalize_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name.casefold(): field for name, field in drop_nothing(row).items()}
