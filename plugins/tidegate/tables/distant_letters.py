"""Dead letters that wait where the pipeline does not look for them.

They lie beside the first table of the file, and another one was the first when they were set aside.
"""

import logging

from tidegate.errors import TidegateError
from tidegate.model import resource_names
from tidegate.ports.context import Ports
from tidegate.spec.pipeline import Pipeline

log = logging.getLogger(__name__)
MAX_NAMESPACES = 50  # of those that the file does not name; each costs a request


def find_distant_letters(ports: Ports) -> list[str]:
    """One sentence for each other place where dead letters wait: in namespaces of the file, and of its catalogs.

    Of a namespace that the file does not name only letters of its tables count: another pipeline of this name may have
    left the others. Where the catalog has more than `MAX_NAMESPACES` of these, nobody looks there.
    """
    pipeline = ports.pipeline
    found = [
        (name, waiting)
        for name in resource_names.list_other_dead_letter_tables(pipeline)
        if (waiting := ports.dead_letters.read_dead_letters(name, 0).waiting)
    ]
    return [
        *(_describe_letters(pipeline, name, waiting, "") for name, waiting in found),
        *_find_unnamed_letters(ports),
    ]


def _describe_letters(pipeline: Pipeline, name: str, waiting: int, before: str) -> str:
    return (
        f"pipeline={pipeline.name}: dead letters={waiting} wait in table={name}, where the first table of the file lay "
        f"before, and the pipeline looks for them in table={resource_names.name_dead_letter_table(pipeline)}; {before}"
        f"put a table of {name.rsplit('.', 1)[0]} first in the file again, and replay or discard them"
    )


def _find_unnamed_letters(ports: Ports) -> list[str]:
    """The same of namespaces that the file does not name any more."""
    pipeline, told = ports.pipeline, list[str]()
    tables = [table.name for table in pipeline.tables if not table.discovers_names]
    for name in _list_unnamed_places(ports):
        try:
            is_worth_it = ports.dead_letters.read_dead_letters(name, 0).waiting
            waiting = sum(len(ports.dead_letters.list_waiting_letters(name, table)) for table in tables if is_worth_it)
        except TidegateError as reason:  # a namespace of others, perhaps: nobody needs to read it
            log.debug("pipeline=%s: not looked for dead letters: table=%s: %s", pipeline.name, name, reason)
            continue
        if waiting:
            way = "move their rows there with SQL (docs/operations.md#dead-letters), or "
            told.append(_describe_letters(pipeline, name, waiting, way))
    return told


def _list_unnamed_places(ports: Ports) -> list[str]:
    """Where dead letters would lie in the other namespaces of the catalogs that the file writes to."""
    pipeline = ports.pipeline
    named = {
        resource_names.name_dead_letter_table(pipeline),
        *resource_names.list_other_dead_letter_tables(pipeline),
    }
    spaces = [space for catalog in _list_catalogs(named) for space in _list_namespaces(ports, catalog)]
    names = [resource_names.name_dead_letter_table_in(space, pipeline) for space in spaces]
    unnamed = [name for name in names if name not in named]
    return unnamed if len(unnamed) <= MAX_NAMESPACES else []


def _list_catalogs(names: set[str]) -> list[str]:
    return sorted({name.split(".", 1)[0] for name in names})


def _list_namespaces(ports: Ports, catalog: str) -> list[str]:
    try:
        return ports.tables.list_namespaces(catalog)
    except TidegateError as reason:  # no flush needs the right to list them
        log.debug("pipeline=%s catalog=%s: its namespaces are not told: %s", ports.pipeline.name, catalog, reason)
        return []
