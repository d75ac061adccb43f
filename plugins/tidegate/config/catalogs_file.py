"""Reads ``catalogs.yaml``: where a record's destination lies, declared once for PyIceberg and Spark."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.config.models.catalogs import MODELS
from tidegate.config.parsing.problems import Findings, closest
from tidegate.config.parsing.validation_messages import read_model
from tidegate.config.parsing.yaml_document import Document, KeyPath, read_document
from tidegate.errors import ConfigurationError
from tidegate.redaction import holds_secret, is_secret_name
from tidegate.settings import repository_root
from tidegate.spec.catalog import Catalog

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
RESERVED = ("spark_catalog", "system", "session")  # Spark's own
VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
PYICEBERG_TYPES = ("sql", "rest")
DIALECTS = ("sqlite:////", "sqlite+pysqlite:////", "postgresql://", "postgresql+psycopg2://")


def load_catalogs(include: Path) -> dict[str, Catalog]:
    """Every catalog by name. ConfigurationError with all problems of the file."""
    catalogs, findings = _read(include)
    findings.raise_if_any()
    return catalogs


def read_catalogs(include: Path) -> dict[str, Catalog | str]:
    """The same for callers that need only one of them: a broken entry becomes its first problem as text."""
    catalogs, findings = _read(include)
    if isinstance(findings.document.data, dict):
        return {str(name): catalogs.get(str(name)) or _first_problem(findings, name) for name in findings.document.data}
    findings.raise_if_any()
    return {}


def _first_problem(findings: Findings, name: object) -> str:
    begin = findings.document.line((str(name),))
    return next((message for line, message in sorted(findings.found) if line >= begin), "see `tidegate validate`")


def _read(include: Path) -> tuple[dict[str, Catalog], Findings]:
    document = read_document(include / "catalogs.yaml")
    findings = Findings(document)
    if not isinstance(document.data, dict):
        findings.add((), "no catalog declared; write e.g. lake: {type: iceberg, properties: {type: sql, ...}}")
        return {}, findings
    expanded = _expand(document.data, (), {"TIDEGATE_HOME": str(repository_root())} | dict(os.environ), findings)
    catalogs = {}
    for name, entry in expanded.items():
        before = len(findings.found)
        catalog = _catalog(name, entry, findings)
        if catalog is not None and len(findings.found) == before and not _has_problem(document, name):
            catalogs[catalog.name] = catalog
    return catalogs, findings


def _has_problem(document: Document, name: object) -> bool:
    below = [line for path, line in document.lines.items() if path[:1] == (name,)]
    return any(min(below) <= line <= max(below) for line, _ in document.problems)


def _expand(value: Any, path: KeyPath, variables: Mapping[str, str], findings: Findings) -> Any:
    """`value` with every ``${NAME}`` replaced; an unknown name is noted, ``$${`` stands for a literal ``${``."""
    if isinstance(value, dict):
        return {key: _expand(item, (*path, key), variables, findings) for key, item in value.items()}
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is not None and name not in variables:
            findings.add(path, f"${{{name}}} is not set in the environment; export it, or write $${{ for a literal")
        return "${" if name is None else variables.get(name, "")

    return VARIABLE.sub(replacement, value)


def _catalog(name: Any, entry: Any, findings: Findings) -> Catalog | None:
    path = (name,)
    if not isinstance(name, str) or not NAME.fullmatch(name) or name in RESERVED:
        findings.add(
            path, "not a catalog name; a letter, then letters, digits, dash, underscore; not one of Spark's own"
        )
        return None
    kind = entry.get("type") if isinstance(entry, dict) else None
    model = MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        where = (*path, "type") if kind is not None else path
        findings.add(where, f"unknown type of catalog; {closest(kind or '', MODELS)}")
        return None
    read = read_model(model, entry, findings, path)
    properties = read.shared_properties()
    if kind == "iceberg":
        _check_iceberg(properties, (*path, "properties"), findings)
    return Catalog(name, str(kind), properties, read.connection)


def _check_iceberg(properties: dict[str, str], path: KeyPath, findings: Findings) -> None:
    for name, value in properties.items():
        if is_secret_name(name) or holds_secret(value):
            findings.add_broken(
                (*path, name), "a secret in a file; put it into an Airflow connection and name that in `connection`"
            )
    kind, uri = properties.get("type"), properties.get("uri", "")
    if kind not in PYICEBERG_TYPES:
        findings.add((*path, "type") if kind else path, f"PyIceberg's type of catalog; {closest('', PYICEBERG_TYPES)}")
    if "uri" not in properties:
        findings.add(path, "uri is missing; write e.g. sqlite:////absolute/catalog.db or http://host:8181")
    elif kind == "sql" and not uri.startswith(DIALECTS):
        findings.add((*path, "uri"), f"Spark cannot share it; absolute paths and hosts only: {', '.join(DIALECTS)}")
    if kind == "sql" and "warehouse" not in properties:
        findings.add(path, "warehouse is missing; write e.g. file:///absolute/warehouse or s3://bucket/prefix")


def catalog_problems(include: Path) -> tuple[str, ...]:
    """The problems of ``catalogs.yaml`` as lines; empty when it is right."""
    try:
        load_catalogs(include)
    except ConfigurationError as fault:
        return fault.problems
    return ()
