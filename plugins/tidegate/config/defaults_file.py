"""Reads ``defaults.yaml``: what holds for every pipeline whose own file does not say otherwise."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.config.models.formats import StrictModel
from tidegate.config.models.pipeline import HeartbeatModel
from tidegate.config.models.runtime import MaintenanceModel
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.validation_messages import read_model
from tidegate.config.parsing.yaml_document import read_document


class DefaultsModel(StrictModel):
    """The whole file: sections of a pipeline file that operators decide on for all."""

    heartbeat: HeartbeatModel = HeartbeatModel()
    maintenance: MaintenanceModel = MaintenanceModel()


def read_defaults(include: Path) -> Mapping[str, Any]:
    """The sections as they are written; empty without the file. ConfigurationError with all that is wrong."""
    path = include / "defaults.yaml"
    if not path.exists():
        return {}
    document = read_document(path)
    findings = Problems(document)
    if isinstance(document.data, dict):
        read_model(DefaultsModel, document.data, findings)
    else:
        findings.add((), "no section in it; write e.g. heartbeat: {interval: 10m}, or remove the file")
    findings.raise_if_any()
    sections: Mapping[str, Any] = document.data
    return sections


def apply_defaults(own: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A pipeline file's words, with the defaults where it has none: key by key, the pipeline's own win."""
    filled = dict(own)
    for section, words in defaults.items():
        said = own.get(section, {})
        filled[section] = {**words, **said} if isinstance(said, Mapping) else said
    return filled
