"""What pipelines without a file have left in a BigQuery project: tables of their own, and marks of destinations."""

from collections.abc import Collection, Mapping

from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.position import build_position_label
from tidegate.errors import TidegateError
from tidegate.model import resource_names
from tidegate.model.ownership import KIND_LABEL, OWNER_LABEL, Ownership, PipelineLeftovers, TableKind, describe_control
from tidegate.sql import googlesql

Labels = Mapping[str, str]


def find_leftovers(
    warehouse: Warehouse, catalog: str, configured_pipelines: Collection[str]
) -> tuple[list[PipelineLeftovers], list[TidegateError]]:
    """For each pipeline whose control table is there and whose file is not: what it left, and what removes that.

    A label makes a table a pipeline's own, never its name alone. Nothing is changed. Second in the answer are the
    errors of datasets that cannot be listed.
    """
    tables = dict[str, Labels]()
    failures = list[TidegateError]()
    for dataset in warehouse.list_datasets():
        try:
            labels = warehouse.list_labels(f"{catalog}.{dataset}")
            tables |= {f"{catalog}.{dataset}.{table}": labels[table] for table in sorted(labels)}
        except TidegateError as error:
            failures.append(error)
    controls = {name: describe_control(name) for name in tables}
    pipelines = {owner.pipeline for name, owner in controls.items() if _is_marked(tables[name], owner)}
    orphaned_pipelines = sorted(pipelines - {*configured_pipelines})
    return [_describe(warehouse, pipeline, tables) for pipeline in orphaned_pipelines], failures


def _is_marked(labels: Labels, owner: Ownership) -> bool:
    return all(labels.get(key) == owner.labels[key] for key in (KIND_LABEL, OWNER_LABEL))


def _is_own(name: str, labels: Labels, pipeline: str) -> bool:
    kind = labels.get(KIND_LABEL)
    if kind not in set(TableKind):
        return False
    # the owner's label is a digest: the destination of a staged table is one that its name may begin with
    table = name.partition(".")[2]
    ends = (at for at in range(len(table)) if table.startswith(f"_{pipeline}", at))
    owners = (Ownership(TableKind(kind), pipeline, served) for served in ("", *(table[:end] for end in ends)))
    return any(_is_marked(labels, owner) for owner in owners)


def _describe(warehouse: Warehouse, pipeline: str, tables: Mapping[str, Labels]) -> PipelineLeftovers:
    own_tables = [name for name, labels in tables.items() if _is_own(name, labels, pipeline)]
    label = build_position_label(pipeline)
    destinations = [name for name, labels in tables.items() if label in labels]
    unmark_commands = []
    for name in destinations:
        project, _, table = warehouse.to_reference(name).partition(".")
        positions = googlesql.quote_name(resource_names.name_positions_table(warehouse.to_reference(name)))
        unmark_commands += [
            f"bq update --clear_label {label} {project}:{table}",
            f"DELETE FROM {positions} WHERE pipeline = {googlesql.render_literal(pipeline)}",
        ]
    return PipelineLeftovers(
        pipeline=pipeline,
        tables=own_tables,
        destinations=destinations,
        remove=[
            *(f"DROP TABLE {warehouse.quote_name(name)}" for name in own_tables),
            *unmark_commands,
            f"kafka-consumer-groups.sh --delete --group tidegate-{pipeline}",
        ],
    )
