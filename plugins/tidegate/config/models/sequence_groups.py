"""The sequence groups of partial updates in a pipeline file: read, and checked against the table's columns."""

from collections.abc import Mapping

from tidegate.config.models.pipeline import GroupsModel, PipelineModel, TableModel
from tidegate.config.parsing.ddl import parse_columns
from tidegate.config.parsing.problems import Problems, suggest_closest
from tidegate.config.parsing.select_statement import parse_select
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.schema.data_types import Primitive, parse_type
from tidegate.spec.projection import Field, list_passed_columns

# of one total order, the same in Spark and in BigQuery: NaN, among others, has another place in each
ORDERED = ("TINYINT", "SMALLINT", "INT", "BIGINT", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
EXAMPLE = "write e.g. {version: [name, city]}"
Groups = tuple[tuple[str, tuple[str, ...]], ...]


def find_groups(table: TableModel) -> Groups:
    """The sequence columns, each with the columns that follow it."""
    groups = table.partial_updates.sequence_groups if isinstance(table.partial_updates, GroupsModel) else {}
    return tuple((sequence, tuple(columns)) for sequence, columns in groups.items())


def check_groups(
    table: TableModel, types: Mapping[str, str] | None, keys: list[str], path: KeyPath, findings: Problems
) -> None:
    """Columns that are missing, in two groups, or without an order.

    `types`: of the record's columns by names without case, None where the file does not tell them.
    """
    groups = find_groups(table)
    if isinstance(table.partial_updates, GroupsModel) and not groups:
        findings.add((*path, "partial_updates", "sequence_groups"), f"no group; {EXAMPLE}, or partial_updates: true")
    table_types = None if types is None else resolve_table_types(table, types)
    sequences = {sequence.casefold() for sequence, _ in groups}
    grouped_names: set[str] = set()
    for sequence, members in groups:
        group_path = (*path, "partial_updates", "sequence_groups", sequence)
        problem = find_name_problem(sequence, table_types, keys) or _find_disorder(sequence, table_types)
        if sequence.casefold() in grouped_names:
            problem = "listed twice in the groups; a column follows one sequence"
        elif not members:
            problem = f"no column follows it; {EXAMPLE}"
        if problem:
            findings.add(group_path, problem)
        grouped_names.add(sequence.casefold())
        for index, name in enumerate(members):
            problem = find_name_problem(name, table_types, keys)
            if name.casefold() in sequences:
                problem = "the sequence of a group, which is written with it; leave it out here"
            elif name.casefold() in grouped_names:
                problem = "listed twice in the groups; a column follows one sequence"
            if problem:
                findings.add((*group_path, index), problem)
            grouped_names.add(name.casefold())


def needs_no_offsets(table: TableModel, model: PipelineModel) -> bool:
    """Whether all columns are in groups and there are no deletes: no offset, which several topics do not share,
    decides.
    """
    groups = find_groups(table)
    value = table.value or model.source.value
    key = table.key or model.source.key
    if not groups or table.delete is not False or value.schema_ is None:
        return False
    try:
        types = {column.name.casefold(): column.type for column in parse_columns(value.schema_)}
    except ValueError:
        return False  # said where the schema is checked
    types |= {name.casefold(): "STRING" for name in model.source.metadata}
    keys = {(key.prefix + field).casefold() for field in key.fields}
    grouped_columns = {name.casefold() for sequence, members in groups for name in (sequence, *members)}
    return set(resolve_table_types(table, types)) - keys <= grouped_columns


def resolve_table_types(table: TableModel, types: Mapping[str, str]) -> dict[str, str]:
    """Types of the columns that `select` makes, else of the record's; STRING where unknown."""
    try:
        select = None if table.select is None else parse_select(table.select)
    except ValueError:
        select = None  # said where the statement is checked
    if select is None:
        return dict(types)
    as_they_are = list_passed_columns(select, [Field(name, "STRING") for name in types])
    derived_types = {item.name.casefold(): item.type or "STRING" for item in select.items if item.name}
    return {**derived_types, **{name: types[name] for name in as_they_are if name in types}}


def find_name_problem(name: str, table_types: Mapping[str, str] | None, keys: list[str]) -> str | None:
    """Why a key cannot list this column, or None. Without `table_types` the columns are unknown."""
    if name.casefold() in keys:
        return "a key column, which is the same in all records of a key; leave it out"
    if table_types is None or name.casefold() in table_types:
        return None
    return (
        f"not a column of the table; {suggest_closest(name, [column for column in table_types if column not in keys])}"
    )


def _find_disorder(name: str, table_types: Mapping[str, str] | None) -> str | None:
    kind = None if table_types is None else table_types.get(name.casefold())
    data_type = None if kind is None else parse_type(kind)
    if data_type is None or (isinstance(data_type, Primitive) and (data_type.decimal or data_type.name in ORDERED)):
        return None
    return f"{kind} has no order to go by; choose a whole number, DECIMAL, STRING, DATE or TIMESTAMP"
