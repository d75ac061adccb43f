"""Names of tables that the product makes are as long as catalogs and file systems take, or validation says so."""

from pathlib import Path

import pytest
from pipeline_files import CATALOGS, find_problems, load, render_source
from tidegate.spec.pipeline import Pipeline

KEY = "key: {fields: [id], schema: id BIGINT}, value: {schema: 'id BIGINT, type STRING'}"
BACKFILL_PART = len("_orders_backfill_0123456789_tmp")


def render_file(name: str, options: str = "") -> str:
    return render_source(KEY, tables=f"[{{name: lake.shop.short}}, {{name: '{name}'{options}}}]")


def list_length_warnings(pipeline: Pipeline) -> list[str]:
    return [warning for warning in pipeline.warnings if "bytes=" in warning]


@pytest.mark.parametrize(
    ("catalog", "options", "part", "limit"),
    [
        ("lake", "", "_orders_tmp", 255),
        ("lake", ", branch: audit", "_audit_deletes", 255),
        ("dwh", "", "_tidegate_position", 1024),
    ],
)
def test_name_that_is_too_long_is_refused_before_anything_is_made(
    include: Path, catalog: str, options: str, part: str, limit: int
) -> None:
    (include / "catalogs.yaml").write_text(CATALOGS.replace("project: p", "project: p, staging: 'gs://b/p'"))
    suffixes = {"_orders_tmp", "_tidegate_position", "_audit_deletes" if options else "_deletes"}
    longest_suffix = max(suffixes, key=len)
    fits = "t" * (limit - len(longest_suffix))
    load(include, render_file(f"{catalog}.shop.{fits}", options))
    (line,) = find_problems(include, render_file(f"{catalog}.shop.{fits}t", options))
    assert line.startswith("pipelines/orders.yaml:2: tables[1].name=")
    assert f"bytes={limit + 1} in the name ttt" in line
    assert line.endswith(f"limit={limit}; shorten the table's name, the pipeline's, or merge.intermediate_suffix")
    assert part in suffixes


def test_bytes_are_counted_and_not_letters(include: Path) -> None:
    (line,) = find_problems(include, render_file(f"lake.shop.{'ü' * 119}"))
    assert f"bytes={238 + len('_tidegate_position')} in the name ü" in line


def test_backfill_that_would_fail_for_its_name_is_warned_of_and_the_flush_goes_on(include: Path) -> None:
    fits = "t" * (255 - BACKFILL_PART)
    assert list_length_warnings(load(include, render_file(f"lake.shop.{fits}"))) == []
    (warning,) = list_length_warnings(load(include, render_file(f"lake.shop.{fits}t")))
    assert f"a backfill or a replay of lake.shop.{fits}t would fail: bytes=256 in the name of the table" in warning


def test_longest_name_that_records_can_give_counts(include: Path) -> None:
    table = render_source(KEY, tables="[{name: 'lake.shop.{type}', namespaces: [shop]}]")
    fits = "_" + "s" * (255 - 100 - len("_orders_"))
    load(include, f"{table}merge: {{intermediate_suffix: {fits}}}")
    (line,) = find_problems(include, f"{table}merge: {{intermediate_suffix: {fits}s}}")
    assert "bytes=256 in the name xxx" in line
