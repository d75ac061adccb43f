"""Since which offsets a table follows the log without a gap, its records read by the same rules: what can be verified.

Each merge writes it beside the position. A move of the position that is no merge shows in the next one, whose start is
not the end of the one before.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidegate.model.offsets import Offsets, find_highest, get_offset, group_by_topic, iterate_offsets
from tidegate.model.plain_data import read_plain
from tidegate.model.position import Position, format_compact
from tidegate.model.resource_names import name_pipeline_property
from tidegate.model.table_state import TableState
from tidegate.spec.pipeline import RollbackPolicy
from tidegate.spec.source import Errors
from tidegate.table.columns import compute_shape
from tidegate.table.session import TableSession

COVERAGE_PROPERTY = "coverage"


@dataclass(frozen=True)
class Coverage:
    """All records of `[start, end)` are in the table, and `rules` tells how they were read.

    `is_whole`: the table had no row before. While a table that was moved back catches up, `start` is behind `end`.
    """

    rules: str
    start: Offsets
    end: Offsets
    is_whole: bool

    @property
    def seen(self) -> Offsets:
        """Up to where the table may have rows: the start, after a move backwards."""
        return find_highest(self.start, self.end)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Coverage":
        return read_plain(cls, data)


def compute_rules(table: TableSession, position: Position) -> str:
    """Return a digest of how a record becomes a row, by the pipeline file and the schemas.

    The topics of `position` count too, with their ids.
    """
    # bad records are set aside or not, and columns that records have made are the table's by now
    spec = replace(table.resolved, errors=Errors(), value=replace(table.resolved.value, added=()))
    source = table.pipeline.source
    parts = (spec.key, spec.value, spec.update_columns, spec.deleted_column, spec.topic_column)
    log = (position.cluster_id, sorted(position.topic_ids.items()))
    text = repr((compute_shape(spec), parts, source.isolation, source.verify_integrity, log))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_coverage(pipeline: str, state: TableState | None) -> Coverage | None:
    text = (state.marks if state else {}).get(name_pipeline_property(pipeline, COVERAGE_PROPERTY))
    return None if text is None else Coverage.from_dict(json.loads(text))


def extend_coverage(table: TableSession, start: Offsets, position: Position) -> dict[str, str]:
    """Return the property of a merge from `start` to `position`.

    It goes on where the last merge ended. Behind a gap, and under other rules, it begins anew; after a move backwards
    not before the offsets that the table had seen already.
    """
    state = table.require_state()
    rules = compute_rules(table, position)
    before = read_coverage(table.pipeline.name, state)
    if before is None:
        return _to_property(table, Coverage(rules, start, position.offsets, is_whole=state.total_records == 0))
    if state.is_rolled_back:
        is_rewound = table.pipeline.on_rollback == RollbackPolicy.REWIND
        before = _rewind(before, start) if is_rewound else _forget(before, start)
    # rows of a topic that is read no more stay
    has_all = all(
        get_offset(start, topic, partition) is not None for topic, partition, _ in iterate_offsets(before.end)
    )
    begins = dict[tuple[str, int], int]()
    seen = before.seen
    for topic, partition, offset in iterate_offsets(start):
        goes_on = has_all and rules == before.rules and get_offset(before.end, topic, partition) == offset
        reached = max(offset, get_offset(seen, topic, partition) or 0)
        begins[topic, partition] = before.start[topic][partition] if goes_on else reached
    return _to_property(table, Coverage(rules, group_by_topic(begins), position.offsets, before.is_whole and has_all))


def answer_coverage(table: TableSession, offsets: Offsets) -> dict[str, str]:
    """Return the property for a position that is moved to `offsets`, back or in answer to a rollback; else none."""
    state = table.require_state()
    before = read_coverage(table.pipeline.name, state)
    if before is None:
        return {}
    if state.is_rolled_back:
        is_rewound = state.position is not None and state.position.offsets == offsets
        return _to_property(table, _rewind(before, offsets) if is_rewound else _forget(before, offsets))
    # no merge tells it, if the table is rolled back to this very move
    seen = before.seen
    begins = {
        (topic, partition): begin
        if (get_offset(offsets, topic, partition) or 0) >= (get_offset(before.end, topic, partition) or 0)
        else seen[topic][partition]
        for topic, partition, begin in iterate_offsets(before.start)
    }
    moved = replace(before, start=group_by_topic(begins))
    return {} if moved == before else _to_property(table, moved)


def _rewind(before: Coverage, offsets: Offsets) -> Coverage:
    # main is an ancestor that stands at `offsets`: what was read behind them has left no row; nor has what a move has
    # skipped, which ends beyond the last merge. An ancestor that was moved back may have rows up to the start
    seen = before.seen
    begins = {
        (topic, partition): max(offset, get_offset(seen, topic, partition) or 0)
        if offset > (get_offset(before.end, topic, partition) or 0)
        else get_offset(before.start, topic, partition) or 0
        for topic, partition, offset in iterate_offsets(offsets)
    }
    return Coverage(before.rules, group_by_topic(begins), offsets, before.is_whole)


def _forget(before: Coverage, offsets: Offsets) -> Coverage:
    # the rows of records behind main are gone for good
    seen = find_highest(before.seen, offsets)
    return Coverage(before.rules, seen, seen, before.is_whole)


def _to_property(table: TableSession, coverage: Coverage) -> dict[str, str]:
    name = name_pipeline_property(table.pipeline.name, COVERAGE_PROPERTY)
    return {name: format_compact(asdict(coverage))}
