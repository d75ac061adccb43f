"""Reads ``defaults.yaml``: what holds for every pipeline whose own file does not say otherwise."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.config.models.settings import SharedModel
from tidegate.config.parsing.problems import Problems, read_model
from tidegate.config.parsing.yaml_document import read_document
from tidegate.errors import ConfigurationError
from tidegate.settings import format_path
from tidegate.spec.pipeline import Pipeline

DEFAULTS_FILE = "defaults.yaml"


def read_defaults(include: Path) -> Mapping[str, Any]:
    """The keys as written; empty without the file. `ConfigurationError` with all problems."""
    path = include / DEFAULTS_FILE
    if not os.path.lexists(path):  # a link that leads nowhere is a mistake: without it pipelines would leave a fleet
        return {}
    document = read_document(path)
    findings = Problems(document)
    if isinstance(document.data, dict):
        read_model(SharedModel, document.data, findings)
    else:
        findings.add((), "no section in it; write e.g. heartbeat: {interval: 10m}, or remove the file")
    findings.raise_if_any()
    defaults: Mapping[str, Any] = document.data
    return defaults


def apply_defaults(own_settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A pipeline file's settings, completed by the defaults.

    A section gets the keys that it lacks; a list or any other value is one whole.
    """
    settings = {**defaults, **own_settings}
    for key, words in defaults.items():
        if isinstance(words, Mapping) and isinstance(own_settings.get(key), Mapping):
            settings[key] = {**words, **own_settings[key]}
    return settings


Loaded = list[tuple[str, Pipeline | ConfigurationError]]


def refuse_fleets_of_several_catalogs(include: Path, load_results: Loaded) -> Loaded:
    """Refuse members whose first table is not in the catalog of their fleet's first member by name.

    Stages and merges of a fleet are one task for Airflow, and a task has one pool: that of the catalog.
    """
    firsts: dict[str, tuple[str, str]] = {}
    answer: Loaded = []
    for name, pipeline in load_results:
        if isinstance(pipeline, Pipeline) and pipeline.fleet is not None:
            table = pipeline.entries[0]
            first, catalog = firsts.setdefault(pipeline.fleet, (name, table.catalog))
            if table.catalog != catalog:
                file = format_path(include / "pipelines" / f"{name}.yaml")
                reason = f"its members take turns in the pool of one catalog, catalog={catalog} of pipeline {first}"
                problem = f"{file}: fleet={pipeline.fleet}: {reason}, and {table.name} lies in another"
                answer.append((name, ConfigurationError(f"{problem}; give the file another fleet")))
                continue
        answer.append((name, pipeline))
    return answer


def find_fleet(include: Path, name: str) -> str | None:
    """The fleet in a pipeline's file, or else in ``defaults.yaml``; None for neither, or an unreadable file."""
    try:
        own_settings = read_document(include / "pipelines" / f"{name}.yaml").data
        defaults = read_defaults(include)
    except ConfigurationError:
        return None
    # only this key: the rest of the file may be wrong
    fleet = own_settings.get("fleet", defaults.get("fleet")) if isinstance(own_settings, dict) else None
    return fleet if isinstance(fleet, str) else None
