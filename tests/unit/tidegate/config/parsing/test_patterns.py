"""Regular expressions of pipeline files: Tidegate's own are Python's, a route's are Java's."""

from pathlib import Path

import pytest
from pipeline_files import find_problems, load, render_source, render_table
from tidegate.config.checks.source import check_java_pattern, compile_pattern

DEEP = "(" * 500 + "a" + ")" * 500


@pytest.mark.parametrize("pattern", ["(", DEEP, "a{99999999999}", "*"])
def test_pattern_that_cannot_be_read_is_one_problem_wherever_it_stands(include: Path, pattern: str) -> None:
    files = {
        "source.topic_pattern": f"source: {{topic_pattern: '{pattern}', errors: {{tolerance: all, topic: dlq}}}}\n"
        "tables: [{name: lake.a.b}]",
        "tables[0].route.pattern": render_table(f"route: {{field: topic, pattern: '{pattern}'}}"),
        "heartbeat.ignore_topics[0]": render_source(tables="[{name: lake.a.b, topics: [t]}]")
        + f"heartbeat: {{ignore_topics: ['{pattern}']}}",
    }
    for key, text in files.items():
        (problem,) = find_problems(include, text)
        assert f"{key}={pattern[:20]}" in problem
        assert "not a regular expression" in problem


@pytest.mark.parametrize(
    "pattern",
    [r"\p{Lu}+", r"\P{L}\d", r"(?<year>\d{4})-\k<year>", r"\Qa.(b\E.*", r"\x{1F600}", r"a\z", "a++", "(?i)ab"],
)
def test_pattern_of_javas_is_taken_where_spark_reads_it(include: Path, pattern: str) -> None:
    pipeline = load(include, render_table(f"route: {{field: topic, pattern: '{pattern}'}}"))
    assert pipeline.tables[0].route.pattern == pattern


@pytest.mark.parametrize("pattern", ["(?P<year>a)", "a(?#note)b", "(a)?b(?(1)c|d)"])
def test_pattern_of_pythons_alone_is_refused_where_spark_reads_it(pattern: str) -> None:
    with pytest.raises(ValueError, match="not a regular expression of Java's"):
        check_java_pattern(pattern)
    assert compile_pattern(pattern)
