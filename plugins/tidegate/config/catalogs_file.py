"""Reads ``catalogs.yaml``: where a record's destination lies, declared once for PyIceberg and Spark."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.config.destinations.registry import DESTINATIONS
from tidegate.config.parsing.problems import Problems, read_model, refuse_secrets, suggest_closest
from tidegate.config.parsing.yaml_document import Document, KeyPath, read_document
from tidegate.errors import ConfigurationError
from tidegate.settings import find_home_folder
from tidegate.spec.pipeline import Catalog

CATALOG_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")  # a tag and a pool of Airflow's have this name
RESERVED_NAMES = ("spark_catalog", "system", "session")  # Spark's own
VARIABLE_PATTERN = re.compile(r"\$\$\{|\$\{([^}]*)\}")


def load_catalogs(include: Path) -> dict[str, Catalog]:
    """Every catalog by name. `ConfigurationError` with all problems of the file."""
    catalogs, findings = _read_file(include)
    findings.raise_if_any()
    return catalogs


def read_catalogs(include: Path) -> dict[str, Catalog | str]:
    """For callers that need only one catalog: a broken entry is its first problem as text."""
    catalogs, findings = _read_file(include)
    if isinstance(findings.document.data, dict):
        return {
            str(name): catalogs.get(str(name)) or _find_first_problem(findings, name) for name in findings.document.data
        }
    findings.raise_if_any()
    return {}


def _find_first_problem(findings: Problems, name: object) -> str:
    begin = findings.document.find_line((str(name),))
    return next((message for line, message in sorted(findings.entries) if line >= begin), "see `tidegate validate`")


def _read_file(include: Path) -> tuple[dict[str, Catalog], Problems]:
    document = read_document(include / "catalogs.yaml")
    findings = Problems(document)
    if not isinstance(document.data, dict):
        findings.add((), "no catalog declared; write e.g. lake: {type: iceberg, properties: {type: sql, ...}}")
        return {}, findings
    variables = {"TIDEGATE_HOME": str(find_home_folder())} | dict(os.environ)
    catalogs = {}
    for name, entry in document.data.items():
        before = len(findings.entries)
        catalog = _to_catalog(name, _expand_variables(entry, (name,), variables, findings), findings)
        if catalog is not None and len(findings.entries) == before and not _has_problem(document, name):
            catalogs[catalog.name] = catalog
    return catalogs, findings


def _has_problem(document: Document, name: object) -> bool:
    below = [line for path, line in document.lines.items() if path[:1] == (name,)]
    return any(not below or min(below) <= line <= max(below) for line, _ in document.problems)


def _expand_variables(value: Any, path: KeyPath, variables: Mapping[str, str], findings: Problems) -> Any:
    if isinstance(value, dict):
        return {key: _expand_variables(item, (*path, key), variables, findings) for key, item in value.items()}
    if not isinstance(value, str):
        return value

    def look_up(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is not None and not variables.get(name):
            state = "is empty" if name in variables else "is not set"
            findings.add(path, f"${{{name}}} {state} in the environment; export it, or write $${{ for a literal")
        # $${ stands for a literal ${
        return "${" if name is None else variables.get(name, "")

    return VARIABLE_PATTERN.sub(look_up, value)


def _to_catalog(name: Any, entry: Any, findings: Problems) -> Catalog | None:
    path = (name,)
    if not isinstance(name, str) or not CATALOG_NAME_PATTERN.fullmatch(name) or name in RESERVED_NAMES:
        findings.add(
            path,
            "not a catalog name; a letter, then letters, digits, dash, underscore (at most 100); not one of Spark's",
        )
        return None
    kind = entry.get("type") if isinstance(entry, dict) else None
    destination = DESTINATIONS.get(kind) if isinstance(kind, str) else None
    if destination is None:
        key_path = (*path, "type") if kind is not None else path
        findings.add(key_path, f"unknown type of catalog; {suggest_closest(kind or '', DESTINATIONS)}")
        return None
    read = read_model(destination.model, entry, findings, path)
    for word, value in entry.items():
        if word != "properties":  # which the destination looks at
            refuse_secrets(value, (*path, word), findings, "an Airflow connection and name that in `connection`")
    properties = read.to_shared_properties()
    destination.check_catalog(properties, path, findings)
    return Catalog(name, destination.name, properties, read.connection)


def list_catalog_problems(include: Path) -> tuple[str, ...]:
    """As lines; empty when the file is right."""
    try:
        load_catalogs(include)
    except ConfigurationError as fault:
        return fault.problems
    return ()
