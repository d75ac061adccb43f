"""answer_rollback: answer one rollback once, without a change to the pipeline file: read again, or go on after it."""

from dataclasses import dataclass, replace
from typing import Literal

from tidegate.errors import GiveUp
from tidegate.model.offsets import Offsets, get_offset, iterate_offsets
from tidegate.model.position import Position
from tidegate.model.resource_names import quote_word
from tidegate.ports.context import Ports, TableState
from tidegate.progress.position_checks import check_log, name_moved
from tidegate.progress.rolled_back_tables import list_rolled_back_tables
from tidegate.progress.topic_log import filter_table_log, read_log
from tidegate.reprocess.rebase import PartitionMove, TableMove, find_highest_staged, rebase_positions
from tidegate.spec.table import Table

Answer = Literal["rewind", "keep"]


@dataclass(frozen=True)
class ProposedAnswer:
    """One table that was rolled back: the `move` that answers it. `undone_moves`: the offsets that the table lacks."""

    move: TableMove
    undone_moves: tuple[PartitionMove, ...]


def propose_answers(ports: Ports, answer: Answer, name: str | None) -> list[ProposedAnswer]:
    """What `answer_rollbacks` would do to each table that was rolled back, or to the one named; changes nothing.

    rewind: the position becomes the one that main carries now, whose records the log must still hold; else
    `PositionLost`. keep: it stays the recorded one. `NothingToDo` where no table was rolled back.
    """
    propose = _propose_rewind if answer == "rewind" else _propose_keep
    return [propose(ports, table, state) for table, state in list_rolled_back_tables(ports, name)]


def _propose_rewind(ports: Ports, table: Table, state: TableState) -> ProposedAnswer:
    if state.position is None or state.is_untraceable:
        pipeline = ports.pipeline.name
        raise GiveUp(
            f"pipeline={pipeline} table={table.name}: no snapshot of {table.branch} has a position to rewind to; go "
            f"on after the recorded one with: tidegate answer-rollback {pipeline} --table {quote_word(table.name)} "
            f"--keep, or say where to read from with: tidegate rebase {name_moved(ports.pipeline, table)} --to earliest"
        )
    check_log(ports.pipeline, table, state.position, filter_table_log(read_log(ports), table), rewound=True)
    after = replace(state.position, batch=max(state.highest_batch, find_highest_staged(ports, table)))
    return _propose_answer(table, state, after)


def _propose_keep(ports: Ports, table: Table, state: TableState) -> ProposedAnswer:
    return _propose_answer(table, state, _require_recorded(state))


def _propose_answer(table: Table, state: TableState, after: Position) -> ProposedAnswer:
    recorded = _require_recorded(state)
    current: Offsets = state.position.offsets if state.position else {}
    undone = tuple(
        PartitionMove(
            table=table.name,
            topic=topic,
            partition=partition,
            before=offset,
            after=get_offset(current, topic, partition) or 0,
        )
        for topic, partition, offset in iterate_offsets(recorded.offsets)
    )
    return ProposedAnswer(TableMove(table, recorded, after), undone)


def _require_recorded(state: TableState) -> Position:
    assert state.recorded_position is not None  # a rollback is detected by it
    return state.recorded_position


def answer_rollbacks(ports: Ports, proposed: list[ProposedAnswer], answer: Answer, by: str) -> None:
    """Put the position where the answer says, by the compare-and-swap of a rebase; it notes `by` whom it was done."""
    rebase_positions(ports, [proposal.move for proposal in proposed], by, answer)
