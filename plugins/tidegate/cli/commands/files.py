"""``tidegate validate`` and ``tidegate schema``: what is right or wrong in files, and what may stand in them."""

import argparse
import json

from tidegate.config.catalogs_file import list_catalog_problems
from tidegate.config.models.publication import build_publication_schema
from tidegate.config.pipeline_file import build_json_schema, check_tables_of_others, load_all_pipelines, load_pipeline
from tidegate.config.publication_file import check_topics_of_others, load_publication, load_publications
from tidegate.errors import ConfigurationError
from tidegate.settings import find_folder_around, find_include_folder
from tidegate.spec.pipeline import Pipeline


def run_validate(words: argparse.Namespace) -> int:
    """Print what each file is: right, or all of its problems; exit code 1 where one is wrong."""
    if words.file is not None:
        is_out = words.file.resolve().parent.name == "publications"
        loaded = load_publication(words.file) if is_out else load_pipeline(words.file)
        check_others = check_topics_of_others if is_out else check_tables_of_others
        check_others(find_folder_around(words.file), words.file.stem)
        print(_describe_result(str(words.file), loaded))
        return 0
    include = find_include_folder()
    results = [*load_all_pipelines(include), *load_publications(include)]
    problems = list_catalog_problems(include)
    lines = [*problems, *(_describe_result(name, result) for name, result in results)]
    print("\n".join(lines) or f"no pipelines in {include}")
    return 1 if problems or any(isinstance(result, ConfigurationError) for _, result in results) else 0


def _describe_result(name: str, result: object) -> str:
    if isinstance(result, ConfigurationError):
        return str(result)
    warnings = result.warnings if isinstance(result, Pipeline) else ()
    return "\n".join([f"{name}: ok", *(f"  warning: {warning}" for warning in warnings)])


def run_schema(words: argparse.Namespace) -> int:
    """Print a JSON Schema."""
    print(json.dumps(build_publication_schema() if words.of == "publication" else build_json_schema(), indent=2))
    return 0
