"""Tables that records name: the entry of the file that they share, and the tables that it has made so far."""

from dataclasses import replace

from tidegate.errors import ConfigurationError
from tidegate.model import resource_names
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.spec.table_template import TableTemplate


def expand_template(session: Session) -> Session:
    """Add to the pipeline the tables that records have named so far, and the table of names."""
    pipeline = session.pipeline
    if pipeline.template is None or any(table.discovers_names for table in pipeline.tables):
        return session
    table_names = {table.name for table in pipeline.tables}
    concrete_names = [
        name
        for name in sorted(_list_candidates(session, pipeline.template))
        if name not in table_names and _is_product_table(session, name)
    ]
    finder = replace(pipeline.template, name=resource_names.name_registry_table(pipeline), naming=get_naming(pipeline))
    tables = (*pipeline.tables, *(make_concrete_table(pipeline, name) for name in concrete_names), finder)
    return replace(session, pipeline=replace(pipeline, tables=tables))


def refuse_template(pipeline: Pipeline, feature: str) -> None:
    """Raise `ConfigurationError` for what does not work with tables that records name."""
    if pipeline.template is not None:
        raise ConfigurationError(
            f"pipeline={pipeline.name} table={pipeline.template.name}: {feature} does not know tables that records "
            "name; rebase the pipeline to read their records again"
        )


def make_concrete_table(pipeline: Pipeline, name: str) -> Table:
    template = pipeline.template
    assert template is not None
    naming = replace(get_naming(pipeline), name=name.partition(".")[2])
    return replace(template, name=name, naming=naming)


def can_make_table(pipeline: Pipeline, name: str) -> bool:
    template = pipeline.template
    parent, _, table = name.rpartition(".")
    if template is None or parent not in {f"{template.catalog}.{namespace}" for namespace in template.namespaces}:
        return False
    return get_naming(pipeline).makes(table)


def get_naming(pipeline: Pipeline) -> TableTemplate:
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


def _list_candidates(session: Session, template: Table) -> set[str]:
    naming = get_naming(session.pipeline)
    suffix = resource_names.get_intermediate_suffix(session.pipeline).casefold()
    candidates = set[str]()
    for namespace in template.namespaces:
        parent = f"{template.catalog}.{namespace}"
        for listed in session.tables.list_tables(parent):
            bases = [listed[: -len(suffix)]] if listed.casefold().endswith(suffix) else []
            candidates |= {f"{parent}.{name}" for name in (listed, *bases) if naming.makes(name)}
    return candidates


def _is_product_table(session: Session, name: str) -> bool:
    pipeline = session.pipeline
    state = session.tables.read_state(name, pipeline.name)
    if state is not None and state.recorded_position is not None:
        return True
    return bool(session.staging.list_staged(name + resource_names.get_intermediate_suffix(pipeline), name))
