"""``tidegate validate`` and ``tidegate schema``: what is right or wrong in files, and what may stand in them."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.cli.output import name_command
from tidegate.config.catalogs_file import list_catalog_problems
from tidegate.config.models.publication import build_publication_schema
from tidegate.config.pipeline_file import (
    build_json_schema,
    check_tables_of_others,
    list_unread_warnings,
    load_all_pipelines,
    load_pipeline,
)
from tidegate.config.publication_file import check_topics_of_others, load_publication, load_publications
from tidegate.errors import ConfigurationError
from tidegate.settings import FIRST_COMMAND, find_folder_around, find_include_folder
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.publication import Publication


def run_validate(words: argparse.Namespace) -> int:
    """Exit code 1 where a file is wrong."""
    if words.file is not None:
        checked_file = _check_file(words.file)
        if isinstance(checked_file.result, ConfigurationError) and not words.json:
            raise checked_file.result
        return _print_checked(words, [checked_file], ())
    include = find_include_folder()
    checked_files = [_Checked("pipeline", name, result) for name, result in load_all_pipelines(include)]
    checked_files += [_Checked("publication", name, result) for name, result in load_publications(include)]
    return _print_checked(words, checked_files, list_catalog_problems(include), list_unread_warnings(include))


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


def _check_file(file: Path) -> _Checked:
    around = find_folder_around(file)
    folder = file.absolute().parent.resolve()
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
    words: argparse.Namespace,
    results: list[_Checked],
    catalog_problems: tuple[str, ...],
    unread_warnings: tuple[str, ...] = (),
) -> int:
    is_wrong = bool(catalog_problems) or any(
        isinstance(checked_file.result, ConfigurationError) for checked_file in results
    )
    if words.json:
        parts = {
            f"{kind}s": [checked_file.to_dict() for checked_file in results if checked_file.kind == kind]
            for kind in ("pipeline", "publication")
        }
        print(json.dumps({"ok": not is_wrong, "catalogs": list(catalog_problems), **parts}))
    else:
        lines = [*catalog_problems]
        for checked_file in results:
            lines += _describe_result(checked_file.name, checked_file.result, printed_lines=lines)
        lines += [f"warning: {warning}" for warning in unread_warnings]
        print(
            "\n".join(lines)
            or name_command(f"no pipelines in {find_include_folder()}; propose one with: {FIRST_COMMAND}")
        )
    return 1 if is_wrong else 0


def _describe_result(name: str, result: object, printed_lines: list[str]) -> list[str]:
    if isinstance(result, ConfigurationError):
        # a problem of a file that all share is printed once
        return [problem for problem in result.problems if problem not in printed_lines]
    warnings = result.warnings if isinstance(result, Pipeline) else ()
    return [f"{name}: ok", *(f"  warning: {warning}" for warning in warnings)]


def run_schema(words: argparse.Namespace) -> int:
    print(json.dumps(build_publication_schema() if words.of == "publication" else build_json_schema(), indent=2))
    return 0
