"""Tables that records name: which of them there are, found in the catalog, never remembered anywhere else.

A table belongs to a pipeline's template when the template can make its name and the pipeline has a position in it, or
batches staged for it. A name is new until then.
"""

from dataclasses import replace

from tidegate.errors import ConfigurationError
from tidegate.model import resource_names
from tidegate.ports.context import Ports
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.spec.table_template import TableTemplate


def expand_template(ports: Ports) -> Ports:
    """The same ports, with the tables that the template has made so far, and that of names, among the pipeline's."""
    pipeline = ports.pipeline
    if pipeline.template is None or any(table.discovers_names for table in pipeline.tables):
        return ports
    table_names = {table.name for table in pipeline.tables}
    made = [
        name
        for name in _list_candidates(ports, pipeline.template)
        if name not in table_names and _is_product_table(ports, name)
    ]
    finder = replace(pipeline.template, name=resource_names.name_registry_table(pipeline), naming=get_naming(pipeline))
    tables = (*pipeline.tables, *(make_concrete_table(pipeline, name) for name in made), finder)
    return replace(ports, pipeline=replace(pipeline, tables=tables))


def refuse_template(pipeline: Pipeline, what: str) -> None:
    """Raise ConfigurationError for what cannot be done yet with tables that records name."""
    if pipeline.template is not None:
        raise ConfigurationError(
            f"pipeline={pipeline.name} table={pipeline.template.name}: {what} does not know tables that records name; "
            "rebase the pipeline to read their records again"
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
    table_names = [table.identifier.rpartition(".")[2] for table in pipeline.tables if table.naming is None]
    return TableTemplate(
        template.identifier, template.namespaces, resource_names.build_reserved_pattern(pipeline, table_names)
    )


def _list_candidates(ports: Ports, template: Table) -> list[str]:
    """Full names that the template can make, of tables that are there or have an intermediate table."""
    naming, suffix = get_naming(ports.pipeline), resource_names.get_intermediate_suffix(ports.pipeline)
    names = set()
    for namespace in template.namespaces:
        parent = f"{template.catalog}.{namespace}"
        for table in ports.tables.list_tables(parent):
            name = table.removesuffix(suffix)
            if naming.makes(name):
                names.add(f"{parent}.{name}")
    return sorted(names)


def _is_product_table(ports: Ports, name: str) -> bool:
    state = ports.tables.read_state(name, ports.pipeline.name)
    if state is not None and state.recorded is not None:
        return True
    return bool(ports.staging.list_staged(name + resource_names.get_intermediate_suffix(ports.pipeline), name))
