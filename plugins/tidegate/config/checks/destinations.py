"""Checks what a pipeline file asks of its tables against what their types of destination can do."""

from collections.abc import Mapping

from tidegate.config.destinations.registry import DESTINATIONS, get_destination, list_titles
from tidegate.config.models.pipeline import PipelineModel, TableModel
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.spec.catalog import Catalog


def check_destinations(model: PipelineModel, catalogs: Mapping[str, Catalog | str], findings: Problems) -> None:
    """Note everything that the tables of a pipeline file ask in vain."""
    declared = [_find_catalog(table, catalogs) for table in model.tables]
    for index, (table, catalog) in enumerate(zip(model.tables, declared, strict=True)):
        get_destination(catalog).check_table(model, table, catalog, ("tables", index), findings)
        _check_branch(table, catalog, ("tables", index), findings)
        _check_partition_columns(table, catalog, ("tables", index), findings)
    used = {catalog.type: get_destination(catalog) for catalog in declared if catalog is not None}
    for kind, destination in used.items():
        own = [catalog for catalog in declared if catalog is not None and catalog.type == kind]
        destination.check_pipeline(model, own, findings)
    is_mixed = len(used) + (None in declared) > 1
    if is_mixed and not all(destination.keeps_letters_of_others for destination in used.values()):
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
        others = list_titles(lambda destination: destination.has_named_branches)
        findings.add((*path, "branch"), f"not available for a {catalog.type} catalog; write to an {others} table")


def _check_partition_columns(table: TableModel, catalog: Catalog | None, path: KeyPath, findings: Problems) -> None:
    """Note columns that tables of another type have without being declared."""
    for other in DESTINATIONS.values():
        for index, text in enumerate(table.create.partition_by if other is not get_destination(catalog) else ()):
            if any(column in text.upper() for column in other.partition_columns):
                where = (*path, "create", "partition_by", index)
                findings.add(where, f"{other.title}'s own column; name one of the table's")
