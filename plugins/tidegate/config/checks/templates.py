"""Checks the entry of a pipeline file whose table name records fill in: `lake.shop.{type}`."""

import re

from tidegate.config.checks.source import read_schema
from tidegate.config.models.pipeline import PipelineModel, TableModel
from tidegate.config.parsing.problems import Problems, suggest_closest
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.spec.table_template import FIELD_PATTERN, is_template, split_template

NAMESPACE_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_][A-Za-z0-9_-]*)*")


def check_templates(model: PipelineModel, findings: Problems) -> None:
    """Note everything that is wrong with name templates, and their keys where there is none."""
    template_count = 0
    for index, table in enumerate(model.tables):
        path: KeyPath = ("tables", index)
        if is_template(table.name):
            template_count += 1
            if template_count > 1:
                findings.add((*path, "name"), "a second name template; a pipeline has at most one, make two pipelines")
            _check_template(model, table, path, findings)
        elif table.namespaces:
            findings.add((*path, "namespaces"), "only for a name with a {field} in it; leave it out")


def _check_template(model: PipelineModel, table: TableModel, path: KeyPath, findings: Problems) -> None:
    catalog, _, identifier = table.name.partition(".")
    namespace, _ = split_template(identifier)
    if is_template(catalog):
        findings.add((*path, "name"), "the catalog must be a fixed name; write e.g. lake.shop.{type}")
    if is_template(namespace) and not table.namespaces:
        findings.add((*path, "namespaces"), f"missing: name={table.name} may lead anywhere; list those it may lead to")
    for place, name in enumerate(table.namespaces):
        if name.lower() != name or not NAMESPACE_PATTERN.fullmatch(name):
            findings.add(
                (*path, "namespaces", place), "not a namespace; lower-case letters, digits, underscore, dash and dots"
            )
    if not is_template(namespace) and table.namespaces and table.namespaces != [namespace]:
        wrong = f"the name has the namespace {namespace} in it; put a {{field}} there, or leave this out"
        findings.add((*path, "namespaces"), wrong)
    if model.source.errors.tolerance != "none":
        problem = (
            "all is not available beside a name template: a record that names no table has nowhere to be set aside"
        )
        findings.add(("source", "errors", "tolerance"), f"{problem}; write none")
    value = table.value or model.source.value
    columns = read_schema(value.schema_, (*path, "value", "schema"), findings)
    if columns is None:
        findings.add((*path, "name"), "needs value.schema: there is no table yet to take the columns from")
        return
    names = {column.name for column in columns} | set(model.source.metadata) | {"topic"}
    for field in FIELD_PATTERN.findall(table.name):
        if field.casefold() not in {name.casefold() for name in names}:
            findings.add((*path, "name"), f"{{{field}}} is not a column of the value; {suggest_closest(field, names)}")
