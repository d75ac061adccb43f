"""Checks what a pipeline asks of BigQuery tables and cannot have there: one clear line each, before anything runs."""

from collections.abc import Mapping

from tidegate.adapters.bigquery_layout import INGESTION
from tidegate.adapters.findings import Findings
from tidegate.adapters.pipeline_model import PipelineModel, TableModel
from tidegate.adapters.warehouse_limits import check_limits, check_pace
from tidegate.adapters.yaml_lines import KeyPath
from tidegate.naming import is_template
from tidegate.pipeline import Catalog

NOT_THERE = "not available for BigQuery tables in this version"


def check_warehouses(model: PipelineModel, catalogs: Mapping[str, Catalog | str], findings: Findings) -> None:
    """Note everything that the BigQuery tables of a pipeline file ask in vain."""
    for index, table in enumerate(model.tables):
        catalog = catalogs.get(table.name.split(".", 1)[0])
        if isinstance(catalog, Catalog) and catalog.type == "bigquery":
            _check_table(table, catalog, ("tables", index), findings)
            check_limits(model, table, ("tables", index), findings)
        else:
            _check_elsewhere(table, ("tables", index), findings)
    types = {type_of(table, catalogs) for table in model.tables}
    if any(_has_quotas(table, catalogs) for table in model.tables):
        check_pace(model.merge, findings)
    if "bigquery" in types and len(types) > 1 and model.source.errors.tolerance != "none":
        told = "all needs every table in catalogs of one type: dead letters are written in the commit of their batch"
        findings.add(("source", "errors", "tolerance"), f"{told}; write none, or make two pipelines")


def _has_quotas(table: TableModel, catalogs: Mapping[str, Catalog | str]) -> bool:
    """Whether the table lies in BigQuery itself: a server that a catalog names by its endpoint counts no jobs."""
    catalog = catalogs.get(table.name.split(".", 1)[0])
    return isinstance(catalog, Catalog) and catalog.type == "bigquery" and "endpoint" not in catalog.properties


def _check_elsewhere(table: TableModel, path: KeyPath, findings: Findings) -> None:
    for index, text in enumerate(table.create.partition_by):
        if INGESTION in text.upper():
            findings.add((*path, "create", "partition_by", index), "BigQuery's own column; name one of the table's")


def type_of(table: TableModel, catalogs: Mapping[str, Catalog | str]) -> str:
    """The type of the catalog that a table lies in, empty where it is declared wrongly."""
    catalog = catalogs.get(table.name.split(".", 1)[0])
    return catalog.type if isinstance(catalog, Catalog) else ""


def _check_table(table: TableModel, catalog: Catalog, path: KeyPath, findings: Findings) -> None:
    if not catalog.properties.get("staging"):
        findings.add(
            (*path, "name"),
            f"catalog={catalog.name} has no staging in catalogs.yaml; give gs://bucket/prefix, or file:///folder",
        )
    if is_template(table.name):
        findings.add((*path, "name"), f"names from records are {NOT_THERE}; write one entry for each table")
    if len(table.name.split(".")) > 3:
        findings.add((*path, "name"), "BigQuery has one level of datasets; write <catalog>.<dataset>.<table>")
    if table.history != "none":
        findings.add((*path, "history"), f"{NOT_THERE}; write none")
