"""Reads ``defaults.yaml``: what holds for every pipeline whose own file does not say otherwise."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.config.models.shared import SharedModel
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.validation_messages import read_model
from tidegate.config.parsing.yaml_document import read_document

DEFAULTS_FILE = "defaults.yaml"


def read_defaults(include: Path) -> Mapping[str, Any]:
    """The keys as they are written; empty without the file. ConfigurationError with all that is wrong."""
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
    """A pipeline file's words, with the defaults where it has none: key by key, the pipeline's own win.

    A section is filled up with the keys that it lacks; a list or any other value is taken as a whole.
    """
    settings = {**defaults, **own_settings}
    for key, words in defaults.items():
        if isinstance(words, Mapping) and isinstance(own_settings.get(key), Mapping):
            settings[key] = {**words, **own_settings[key]}
    return settings
