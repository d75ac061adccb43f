"""Tables that records name: which of them there are, found in the catalog, never remembered anywhere else.

A table belongs to a pipeline's template when the template can make its name and the pipeline has a position in it, or
batches staged for it. A name is new until then.
"""

from dataclasses import replace

from tidegate.errors import ConfigurationError
from tidegate.model import resource_names
from tidegate.model.ownership import Ownership, TableKind
from tidegate.ports.context import Ports
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.spec.table_template import TableTemplate
from tidegate.tables.distant_tables import split_intermediate_name


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
    pipeline, naming = ports.pipeline, get_naming(ports.pipeline)
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
    current, own = (
        name + resource_names.get_intermediate_suffix(pipeline),
        Ownership(TableKind.INTERMEDIATE, pipeline.name, name.partition(".")[2]),
    )
    return any(
        ports.staging.list_staged(intermediate, name)
        for intermediate in intermediates
        if intermediate == current or ports.tables.has_mark(intermediate, own)
    )
