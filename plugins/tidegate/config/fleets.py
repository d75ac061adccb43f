"""Pipelines that flush together: which files name which fleet, and what the members of one must share."""

from pathlib import Path

from tidegate.config.defaults_file import read_defaults
from tidegate.config.parsing.yaml_document import read_document
from tidegate.errors import ConfigurationError
from tidegate.settings import format_path
from tidegate.spec.pipeline import Pipeline

Loaded = list[tuple[str, Pipeline | ConfigurationError]]


def refuse_fleets_of_several_catalogs(include: Path, load_results: Loaded) -> Loaded:
    """Refuse each member whose first table lies in another catalog than that of its fleet's first member by name.

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
    """The fleet that a pipeline's file, or else ``defaults.yaml``, names; None where neither does, or cannot be read.

    The rest of the file is not looked at: it may be wrong.
    """
    try:
        own_settings = read_document(include / "pipelines" / f"{name}.yaml").data
        defaults = read_defaults(include)
    except ConfigurationError:
        return None
    fleet = own_settings.get("fleet", defaults.get("fleet")) if isinstance(own_settings, dict) else None
    return fleet if isinstance(fleet, str) else None
