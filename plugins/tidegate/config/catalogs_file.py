"""Reads ``catalogs.yaml``: where a record's destination lies, declared once for PyIceberg and Spark."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.config.models.catalogs import CATALOG_MODELS
from tidegate.config.parsing.problems import Problems, suggest_closest
from tidegate.config.parsing.validation_messages import read_model
from tidegate.config.parsing.yaml_document import Document, KeyPath, read_document
from tidegate.errors import ConfigurationError
from tidegate.redaction import has_secret, is_secret_name
from tidegate.settings import find_repository_root
from tidegate.spec.catalog import Catalog

CATALOG_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
RESERVED_NAMES = ("spark_catalog", "system", "session")  # Spark's own
VARIABLE_PATTERN = re.compile(r"\$\$\{|\$\{([^}]*)\}")
PYICEBERG_TYPES = ("sql", "rest")
SHARED_URI_PREFIXES = ("sqlite:////", "sqlite+pysqlite:////", "postgresql://", "postgresql+psycopg2://")


def load_catalogs(include: Path) -> dict[str, Catalog]:
    """Every catalog by name. ConfigurationError with all problems of the file."""
    catalogs, findings = _read_file(include)
    findings.raise_if_any()
    return catalogs


def read_catalogs(include: Path) -> dict[str, Catalog | str]:
    """The same for callers that need only one of them: a broken entry becomes its first problem as text."""
    catalogs, findings = _read_file(include)
    if isinstance(findings.document.data, dict):
        return {
            str(name): catalogs.get(str(name)) or _find_first_problem(findings, name) for name in findings.document.data
        }
    findings.raise_if_any()
    return {}


def _find_first_problem(findings: Problems, name: object) -> str:
    begin = findings.document.find_line((str(name),))
    return next((message for line, message in sorted(findings.found) if line >= begin), "see `tidegate validate`")


def _read_file(include: Path) -> tuple[dict[str, Catalog], Problems]:
    document = read_document(include / "catalogs.yaml")
    findings = Problems(document)
    if not isinstance(document.data, dict):
        findings.add((), "no catalog declared; write e.g. lake: {type: iceberg, properties: {type: sql, ...}}")
        return {}, findings
    expanded = _expand_variables(
        document.data, (), {"TIDEGATE_HOME": str(find_repository_root())} | dict(os.environ), findings
    )
    catalogs = {}
    for name, entry in expanded.items():
        before = len(findings.found)
        catalog = _to_catalog(name, entry, findings)
        if catalog is not None and len(findings.found) == before and not _has_problem(document, name):
            catalogs[catalog.name] = catalog
    return catalogs, findings


def _has_problem(document: Document, name: object) -> bool:
    below = [line for path, line in document.lines.items() if path[:1] == (name,)]
    return any(min(below) <= line <= max(below) for line, _ in document.problems)


def _expand_variables(value: Any, path: KeyPath, variables: Mapping[str, str], findings: Problems) -> Any:
    """`value` with every ``${NAME}`` replaced; an unknown name is noted, ``$${`` stands for a literal ``${``."""
    if isinstance(value, dict):
        return {key: _expand_variables(item, (*path, key), variables, findings) for key, item in value.items()}
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is not None and name not in variables:
            findings.add(path, f"${{{name}}} is not set in the environment; export it, or write $${{ for a literal")
        return "${" if name is None else variables.get(name, "")

    return VARIABLE_PATTERN.sub(replacement, value)


def _to_catalog(name: Any, entry: Any, findings: Problems) -> Catalog | None:
    path = (name,)
    if not isinstance(name, str) or not CATALOG_NAME_PATTERN.fullmatch(name) or name in RESERVED_NAMES:
        findings.add(
            path, "not a catalog name; a letter, then letters, digits, dash, underscore; not one of Spark's own"
        )
        return None
    kind = entry.get("type") if isinstance(entry, dict) else None
    model = CATALOG_MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        where = (*path, "type") if kind is not None else path
        findings.add(where, f"unknown type of catalog; {suggest_closest(kind or '', CATALOG_MODELS)}")
        return None
    read = read_model(model, entry, findings, path)
    properties = read.to_shared_properties()
    if kind == "iceberg":
        _check_iceberg(properties, (*path, "properties"), findings)
    return Catalog(name, str(kind), properties, read.connection)


def _check_iceberg(properties: dict[str, str], path: KeyPath, findings: Problems) -> None:
    for name, value in properties.items():
        if is_secret_name(name) or has_secret(value):
            findings.add_broken(
                (*path, name), "a secret in a file; put it into an Airflow connection and name that in `connection`"
            )
    kind, uri = properties.get("type"), properties.get("uri", "")
    if kind not in PYICEBERG_TYPES:
        findings.add(
            (*path, "type") if kind else path, f"PyIceberg's type of catalog; {suggest_closest('', PYICEBERG_TYPES)}"
        )
    if "uri" not in properties:
        findings.add(path, "uri is missing; write e.g. sqlite:////absolute/catalog.db or http://host:8181")
    elif kind == "sql" and not uri.startswith(SHARED_URI_PREFIXES):
        findings.add(
            (*path, "uri"), f"Spark cannot share it; absolute paths and hosts only: {', '.join(SHARED_URI_PREFIXES)}"
        )
    if kind == "sql" and "warehouse" not in properties:
        findings.add(path, "warehouse is missing; write e.g. file:///absolute/warehouse or s3://bucket/prefix")


def list_catalog_problems(include: Path) -> tuple[str, ...]:
    """The problems of ``catalogs.yaml`` as lines; empty when it is right."""
    try:
        load_catalogs(include)
    except ConfigurationError as fault:
        return fault.problems
    return ()
