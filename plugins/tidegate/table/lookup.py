"""A pipeline's table by its name."""

import json
import logging
from dataclasses import replace

from tidegate.errors import ConfigurationError, TableRemoved
from tidegate.model import resource_names
from tidegate.model.batch import Plan
from tidegate.model.ownership import Ownership, TableKind
from tidegate.ports.context import Ports, TableState
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.projection import Dimension, Field, Select
from tidegate.spec.table import Table
from tidegate.spec.table_template import TableTemplate
from tidegate.table.distant import split_intermediate_name


def expand_template(ports: Ports) -> Ports:
    """The same ports, with the tables that the template has made so far, and that of names, among the pipeline's."""
    pipeline = ports.pipeline
    if pipeline.template is None or any(table.discovers_names for table in pipeline.tables):
        return ports
    table_names = {table.name for table in pipeline.tables}
    concrete_names = [
        name
        for name, intermediates in sorted(_list_candidates(ports, pipeline.template).items())
        if name not in table_names and _is_product_table(ports, name, intermediates)
    ]
    finder = replace(pipeline.template, name=resource_names.name_registry_table(pipeline), naming=get_naming(pipeline))
    tables = (*pipeline.tables, *(make_concrete_table(pipeline, name) for name in concrete_names), finder)
    return replace(ports, pipeline=replace(pipeline, tables=tables))


def refuse_template(pipeline: Pipeline, feature: str) -> None:
    """Raise ConfigurationError for what cannot be done yet with tables that records name."""
    if pipeline.template is not None:
        raise ConfigurationError(
            f"pipeline={pipeline.name} table={pipeline.template.name}: {feature} does not know tables that records "
            "name; rebase the pipeline to read their records again"
        )


def make_concrete_table(pipeline: Pipeline, name: str) -> Table:
    """One table of the template, by its full name."""
    template = pipeline.template
    assert template is not None
    naming = replace(get_naming(pipeline), name=name.partition(".")[2])
    return replace(template, name=name, naming=naming)


def can_make_table(pipeline: Pipeline, name: str) -> bool:
    """Whether records can name this table, by its full name."""
    template, (parent, _, table) = pipeline.template, name.rpartition(".")
    if template is None or parent not in {f"{template.catalog}.{namespace}" for namespace in template.namespaces}:
        return False
    return get_naming(pipeline).makes(table)


def get_naming(pipeline: Pipeline) -> TableTemplate:
    """How the pipeline's records name their table."""
    template = pipeline.template
    assert template is not None
    fixed_tables = [table.identifier for table in pipeline.tables if table.naming is None]
    reserved_names = [identifier.rpartition(".")[2] for identifier in fixed_tables]
    # no table is called like a namespace: the files of that namespace's tables would lie among its own
    for namespace in template.namespaces:
        above = f"{namespace}.".casefold()
        inside = [name for name in (*fixed_tables, *template.namespaces) if name.casefold().startswith(above)]
        reserved_names += [name[len(above) :].partition(".")[0] for name in inside]
    return TableTemplate(
        template.identifier,
        template.namespaces,
        resource_names.build_reserved_pattern(pipeline, dict.fromkeys(reserved_names)),
    )


def _list_candidates(ports: Ports, template: Table) -> dict[str, list[str]]:
    """Full names that the template can make, of tables that are there or have intermediate tables, and those of each.

    Among these are the ones of a former `merge.intermediate_suffix`: what a batch in them has named is known already.
    """
    pipeline = ports.pipeline
    naming = get_naming(ports.pipeline)
    candidates = dict[str, list[str]]()
    for namespace in template.namespaces:
        parent = f"{template.catalog}.{namespace}"
        for listed in ports.tables.list_tables(parent):
            if naming.makes(listed):
                candidates.setdefault(f"{parent}.{listed}", [])
            for base in split_intermediate_name(pipeline, f"{parent}.{listed}"):
                if naming.makes(base.rpartition(".")[2]):
                    candidates.setdefault(base, []).append(f"{parent}.{listed}")
    return candidates


def _is_product_table(ports: Ports, name: str, intermediates: list[str]) -> bool:
    """Whether the pipeline has a position in the table, or batches staged for it."""
    pipeline = ports.pipeline
    state = ports.tables.read_state(name, pipeline.name)
    if state is not None and state.recorded_position is not None:
        return True
    current = name + resource_names.get_intermediate_suffix(pipeline)
    own = Ownership(TableKind.INTERMEDIATE, pipeline.name, name.partition(".")[2])
    return any(
        ports.staging.list_staged(intermediate, name)
        for intermediate in intermediates
        if intermediate == current or ports.tables.has_mark(intermediate, own)
    )


def describe_table(ports: Ports, table: Table) -> Table:
    """`table` as its schemas describe it, and the columns of the dimension tables that its `select` joins."""
    described_table = ports.schemas.describe_table(table)
    if described_table.select is None or not described_table.select.dimensions:
        return described_table
    joined_dimensions = tuple(
        _look_up_columns(ports, described_table, dimension) for dimension in described_table.select.dimensions
    )
    return replace(described_table, select=replace(described_table.select, dimensions=joined_dimensions))


def _look_up_columns(ports: Ports, table: Table, dimension: Dimension) -> Dimension:
    state = _read_dimension_state(ports, table, dimension)
    return replace(dimension, columns=tuple(Field(c.name, c.type, c.nullable) for c in state.columns))


def _read_dimension_state(ports: Ports, table: Table, dimension: Dimension) -> TableState:
    state = ports.tables.read_state(dimension.table, ports.pipeline.name)
    if state is None:
        raise ConfigurationError(
            f"pipeline={ports.pipeline.name} table={table.name}: select joins table={dimension.table}, which does not "
            "exist; create it, or correct the name"
        )
    return state


def pin_dimensions(ports: Ports, table: Table) -> Table:
    """`table` with each dimension at the snapshot that stands there now: all of a batch's records see the same rows."""
    if table.select is None:
        return table
    pinned_dimensions = tuple(
        replace(d, snapshot_id=_read_dimension_state(ports, table, d).snapshot_id) for d in table.select.dimensions
    )
    return replace(table, select=replace(table.select, dimensions=pinned_dimensions))


def format_pins(select: Select | None) -> dict[str, str]:
    """For the staged batch's summary: which snapshot of each dimension table its rows were made with."""
    if select is None or not select.dimensions:
        return {}
    pins = {d.table: None if d.snapshot_id is None else str(d.snapshot_id) for d in select.dimensions}
    return {"tidegate.dimensions": json.dumps(pins)}


log = logging.getLogger(__name__)


def find_table(ports: Ports, name: str) -> Table:
    """The pipeline's table of that name, as its schemas describe it; one that is not among them its template made.

    ConfigurationError for a table that the file does not name.
    """
    if not has_table(ports.pipeline, name):
        raise ConfigurationError(f"pipeline={ports.pipeline.name} table={name} is not in the file; put it there again")
    configured_table = next((table for table in ports.pipeline.tables if table.name == name), None)
    return describe_table(ports, configured_table or make_concrete_table(ports.pipeline, name))


def check_table_is_known(ports: Ports, name: str) -> None:
    """TableRemoved where the file, changed since the run began, names the table no more."""
    if not has_table(ports.pipeline, name):
        raise _build_removed_error(ports.pipeline, name)


def keep_known_tables(ports: Ports, plan: Plan) -> Plan:
    """The plan without the tables that the file names no more; TableRemoved where none is left."""
    known = tuple(table for table in plan.tables if has_table(ports.pipeline, table.table))
    errors = [_build_removed_error(ports.pipeline, table.table) for table in plan.tables if table not in known]
    if errors and not known:
        raise errors[0]
    for reason in errors:
        log.warning("%s", reason)
    return replace(plan, tables=known)


def _build_removed_error(pipeline: Pipeline, name: str) -> TableRemoved:
    return TableRemoved(
        f"pipeline={pipeline.name} table={name} is not in the file any more: nothing is written to it; what is staged "
        "for it waits until the file names it again"
    )


def has_table(pipeline: Pipeline, name: str) -> bool:
    """Whether the file of the pipeline names the table, or its records can."""
    return any(table.name == name for table in pipeline.tables) or can_make_table(pipeline, name)
