"""The tables of other systems' names: every setting that the import knows, and keys that are there."""

import ast
from pathlib import Path

import pytest
from tidegate.migration.connector_config import SourceKind

from docs.site.coming_from import EXAMPLES, HEADING, expand_page, list_settings, list_transforms, render_tables
from docs.site.keys import SECTIONS, list_keys

ROOT = Path(__file__).parents[3]
SINKS = ROOT / "plugins" / "tidegate" / "migration" / "kafka_connect"
NOTES = {"map", "check", "drop", "refuse"}
OPEN_KEYS = ("create.properties.", "json.envelope", "avro.", "csv.", "raw.")  # with names of their own below


def list_noted_names(module: str) -> set[str]:
    """The settings that a translator notes by a name that it writes out."""
    calls = [node for node in ast.walk(ast.parse((SINKS / f"{module}.py").read_text())) if isinstance(node, ast.Call)]
    first_arguments = [
        call.args[0]
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in NOTES and ast.unparse(call.func.value) == "ledger"
    ]
    return {str(word.value) for word in first_arguments if isinstance(word, ast.Constant)}


@pytest.mark.parametrize(
    ("module", "kind"),
    [("bigquery_sink", SourceKind.BIGQUERY_SINK), ("iceberg_sink", SourceKind.TABULAR_ICEBERG_SINK)],
)
def test_page_has_every_setting_that_a_translator_names(module: str, kind: SourceKind) -> None:
    shown = set(list_settings(EXAMPLES[kind]))
    names = list_noted_names(module) | list_noted_names("worker_settings")
    assert len(names) > 10
    assert names - shown == set()


def test_keys_that_settings_become_are_keys_of_the_file() -> None:
    keys = {f"source.{key.name}" for key in list_keys(SECTIONS["source"])}
    keys |= {f"tables[].{key.name}" for key in list_keys(SECTIONS["tables"])}
    keys |= {key.name for key in list_keys(SECTIONS["pipeline"])}
    for examples in EXAMPLES.values():
        for name, text in list_settings(examples).items():
            targets = [part for part in text.split("`")[1::2] if part.startswith(("source.", "tables[].", "merge."))]
            for target in targets:
                is_open = any(word in target for word in OPEN_KEYS)
                assert is_open or target in keys or any(key.startswith(f"{target}.") for key in keys), (name, target)


def test_values_and_reasons_are_those_of_the_report() -> None:
    settings = list_settings(EXAMPLES[SourceKind.BIGQUERY_SINK])
    assert settings["mergeIntervalMs"] == "`merge.interval`: 90s"
    assert settings["queueSize"].startswith("not needed: Spark writes files")
    flink = list_settings(EXAMPLES[SourceKind.FLINK_SQL])
    assert flink["Kafka table: key.fields-prefix"] == "`source.key.prefix`"
    assert list_transforms()["Flatten"].startswith("not mapped: name each field in tables[].select")
    assert "geheim" not in "".join(render_tables())


def test_tables_stand_below_their_heading_and_no_secret_shows() -> None:
    page = (ROOT / "docs" / "migration.md").read_text()
    text = expand_page(page)
    below = text.partition(HEADING)[2]
    assert "### BigQuery sink for Kafka Connect" in below
    with pytest.raises(ValueError, match="the page has none"):
        expand_page("# Without names\n")
