"""``tidegate validate``, ``list`` and ``schema``: what is right or wrong in files, and what may stand in them.

Nothing is connected to.
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from tidegate.cli.output import name_command, print_text
from tidegate.config.catalogs_file import list_catalog_problems
from tidegate.config.models.pipeline import build_json_schema
from tidegate.config.models.publication import PublicationModel
from tidegate.config.pipeline_file import (
    DEFAULTS_FILE,
    check_tables_of_others,
    list_unread_warnings,
    load_all_pipelines,
    load_pipeline,
)
from tidegate.config.publication_file import check_topics_of_others, load_publication, load_publications
from tidegate.errors import ConfigurationError
from tidegate.settings import FIRST_COMMAND, NAMED_FOLDERS, find_folder_around, find_include_folder, format_path
from tidegate.spec.pipeline import UNKNOWN_FILE, FileDescription, Pipeline
from tidegate.spec.publication import Publication


def run_validate(args: argparse.Namespace) -> int:
    """Exit code 1 where a file is wrong."""
    if args.file is not None:
        checked_file = _check_file(_find_file(args.file))
        if isinstance(checked_file.result, ConfigurationError) and not args.json:
            raise checked_file.result
        return _print_checked(args, [checked_file], ())
    include = find_include_folder()
    checked_files = [_Checked("pipeline", name, result) for name, result in load_all_pipelines(include)]
    checked_files += [_Checked("publication", name, result) for name, result in load_publications(include)]
    return _print_checked(args, checked_files, list_catalog_problems(include), list_unread_warnings(include))


@dataclass(frozen=True)
class _Checked:
    """One file, by what people call it."""

    kind: str
    name: str
    result: Pipeline | Publication | ConfigurationError

    def to_dict(self) -> dict[str, Any]:
        problems = list(self.result.problems) if isinstance(self.result, ConfigurationError) else []
        warnings = list(self.result.warnings) if isinstance(self.result, Pipeline) else []
        return {self.kind: self.name, "problems": problems, "warnings": warnings}


def _find_file(path_or_name: Path) -> Path:
    """The file at this path; else the one that the include folder has for this name; else the path as it is."""
    named = [find_include_folder() / folder / f"{path_or_name}.yaml" for folder in NAMED_FOLDERS]
    is_name = path_or_name.name == str(path_or_name) and not path_or_name.exists()
    return next((file for file in named if is_name and file.exists()), path_or_name)


def _check_file(file: Path) -> _Checked:
    folder = file.absolute().parent.resolve()
    if file.name in ("catalogs.yaml", DEFAULTS_FILE) and folder.name not in NAMED_FOLDERS:
        problem = ConfigurationError(
            f"{format_path(file)}: no pipeline; run validate without a file, which reads it too"
        )
        return _Checked("pipeline", str(file), problem)
    around = find_folder_around(file)
    kind = "publication" if folder == (around / "publications").resolve() else "pipeline"
    load, check_others = (
        (load_publication, check_topics_of_others) if kind == "publication" else (load_pipeline, check_tables_of_others)
    )
    try:
        loaded_file: Any = load(file)
        if folder == (around / f"{kind}s").resolve():  # a draft elsewhere is not yet one of the folder's
            check_others(around, file.stem)
    except ConfigurationError as fault:
        return _Checked(kind, str(file), fault)
    return _Checked(kind, str(file), loaded_file)


def _print_checked(
    args: argparse.Namespace,
    results: list[_Checked],
    catalog_problems: tuple[str, ...],
    unread_warnings: tuple[str, ...] = (),
) -> int:
    is_wrong = bool(catalog_problems) or any(isinstance(checked.result, ConfigurationError) for checked in results)
    if args.json:
        parts = {
            f"{kind}s": [checked.to_dict() for checked in results if checked.kind == kind]
            for kind in ("pipeline", "publication")
        }
        data = {"ok": not is_wrong, "catalogs": list(catalog_problems), **parts, "warnings": list(unread_warnings)}
        print(json.dumps(data))
    else:
        lines = [*catalog_problems]
        for checked in results:
            if isinstance(checked.result, ConfigurationError):
                # a problem of a file that all share is printed once
                lines += [problem for problem in checked.result.problems if problem not in lines]
            else:
                lines += [f"{checked.name}: ok", *_describe_result(checked.result)]
        lines += [f"warning: {warning}" for warning in unread_warnings]
        nothing = f"no pipelines in {find_include_folder()}; propose one with: {FIRST_COMMAND}"
        print_text(name_command("\n".join(lines) or nothing))
    return 1 if is_wrong else 0


def _describe_result(result: Pipeline | Publication) -> list[str]:
    if isinstance(result, Publication):
        return []
    fact = "there is no key.fields: each record is appended, and none updates or deletes a row"
    keyless = [f"  {table.name}: {fact}" for table in result.entries if not table.key_columns]
    return [*keyless, *(f"  warning: {warning}" for warning in result.warnings)]


def run_schema(args: argparse.Namespace) -> int:
    is_publication = args.of == "publication"
    schema = build_json_schema(PublicationModel, "Tidegate publication") if is_publication else build_json_schema()
    print(json.dumps(schema, indent=2))
    return 0


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


def run_list(args: argparse.Namespace) -> int:
    """Exit code 1 where a file is wrong."""
    include = find_include_folder()
    pipelines = [_describe_pipeline(name, load_result) for name, load_result in load_all_pipelines(include)]
    publications = [_describe_publication(name, load_result) for name, load_result in load_publications(include)]
    if args.json:
        print(json.dumps({"pipelines": pipelines, "publications": publications}))
    else:
        lines = [_format_entry(entry["pipeline"], entry, entry["topics"], entry["tables"]) for entry in pipelines]
        lines += [_format_entry(e["publication"], e, [e["table"]], e["topics"]) for e in publications]
        nothing = f"no pipelines in {include}; propose one with: {FIRST_COMMAND}"
        print_text(name_command("\n".join(lines) or nothing))
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


def _format_entry(name: str, entry: PipelineEntry | PublicationEntry, origins: list[str], targets: list[str]) -> str:
    if entry["error"] is not None:
        return f"{name}: {entry['error']}"
    description = f": {entry['description']}" if entry["description"] else ""
    return f"{name}: {', '.join(origins)} -> {', '.join(targets)}{description}"
