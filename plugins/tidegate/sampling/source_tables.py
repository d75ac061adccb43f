"""A topic with the changes of several source tables, as one of a whole database: a sample for each of them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tidegate.model.kafka_log import KafkaRecord
from tidegate.sampling.recognition import recognise
from tidegate.sampling.rows import list_rows
from tidegate.sampling.samples import TopicSample

ODD_CHARACTERS_PATTERN = re.compile(r"[^\w-]+")


def split_sample(sample: TopicSample) -> dict[str, TopicSample]:
    """The records of each source table by its name; empty for a topic of one table, or of records that name none.

    Also for a topic in which a name stands for several tables: to tell them apart takes more than the name. What the
    source writes of itself is no table of anybody.
    """
    recognised = recognise(sample, "value")
    layout = recognised.look.event.event if recognised and recognised.look.event else None
    if recognised is None or layout is None:
        return {}
    records: dict[str, list[KafkaRecord]] = {}
    scopes: dict[str, set[tuple[str, ...]]] = {}
    for record, look in zip(recognised.records, recognised.looks, strict=True):
        name = find_in(look.data, layout.table)
        scope = tuple(str(find_in(look.data, path)) for path in layout.scopes)
        if isinstance(name, str) and name and not (layout.own_scope and layout.own_scope in scope):
            records.setdefault(name, []).append(record)
            scopes.setdefault(name, set()).add(scope)
    samples = {name: replace(sample, records=tuple(of_table)) for name, of_table in records.items()}
    tables = {name: part for name, part in samples.items() if _has_rows(part)}
    names_one_each = all(len(scopes[name]) == 1 for name in tables) and len({*map(to_table_name, tables)}) == len(
        tables
    )
    return dict(sorted(tables.items())) if len(tables) > 1 and names_one_each else {}


def _has_rows(sample: TopicSample) -> bool:
    recognised = recognise(sample, "value")
    return recognised is not None and bool(list_rows(recognised))


def to_table_name(source_table: str) -> str:
    """The name of a destination for a source table, which may stand behind a schema."""
    return ODD_CHARACTERS_PATTERN.sub("_", source_table.rpartition(".")[2])


def find_in(data: Any, path: Sequence[str]) -> Any:
    """What stands at the path in nested objects, None where nothing does."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data
