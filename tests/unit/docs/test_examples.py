"""Whole pipeline and publication files that the manual shows are files that the product reads."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from tidegate.config.pipeline_file import load_pipeline
from tidegate.config.publication_file import load_publication
from tidegate.spec.pipeline import Catalog

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
EXAMPLE = re.compile(r"^ *```yaml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
CATALOGS = {
    "lake": Catalog("lake", "iceberg"),
    "dwh": Catalog("dwh", "bigquery", {"project": "my-project", "staging": "gs://my-bucket/tidegate"}),
}


def find_examples() -> list[tuple[str, str]]:
    """The page and text of each example that is a whole file; parts of a file lack a table's name or the topics."""
    texts = [(page.name, textwrap.dedent(text)) for page in PAGES for text in EXAMPLE.findall(page.read_text())]
    return [(name, text) for name, text in texts if is_whole(yaml.safe_load(text))]


def is_whole(document: dict[str, Any]) -> bool:
    if "tables" in document:
        return "topics" in document.get("source", {}) and all("name" in table for table in document["tables"])
    return {"table", "topic", "key"} <= set(document)


def test_manual_shows_whole_files_of_both_kinds() -> None:
    pages = {name for name, _ in find_examples()}
    assert {"README.md", "bigquery.md", "pipeline-file.md", "publications.md"} <= pages


@pytest.mark.parametrize(("page", "text"), find_examples(), ids=lambda value: value.partition("\n")[0])
def test_example_is_a_file_that_the_product_reads(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "example.yaml"
    file.write_text(text)
    if "tables" in yaml.safe_load(text):
        load_pipeline(file, CATALOGS)
    else:
        load_publication(file, CATALOGS)
