"""Which tables of a pipeline were rolled back, for the commands of a person: those that answer it, and all others."""

from tidegate.errors import CommitRefused, ConfigurationError, GiveUp, NothingToDo
from tidegate.model.offsets import format_names
from tidegate.ports.context import Ports, TableState
from tidegate.spec.table import Table
from tidegate.tables.templated_tables import expand_template


def select_tables(ports: Ports, name: str | None) -> tuple[Table, ...]:
    """The pipeline's tables that rows are published into, or the one of that name; `ConfigurationError` without it."""
    tables = tuple(table for table in expand_template(ports).pipeline.tables if not table.discovers_names)
    chosen = tuple(table for table in tables if name in (None, table.name))
    if not chosen:
        names = format_names([table.name for table in tables]) or "none yet"
        raise ConfigurationError(f"pipeline={ports.pipeline.name} has no table={name}; it has: {names}")
    return chosen


def list_rolled_back_tables(ports: Ports, name: str | None) -> list[tuple[Table, TableState]]:
    """Each of them that was rolled back, as it stands; `NothingToDo` where none was."""
    tables = select_tables(ports, name)
    states = [(table, ports.tables.read_state(table.name, ports.pipeline.name)) for table in tables]
    found = [(table, state) for table, state in states if state is not None and state.rolled_back]
    if not found:
        names = format_names([table.name for table in tables])
        raise NothingToDo(f"pipeline={ports.pipeline.name} tables={names}: none was rolled back; nothing was changed")
    return found


def refuse_rolled_back(ports: Ports, name: str, state: TableState | None) -> None:
    """`GiveUp` for a table that was rolled back: a note beside its recorded position would silently answer that."""
    if state is not None and state.rolled_back:
        named = f"{ports.pipeline.name} --table {name}"
        raise GiveUp(
            f"pipeline={ports.pipeline.name} table={name}: it was rolled back, and nothing was changed; answer that "
            f"first with: tidegate undo-rollback {named}; or: tidegate answer-rollback {named} --rewind (or --keep)"
        )


def check_not_rolled_back(ports: Ports, name: str, state: TableState) -> None:
    """`CommitRefused`, which asks for another look, where the table was rolled back since the last one."""
    if state.rolled_back:
        raise CommitRefused(f"pipeline={ports.pipeline.name} table={name}: it was rolled back meanwhile")
