"""``tidegate list``: the pipelines and publications that the files describe; nothing is connected to."""

import argparse
import json
from typing import TypedDict

from tidegate.cli.output import name_command
from tidegate.config.pipeline_file import load_all_pipelines
from tidegate.config.publication_file import load_publications
from tidegate.errors import ConfigurationError
from tidegate.settings import FIRST_COMMAND, find_include_folder
from tidegate.spec.pipeline import UNKNOWN_FILE, FileDescription, Pipeline
from tidegate.spec.publication import Publication


class PipelineEntry(FileDescription):
    """A pipeline file; `error` says what is wrong with it, and the other fields are then empty."""

    pipeline: str
    topics: list[str]
    tables: list[str]
    error: str | None


class PublicationEntry(TypedDict):
    """A publication file; `error` as in `PipelineEntry`."""

    publication: str
    description: str
    table: str
    topics: list[str]
    error: str | None


def run_list(words: argparse.Namespace) -> int:
    """Exit code 1 where a file is wrong."""
    include = find_include_folder()
    pipelines = [_describe_pipeline(name, load_result) for name, load_result in load_all_pipelines(include)]
    publications = [_describe_publication(name, load_result) for name, load_result in load_publications(include)]
    if words.json:
        print(json.dumps({"pipelines": pipelines, "publications": publications}))
    else:
        lines = [*map(_format_pipeline, pipelines), *map(_format_publication, publications)]
        print("\n".join(lines) or name_command(f"no pipelines in {include}; propose one with: {FIRST_COMMAND}"))
    return 1 if any(entry["error"] for entry in (*pipelines, *publications)) else 0


def _describe_pipeline(name: str, load_result: Pipeline | ConfigurationError) -> PipelineEntry:
    if isinstance(load_result, ConfigurationError):
        return {"pipeline": name, **UNKNOWN_FILE, "topics": [], "tables": [], "error": str(load_result)}
    source = load_result.source
    return {
        "pipeline": name,
        **load_result.describe_file(),
        "topics": [*source.topics, *([source.topic_pattern] if source.topic_pattern else [])],
        "tables": [table.name for table in load_result.entries],
        "error": None,
    }


def _describe_publication(name: str, load_result: Publication | ConfigurationError) -> PublicationEntry:
    if isinstance(load_result, ConfigurationError):
        return {"publication": name, "description": "", "table": "", "topics": [], "error": str(load_result)}
    return {
        "publication": name,
        "description": load_result.description,
        "table": load_result.table,
        "topics": list(load_result.topics),
        "error": None,
    }


def _format_pipeline(entry: PipelineEntry) -> str:
    return _format_entry(entry["pipeline"], entry["topics"], entry["tables"], entry["description"], entry["error"])


def _format_publication(entry: PublicationEntry) -> str:
    return _format_entry(entry["publication"], [entry["table"]], entry["topics"], entry["description"], entry["error"])


def _format_entry(name: str, origins: list[str], targets: list[str], description: str, error: str | None) -> str:
    if error is not None:
        return f"{name}: {error}"
    return f"{name}: {', '.join(origins)} -> {', '.join(targets)}" + (f": {description}" if description else "")
