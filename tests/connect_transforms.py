"""Kafka Connect's transforms as its documentation describes them, over one record: what a sink has written.

And random chains of them, as a connector's settings.
"""

import random
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Record = dict[str, Any]
Step = tuple[str, dict[str, str]]

OWN_FIELDS = ("a", "b", "c", "d")
NEW_FIELDS = ("x", "y")
MASK = "99"
STATIC = "77"
VALUES = {"a": "11", "b": "22", "c": "33", "d": None}  # each is recognized wherever it comes to
PACKAGE = "org.apache.kafka.connect.transforms."


class RefusedByConnect(Exception):
    """Two fields of one name: a schema refuses them; without a schema it depends on their order."""


def list_settings(steps: list[Step]) -> dict[str, str]:
    """The settings of a connector with these transforms."""
    settings = {"transforms": ",".join(f"t{index}" for index in range(len(steps)))}
    for index, (kind, options) in enumerate(steps):
        is_icebergs = kind == "CopyValue"
        name = f"io.tabular.iceberg.connect.transforms.{kind}" if is_icebergs else f"{PACKAGE}{kind}$Value"
        settings |= {f"transforms.t{index}.type": name}
        settings |= {f"transforms.t{index}.{option}": value for option, value in options.items()}
    return settings


def apply(steps: list[Step], record: Record, *, has_schema: bool) -> Record:
    """The row that a sink gets."""
    row = dict(record)
    for kind, options in steps:
        row = INTERPRETERS[kind](row, options, has_schema)
    return row


def _replace_fields(row: Record, options: dict[str, str], _: bool) -> Record:
    excluded, included = options.get("exclude", "").split(","), options.get("include", "")
    renames = dict(pair.split(":") for pair in options.get("renames", "").split(",") if pair)
    if any(name in NEW_FIELDS and name not in row for name in renames):
        raise RefusedByConnect  # no chain that somebody has written renames a field that is nowhere
    kept = [n for n in row if n not in excluded and (not included or n in included.split(","))]
    names = [renames.get(name, name) for name in kept]
    if len(set(names)) < len(names):
        raise RefusedByConnect
    return {new: row[old] for old, new in zip(kept, names, strict=True)}


def _mask_field(row: Record, options: dict[str, str], _: bool) -> Record:
    masked = options["fields"].split(",")
    return {n: type(value)(MASK) if n in masked and value is not None else value for n, value in row.items()}


def _add(row: Record, name: str, value: Any, has_schema: bool) -> Record:
    if has_schema and name in row:
        raise RefusedByConnect
    return {**row, name: value}


def _copy_value(row: Record, options: dict[str, str], has_schema: bool) -> Record:
    if has_schema and options["source.field"] not in row:
        raise RefusedByConnect
    return _add(row, options["target.field"], row.get(options["source.field"]), has_schema)


def _insert_field(row: Record, options: dict[str, str], has_schema: bool) -> Record:
    return _add(row, options["static.field"], options["static.value"], has_schema)


def _cast(row: Record, options: dict[str, str], _: bool) -> Record:
    for pair in options["spec"].split(","):
        name, _colon, kind = pair.partition(":")
        if row.get(name) is not None:
            row = {**row, name: int(row[name]) if kind == "int64" else str(row[name])}
    return row


INTERPRETERS: dict[str, Callable[[Record, dict[str, str], bool], Record]] = {
    "ReplaceField": _replace_fields,
    "MaskField": _mask_field,
    "CopyValue": _copy_value,
    "InsertField": _insert_field,
    "Cast": _cast,
}

_FIELD = st.sampled_from((*OWN_FIELDS, *OWN_FIELDS, *NEW_FIELDS))
_FIELDS = st.lists(_FIELD, min_size=1, max_size=2, unique=True).map(",".join)
_RENAMES = st.dictionaries(_FIELD, _FIELD, min_size=1, max_size=2).map(
    lambda names: ",".join(f"{old}:{new}" for old, new in names.items())
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ReplaceField"), st.fixed_dictionaries({"exclude": _FIELDS})),
        st.tuples(st.just("ReplaceField"), st.fixed_dictionaries({"renames": _RENAMES})),
        st.tuples(st.just("ReplaceField"), st.fixed_dictionaries({"exclude": _FIELDS, "renames": _RENAMES})),
        st.tuples(
            st.just("ReplaceField"), st.fixed_dictionaries({"include": _FIELDS.map(lambda names: f"{names},a,c")})
        ),
        st.tuples(st.just("MaskField"), st.fixed_dictionaries({"fields": _FIELDS, "replacement": st.just(MASK)})),
        st.tuples(st.just("CopyValue"), st.fixed_dictionaries({"source.field": _FIELD, "target.field": _FIELD})),
        st.tuples(
            st.just("InsertField"), st.fixed_dictionaries({"static.field": _FIELD, "static.value": st.just(STATIC)})
        ),
        st.tuples(
            st.just("Cast"),
            st.fixed_dictionaries({"spec": st.tuples(_FIELD, st.sampled_from(("int64", "string"))).map(":".join)}),
        ),
    ),
    min_size=1,
    max_size=5,
)


def choose_chain(chances: random.Random) -> list[Step]:
    """A chain of two to five transforms; each names fields that are there, or were there before."""
    steps: list[Step] = []
    names = list(OWN_FIELDS)
    while len(steps) < 5 and (len(steps) < 2 or chances.random() < 0.7):
        field, other = chances.sample(names, 2)
        new = f"n{len(names)}"
        step: Step = chances.choice(
            [
                ("ReplaceField", {"exclude": field}),
                ("ReplaceField", {"renames": f"{field}:{new}"}),
                ("ReplaceField", {"renames": f"{field}:{other},{other}:{field}"}),
                ("MaskField", {"fields": f"{field},{other}", "replacement": MASK}),
                ("CopyValue", {"source.field": field, "target.field": new}),
                ("InsertField", {"static.field": new, "static.value": STATIC}),
                ("Cast", {"spec": f"{field}:int64"}),
            ]
        )
        steps.append(step)
        try:
            is_new = new in apply(steps, VALUES, has_schema=True)
        except RefusedByConnect:
            steps.pop()
        else:
            names += [new] if is_new else []
    return steps
