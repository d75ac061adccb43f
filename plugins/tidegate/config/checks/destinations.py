"""Checks what a pipeline file asks of its tables against what their types of destination can do."""

from collections.abc import Mapping

from tidegate.config.destinations.registry import DESTINATIONS, get_destination, list_titles
from tidegate.config.models.pipeline import PipelineModel, TableModel
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.model.backfill import ID_DIGITS
from tidegate.model.resource_names import get_branch_suffix
from tidegate.spec.pipeline import Catalog
from tidegate.spec.table_template import MAX_NAME_CHARACTERS, is_template

MIN_DOTS = 2  # of a table's full name
SHOWN_NAME_CHARACTERS = 60


def check_destinations(
    pipeline: str, model: PipelineModel, catalogs: Mapping[str, Catalog | str], findings: Problems
) -> None:
    """What the tables of a pipeline file ask for and their destinations cannot do."""
    declared = [_find_catalog(table, catalogs) for table in model.tables]
    for index, (table, catalog) in enumerate(zip(model.tables, declared, strict=True)):
        get_destination(catalog).check_table(model, table, catalog, ("tables", index), findings)
        _check_branch(table, catalog, ("tables", index), findings)
        _check_partition_columns(table, catalog, ("tables", index), findings)
        suffix = f"_{pipeline}{model.merge.intermediate_suffix}"
        _check_name_lengths(table, suffix, get_destination(catalog).max_name_bytes, ("tables", index, "name"), findings)
    destinations = {catalog.type: get_destination(catalog) for catalog in declared if catalog is not None}
    for kind, destination in destinations.items():
        own = [catalog for catalog in declared if catalog is not None and catalog.type == kind]
        destination.check_pipeline(model, own, findings)
    is_mixed = len(destinations) + (None in declared) > 1
    if is_mixed and not all(destination.keeps_letters_of_others for destination in destinations.values()):
        _refuse_tolerance(model, findings)


def _refuse_tolerance(model: PipelineModel, findings: Problems) -> None:
    if model.source.errors.tolerance != "none":
        problem = "all needs every table in catalogs of one type: dead letters are written in the commit of their batch"
        findings.add(("source", "errors", "tolerance"), f"{problem}; write none, or make two pipelines")


def _find_catalog(table: TableModel, catalogs: Mapping[str, Catalog | str]) -> Catalog | None:
    catalog = catalogs.get(table.name.split(".", 1)[0])
    return catalog if isinstance(catalog, Catalog) else None


def _check_branch(table: TableModel, catalog: Catalog | None, path: KeyPath, findings: Problems) -> None:
    if catalog is not None and table.branch != "main" and not get_destination(catalog).has_named_branches:
        destination_titles = list_titles(lambda destination: destination.has_named_branches)
        findings.add(
            (*path, "branch"), f"not available for a {catalog.type} catalog; write to an {destination_titles} table"
        )


def _check_partition_columns(table: TableModel, catalog: Catalog | None, path: KeyPath, findings: Problems) -> None:
    for other in DESTINATIONS.values():
        for index, text in enumerate(table.create.partition_by if other is not get_destination(catalog) else ()):
            if any(column in text.upper() for column in other.partition_columns):
                key_path = (*path, "create", "partition_by", index)
                findings.add(key_path, f"{other.title}'s own column; name one of the table's")


def _check_name_lengths(table: TableModel, suffix: str, limit: int, path: KeyPath, findings: Problems) -> None:
    if table.name.count(".") < MIN_DOTS:
        return  # no table's full name, which is told
    is_named_by_records = is_template(table.name)
    bare_name = "x" * MAX_NAME_CHARACTERS if is_named_by_records else table.name.rpartition(".")[2]
    memory = get_branch_suffix(table.branch) + ("changes" if table.history == "scd2" else "deletes")
    longest = max((f"{bare_name}{end}" for end in ("", suffix, f"_{memory}", "_tidegate_position")), key=_count_bytes)
    way = "shorten the table's name, the pipeline's, or merge.intermediate_suffix"
    backfill = _count_bytes(f"{bare_name}{suffix}_backfill_{'0' * ID_DIGITS}")
    if _count_bytes(longest) > limit:
        shortened_name = (
            longest if len(longest) <= SHOWN_NAME_CHARACTERS else f"{longest[: SHOWN_NAME_CHARACTERS - 1]}…"
        )
        findings.add(path, f"bytes={_count_bytes(longest)} in the name {shortened_name}, limit={limit}; {way}")
    elif backfill > limit and not is_named_by_records:
        findings.warn(
            path,
            f"a backfill or a replay of {table.name} would fail: bytes={backfill} in the name of the table that it "
            f"makes, limit={limit}; {way}",
        )


def _count_bytes(name: str) -> int:
    return len(name.encode())
