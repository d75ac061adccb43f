"""Which tables of a pipeline were rolled back, and what a person is told of it and may do."""

from tidegate.errors import CommitRefused, ConfigurationError, GiveUp, NothingToDo
from tidegate.model import resource_names
from tidegate.model.offsets import format_names, format_offsets
from tidegate.model.position import Position
from tidegate.ports.context import Ports, TableState
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.tables.templated_tables import expand_template


def describe_rollback(pipeline: Pipeline, table: Table, state: TableState, move_words: str) -> str:
    """What happened to a rolled back table, and each way out that works; `move_words` are the arguments of rebase.

    Without a tag nothing can be undone, and where rows were picked onto the branch no position can be gone back to.
    """
    table_words = f"{pipeline.name} --table {resource_names.quote_word(table.name)}"
    recorded = _format_position(state.recorded_position)
    keep, rebase = f"tidegate answer-rollback {table_words} --keep", f"tidegate rebase {move_words} --to earliest"
    if state.is_untagged:
        return _describe_lost_tag(pipeline, table, state, move_words)
    if state.is_untraceable:
        return (
            f"pipeline={pipeline.name} table={table.name}: the snapshots between {table.branch} and the last published "
            f"one have expired, so nobody can tell whether the table was rolled back behind position={recorded}; if it "
            f"was not, go on with: {keep}; if it was, move the position, e.g. with: {rebase}"
        )
    if state.cherry_picked_batch is not None:
        return (
            f"table={table.name} was rolled back behind position={recorded} of pipeline={pipeline.name}, and the rows "
            f"of batch={state.cherry_picked_batch} were picked onto {table.branch} since (cherrypick_snapshot), so "
            "that records that are read again may be there already; undo both with: "
            f"tidegate undo-rollback {table_words} --discard-foreign; or go on after the position with: {keep}; or "
            f"move it, e.g. with: {rebase}"
        )
    if state.position is None:
        return (
            f"table={table.name} was rolled back or replaced: the last published snapshot of pipeline={pipeline.name} "
            f"is no longer part of {table.branch}, and no snapshot of {table.branch} has a position to rewind to; "
            f"go on after position={recorded} with: {keep}; or move the position, e.g. with: {rebase}"
        )
    return (
        f"table={table.name} was rolled back: the last published snapshot of pipeline={pipeline.name} is no longer "
        f"part of {table.branch}, which stands at position={_format_position(state.position)} recorded={recorded}; "
        f"undo that with: tidegate undo-rollback {table_words}; or read its records again with: tidegate "
        f"answer-rollback {table_words} --rewind; or go on after them with: {keep} (on_rollback: rewind or keep "
        "answers every rollback so)"
    )


def _describe_lost_tag(pipeline: Pipeline, table: Table, state: TableState, move_words: str) -> str:
    """Somebody dropped the tag. If the branch carries the recorded position, no published row is missing."""
    table_words = f"{pipeline.name} --table {resource_names.quote_word(table.name)}"
    recorded, carried = state.recorded_position, state.position
    keep = f"tidegate answer-rollback {table_words} --keep"
    place = (
        f"pipeline={pipeline.name} table={table.name}: the tag {resource_names.name_tag(pipeline.name)} of its last "
        f"published snapshot is gone, as somebody dropped it"
    )
    if carried and recorded and (carried.batch, carried.offsets) == (recorded.batch, recorded.offsets):
        return (
            f"{place}; {table.branch} carries the recorded position={_format_position(recorded)}, so no published row "
            f"is missing; go on, and set the tag again, with: {keep}"
        )
    if carried:
        return (
            f"{place}, and the table was rolled back: {table.branch} stands at position={_format_position(carried)} "
            f"recorded={_format_position(recorded)}; read its records again with: tidegate answer-rollback "
            f"{table_words} --rewind; or go on after them with: {keep}"
        )
    return (
        f"{place}, and no snapshot of {table.branch} tells a position, so nobody can tell whether the table was rolled "
        f"back behind position={_format_position(recorded)}; if it was not, go on with: {keep}; if it was, move the "
        f"position, e.g. with: tidegate rebase {move_words} --to earliest"
    )


def _format_position(position: Position | None) -> str:
    return format_offsets(position.offsets if position else {})


def select_tables(ports: Ports, name: str | None) -> tuple[Table, ...]:
    """The pipeline's tables that rows are published into, or the one of that name; `ConfigurationError` without it."""
    tables = tuple(table for table in expand_template(ports).pipeline.tables if not table.discovers_names)
    selected_tables = tuple(table for table in tables if name in (None, table.name))
    if not selected_tables:
        names = format_names([table.name for table in tables]) or "none yet"
        raise ConfigurationError(f"pipeline={ports.pipeline.name} has no table={name}; it has: {names}")
    return selected_tables


def list_rolled_back_tables(ports: Ports, name: str | None) -> list[tuple[Table, TableState]]:
    """Each of them that was rolled back, as it stands; `NothingToDo` where none was."""
    tables = select_tables(ports, name)
    states = [(table, ports.tables.read_state(table.name, ports.pipeline.name)) for table in tables]
    rolled_back = [(table, state) for table, state in states if state is not None and state.is_rolled_back]
    if not rolled_back:
        names = format_names([table.name for table in tables])
        raise NothingToDo(f"pipeline={ports.pipeline.name} tables={names}: none was rolled back; nothing was changed")
    return rolled_back


def refuse_rolled_back(ports: Ports, name: str, state: TableState | None) -> None:
    """`GiveUp` for a table that was rolled back: a note beside its recorded position would silently answer that."""
    if state is not None and state.is_rolled_back:
        table_words = f"{ports.pipeline.name} --table {resource_names.quote_word(name)}"
        raise GiveUp(
            f"pipeline={ports.pipeline.name} table={name}: it was rolled back, and nothing was changed; answer that "
            f"first with: tidegate undo-rollback {table_words}; or: tidegate answer-rollback {table_words} --rewind "
            "(or --keep)"
        )


def build_unanswered_error(pipeline: Pipeline, table: Table) -> GiveUp:
    """For a table whose rollback the pipeline file answers, and that no flush has published into since."""
    words = f"{pipeline.name} --table {resource_names.quote_word(table.name)} --{pipeline.on_rollback}"
    return GiveUp(
        f"pipeline={pipeline.name} table={table.name}: the table was rolled back and no flush has answered that yet; "
        f"flush first, or: tidegate answer-rollback {words}"
    )


def check_not_rolled_back(ports: Ports, name: str, state: TableState) -> None:
    """`CommitRefused`, which asks for another look, where the table was rolled back since the last one."""
    if state.is_rolled_back:
        raise CommitRefused(f"pipeline={ports.pipeline.name} table={name}: it was rolled back meanwhile")
