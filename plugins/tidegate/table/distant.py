"""What lies in tables of the pipeline's own where it does not look for it, because its file has changed.

- Dead letters and history lie beside the first table of the file, and another one was the first before.
- Staged batches lie beside their table, under `merge.intermediate_suffix`: under a former one, or beside a table that
  the file does not name any more, and that its records cannot name either.
"""

import logging
import re
from collections.abc import Callable

from tidegate.errors import GiveUp, TidegateError
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.offsets import get_offset
from tidegate.model.ownership import Ownership, TableKind, describe_intermediate
from tidegate.ports.context import Ports, TableState
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table

ListTables = Callable[[str], list[str]]
log = logging.getLogger(__name__)
MAX_NAMESPACES = 50  # of those that the file does not name; each costs some requests
MAX_ROWS = 100  # of a history elsewhere, to see whose it is


def find_distant_letters(ports: Ports) -> list[str]:
    """One sentence for each other place where dead letters wait: in namespaces of the file, and of its catalogs.

    Of a namespace that the file does not name only letters of its tables count: another pipeline of this name may have
    left the others. Where the catalog has more than `MAX_NAMESPACES` of these, nobody looks there.
    """
    pipeline = ports.pipeline
    names = [
        resource_names.name_dead_letter_table_in(space, pipeline)
        for space in resource_names.list_other_namespaces(pipeline)
    ]
    waiting_letters = [
        (name, waiting) for name in names if (waiting := ports.dead_letters.read_dead_letters(name, 0).waiting)
    ]
    return [
        *(_describe_letters(pipeline, name, waiting, "") for name, waiting in waiting_letters),
        *_look_around(ports, _list_unnamed_namespaces(ports), _find_unnamed_letters),
    ]


def _describe_letters(pipeline: Pipeline, name: str, waiting: int, before: str) -> str:
    return (
        f"pipeline={pipeline.name}: dead letters={waiting} wait in table={name}, where the first table of the file lay "
        f"before, and the pipeline looks for them in table={resource_names.name_dead_letter_table(pipeline)}; {before}"
        f"put a table of {name.rsplit('.', 1)[0]} first in the file again, and replay or discard them"
    )


def _find_unnamed_letters(ports: Ports, namespace: str) -> list[str]:
    """The same of a namespace that the file does not name any more."""
    name = resource_names.name_dead_letter_table_in(namespace, ports.pipeline)
    is_worth_it = ports.dead_letters.read_dead_letters(name, 0).waiting
    tables = [table.name for table in ports.pipeline.tables if not table.discovers_names and is_worth_it]
    waiting = sum(len(ports.dead_letters.list_waiting_letters(name, table)) for table in tables)
    way = "move their rows there with SQL (docs/operations.md#dead-letters), or "
    return [_describe_letters(ports.pipeline, name, waiting, way)] if waiting else []


def find_distant_history(ports: Ports) -> list[str]:
    """One sentence for each other place with a history of the file's tables, until there is one at the new place."""
    pipeline = ports.pipeline
    spaces = [*resource_names.list_other_namespaces(pipeline), *_list_unnamed_namespaces(ports)]
    return _look_around(ports, spaces, _find_history_in)


def _find_history_in(ports: Ports, namespace: str) -> list[str]:
    pipeline = ports.pipeline
    tables = {table.name for table in ports.pipeline.tables}
    name = resource_names.name_control_table_in(namespace, pipeline)
    current = resource_names.name_control_table(pipeline)
    if not any(row["table"] in tables for row in ports.history.read_history(name, MAX_ROWS)):
        return []
    return [
        f"pipeline={pipeline.name}: the history of its batches lies in table={name}, where the first table of the file "
        f"lay before, and what is added to it in table={current}; no data depends on it: move its rows there with SQL, "
        "or drop it when nobody needs it"
    ]


def find_distant_batches(ports: Ports) -> list[str]:
    """One sentence for each other table of the pipeline's own in which batches wait, or a backfill of a removed table.

    In namespaces of the file, and of its catalogs as far as dead letters are looked for there.
    """
    pipeline = ports.pipeline
    file_namespaces = [resource_names.find_home_namespace(pipeline), *resource_names.list_other_namespaces(pipeline)]
    return _look_around(ports, [*file_namespaces, *_list_unnamed_namespaces(ports)], _find_batches_in)


def _find_batches_in(ports: Ports, namespace: str) -> list[str]:
    pipeline = ports.pipeline
    tables = {table.name.casefold(): table for table in pipeline.tables if not table.discovers_names}
    current = {resource_names.name_intermediate_table(pipeline, table).casefold() for table in tables.values()}
    listed = [f"{namespace}.{name}" for name in ports.tables.list_tables(namespace)]
    return [
        sentence
        for name in listed
        if name.casefold() not in current
        for base in split_intermediate_name(pipeline, name)
        if ports.tables.has_mark(name, Ownership(TableKind.INTERMEDIATE, pipeline.name, base.split(".", 1)[1]))
        for sentence in _describe_distant_batches(ports, name, base, tables.get(base.casefold()))
    ]


def _describe_distant_batches(ports: Ports, name: str, base: str, table: Table | None) -> list[str]:
    """What lies in the intermediate table `name` of `base`, which is `table` where the pipeline has it."""
    pipeline = ports.pipeline
    is_backfill = name.startswith(resource_names.get_backfill_prefix(pipeline.name, base))
    if is_backfill and table is not None:
        return []  # a backfill that is open is told with its table
    waiting = [] if is_backfill else _list_waiting(ports, name, base, ports.tables.read_state(base, pipeline.name))
    if table is not None:
        return [_describe_former_batches(pipeline, table, name, waiting)] if waiting else []
    if not is_backfill and not waiting:
        return []
    description = "the slices of a backfill" if is_backfill else f"batches={len(waiting)} that are not published"
    return [
        f"pipeline={pipeline.name} table={base}: {description} are staged in {name}, and neither the file nor its "
        "records name the table now, so no run continues them; name it in tables again, or drop that table if they "
        "may be lost"
    ]


def check_no_former_batches(
    ports: Ports, table: Table, state: TableState | None, list_tables: ListTables | None = None
) -> None:
    """`GiveUp` where batches wait under a former `merge.intermediate_suffix`: new ones would let them be forgotten."""
    for name, batches in list_former_batches(ports, table, state, list_tables).items():
        raise GiveUp(_describe_former_batches(ports.pipeline, table, name, batches))


def list_former_batches(
    ports: Ports, table: Table, state: TableState | None, list_tables: ListTables | None = None
) -> dict[str, list[StagedBatch]]:
    """By the name of each former intermediate table: the batches in it that are not published, oldest first."""
    names = list_former_intermediates(ports, table, list_tables)
    batches_by_name = {name: _list_waiting(ports, name, table.name, state) for name in names}
    return {name: batches for name, batches in batches_by_name.items() if batches}


def list_former_intermediates(ports: Ports, table: Table, list_tables: ListTables | None = None) -> list[str]:
    """Full names of the intermediate tables that the table has from another `merge.intermediate_suffix`.

    `list_tables` is the port's own, or one that lists each namespace once for all tables of a pipeline.
    """
    pipeline, (namespace, _, bare_name) = ports.pipeline, table.name.rpartition(".")
    begin = f"{bare_name}_{pipeline.name}".casefold()
    backfills = resource_names.get_backfill_prefix(pipeline.name, bare_name).casefold()
    current = f"{bare_name}{resource_names.get_intermediate_suffix(pipeline)}".casefold()
    try:
        listed = (list_tables or ports.tables.list_tables)(namespace)
    except GiveUp as reason:  # no flush needs the right to list them
        log.debug("pipeline=%s namespace=%s: its tables are not told: %s", pipeline.name, namespace, reason)
        return []
    similar = [
        f"{namespace}.{name}"
        for name in listed
        if (folded := name.casefold()).startswith(begin) and folded != current and not folded.startswith(backfills)
    ]
    return [name for name in similar if ports.tables.has_mark(name, describe_intermediate(pipeline, table))]


def get_former_suffix(pipeline: Pipeline, table: str, intermediate: str) -> str:
    """The suffix in the full name of the intermediate table that `table`, a full name, has from another one."""
    return intermediate[len(f"{table}_{pipeline.name}") :]


def split_intermediate_name(pipeline: Pipeline, name: str) -> list[str]:
    """Full names of the tables that a table of this full name may be an intermediate table of, under any suffix.

    None for the name of dead letters, history, or names.
    """
    namespace, _, bare_name = name.rpartition(".")
    owner = f"_{pipeline.name}"
    if bare_name.startswith(f"tidegate{owner}_"):
        return []
    ends = [match.start() for match in re.finditer(re.escape(owner), bare_name, re.IGNORECASE)]
    return [f"{namespace}.{bare_name[:end]}" for end in ends if 0 < end < len(bare_name) - len(owner)]


def _describe_former_batches(pipeline: Pipeline, table: Table, name: str, batches: list[StagedBatch]) -> str:
    return (
        f"pipeline={pipeline.name} table={table.name}: batches={len(batches)} are staged in {name} and not published, "
        f"and merge.intermediate_suffix is {pipeline.merge.intermediate_suffix} now: nothing new is read for this "
        "table, so that they are not forgotten; set merge.intermediate_suffix: "
        f"{get_former_suffix(pipeline, table.name, name)} again, flush until they are published, and change it then"
    )


def _list_waiting(ports: Ports, intermediate: str, table: str, state: TableState | None) -> list[StagedBatch]:
    """The batches that have something to write, and that the table has not come to yet."""
    staged = ports.staging.list_staged(intermediate, table)
    return [batch for batch in staged if batch.counts.to_write and _is_ahead(batch, state)]


def _is_ahead(staged: StagedBatch, state: TableState | None) -> bool:
    if state is None or state.recorded_position is None:
        return True
    offsets = state.recorded_position.offsets
    has_passed = all((get_offset(offsets, topic, partition) or 0) >= end for topic, partition, _, end in staged.ranges)
    return staged.batch > state.highest_batch and not has_passed


def _look_around(ports: Ports, namespaces: list[str], look: Callable[[Ports, str], list[str]]) -> list[str]:
    """What a look at each of these namespaces tells; one that may not be read is passed over."""
    sentences = list[str]()
    for namespace in namespaces:
        try:
            sentences += look(ports, namespace)
        except TidegateError as reason:  # a namespace of others, perhaps: nobody needs to read it
            log.debug("pipeline=%s: not looked at: namespace=%s: %s", ports.pipeline.name, namespace, reason)
    return sentences


def _list_unnamed_namespaces(ports: Ports) -> list[str]:
    """The other namespaces of the catalogs that the file writes to; none where there are very many."""
    home = resource_names.find_home_namespace(ports.pipeline)
    file_namespaces = {home, *resource_names.list_other_namespaces(ports.pipeline)}
    catalogs = sorted({name.split(".", 1)[0] for name in file_namespaces})
    unnamed = [
        space for catalog in catalogs for space in _list_namespaces(ports, catalog) if space not in file_namespaces
    ]
    return unnamed if len(unnamed) <= MAX_NAMESPACES else []


def _list_namespaces(ports: Ports, catalog: str) -> list[str]:
    try:
        return ports.tables.list_namespaces(catalog)
    except TidegateError as reason:  # no flush needs the right to list them
        log.debug("pipeline=%s catalog=%s: its namespaces are not told: %s", ports.pipeline.name, catalog, reason)
        return []
