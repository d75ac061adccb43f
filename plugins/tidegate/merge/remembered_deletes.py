"""The table that remembers deletes, or changes, beside a destination: kept to the columns that a merge writes there."""

from tidegate.errors import CommitRefused, GiveUp
from tidegate.merge.scd2_statements import list_change_columns, list_destination_change_columns
from tidegate.model import resource_names
from tidegate.model.ownership import describe_memory
from tidegate.ports.context import Ports
from tidegate.spec.table import Table
from tidegate.tables.columns import list_deletes_columns
from tidegate.tables.compatibility import check_same_fields


def evolve_memory(ports: Ports, place: str, table: Table) -> None:
    """Change the types in the table of remembered deletes as the key's types changed. The merge creates a missing one.

    `GiveUp` where it was made for another key or order, `CommitRefused` where it was dropped meanwhile.
    """
    pipeline, memory = ports.pipeline, resource_names.name_memory_table(table)
    if not table.remembers:
        return
    has_history = table.history is not None
    list_columns = list_change_columns if ports.commits.has_branches(table.name) else list_destination_change_columns
    columns = (list_columns if has_history else list_deletes_columns)(table, pipeline.source.metadata)
    is_there = ports.tables.claim(memory, describe_memory(table, columns)) is not None
    state = ports.tables.read_state(memory, pipeline.name) if is_there else None
    if state is None:
        return
    try:
        if not has_history:
            check_same_fields(memory, state, columns)
        ports.tables.evolve(memory, columns, add=has_history, widen=table.widen, relax=True)
    except GiveUp as error:
        if ports.tables.read_state(memory, pipeline.name) is None:  # the merge makes it anew
            raise CommitRefused(f"{place}: table={memory} was dropped meanwhile") from error
        raise GiveUp(
            f"{place}: what remembers deletes was made for another key or another sequence_by: {error}; "
            f"set them back, or drop {memory}, which forgets the deletes"
        ) from error
