"""Checks what a pipeline asks of BigQuery tables and cannot have there: one clear line each, before anything runs."""

import re
from collections.abc import Mapping

from tidegate.adapters.bigquery.table_layout import INGESTION_TIME_COLUMN
from tidegate.config.checks.bigquery_limits import check_limits, check_pace
from tidegate.config.models.pipeline import PipelineModel, TableModel
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.spec.catalog import Catalog
from tidegate.spec.table_template import FIELD_PATTERN, split_template

DATASET_PATTERN = re.compile(r"\w+", re.ASCII)


def check_warehouses(model: PipelineModel, catalogs: Mapping[str, Catalog | str], findings: Problems) -> None:
    """Note everything that the BigQuery tables of a pipeline file ask in vain."""
    for index, table in enumerate(model.tables):
        catalog = catalogs.get(table.name.split(".", 1)[0])
        if isinstance(catalog, Catalog) and catalog.type == "bigquery":
            _check_table(table, catalog, ("tables", index), findings)
            check_limits(model, table, ("tables", index), findings)
        else:
            _check_other_catalog(table, ("tables", index), findings)
    types = {find_catalog_type(table, catalogs) for table in model.tables}
    if any(_has_quotas(table, catalogs) for table in model.tables):
        check_pace(model.merge, findings)
    if "bigquery" in types and len(types) > 1 and model.source.errors.tolerance != "none":
        problem = "all needs every table in catalogs of one type: dead letters are written in the commit of their batch"
        findings.add(("source", "errors", "tolerance"), f"{problem}; write none, or make two pipelines")


def _has_quotas(table: TableModel, catalogs: Mapping[str, Catalog | str]) -> bool:
    """Whether the table lies in BigQuery itself: a server that a catalog names by its endpoint counts no jobs."""
    catalog = catalogs.get(table.name.split(".", 1)[0])
    return isinstance(catalog, Catalog) and catalog.type == "bigquery" and "endpoint" not in catalog.properties


def _check_other_catalog(table: TableModel, path: KeyPath, findings: Problems) -> None:
    for index, text in enumerate(table.create.partition_by):
        if INGESTION_TIME_COLUMN in text.upper():
            findings.add((*path, "create", "partition_by", index), "BigQuery's own column; name one of the table's")


def find_catalog_type(table: TableModel, catalogs: Mapping[str, Catalog | str]) -> str:
    """The type of the catalog that a table lies in, empty where it is declared wrongly."""
    catalog = catalogs.get(table.name.split(".", 1)[0])
    return catalog.type if isinstance(catalog, Catalog) else ""


def _check_table(table: TableModel, catalog: Catalog, path: KeyPath, findings: Problems) -> None:
    if not catalog.properties.get("staging"):
        findings.add(
            (*path, "name"),
            f"catalog={catalog.name} has no staging in catalogs.yaml; give gs://bucket/prefix, or file:///folder",
        )
    namespace, _ = split_template(table.name.partition(".")[2])
    for index, name in enumerate(table.namespaces):
        if not DATASET_PATTERN.fullmatch(name):
            findings.add((*path, "namespaces", index), "not a dataset's name: letters, digits and underscores")
    if "." in FIELD_PATTERN.sub("", namespace):
        findings.add((*path, "name"), "BigQuery has one level of datasets; write <catalog>.<dataset>.<table>")
    _check_history(table, path, findings)


def _check_history(table: TableModel, path: KeyPath, findings: Problems) -> None:
    """A row of history is made of several records, so that it has no partition by the time of one."""
    by_ingestion = any(INGESTION_TIME_COLUMN in text.upper() for text in table.create.partition_by)
    if table.history != "none" and by_ingestion and table.create.properties.get("partition_time") != "wall_clock":
        problem = (
            "a row of history has no record's time to lie at; name a column, e.g. valid_from, or set partition_time"
        )
        findings.add((*path, "create", "partition_by", 0), f"{problem}: wall_clock")
