"""What holds for every pipeline whose own file says nothing else."""

from pathlib import Path

import pytest
from pipeline_files import MINIMAL, find_problems, load
from tidegate.config.pipeline_file import load_all_pipelines
from tidegate.errors import ConfigurationError
from tidegate.spec.pipeline import Pipeline

DEFAULTS = "heartbeat: {interval: 3m, topic: beats, produce: true}\nmaintenance: {keep_snapshots: 50}\n"


def write(include: Path, text: str) -> None:
    (include / "defaults.yaml").write_text(text)


def test_pipelines_take_what_the_file_of_defaults_says_and_the_product_s_own_for_the_rest(include: Path) -> None:
    write(include, DEFAULTS)
    pipeline = load(include, MINIMAL)
    beat = pipeline.heartbeat
    assert (beat.interval_seconds, beat.topic, beat.produce) == (180, "beats", True)
    assert beat.ignore_topics == ("__debezium-heartbeat.*",)
    assert (pipeline.maintenance.keep_snapshots, pipeline.maintenance.interval_seconds) == (50, 86_400)
    assert dict(load_all_pipelines(include)) == {"orders": pipeline}


def test_a_pipeline_s_own_word_wins_key_by_key(include: Path) -> None:
    write(include, DEFAULTS)
    beat = load(include, MINIMAL + "heartbeat: {topic: own, produce: false}\n").heartbeat
    assert (beat.interval_seconds, beat.topic, beat.produce) == (180, "own", False)


def test_a_value_out_of_range_is_named_where_it_stands(include: Path) -> None:
    assert isinstance(load(include, MINIMAL), Pipeline)
    write(include, "heartbeat:\n  interval: soon\n  colour: red\nmerge: {interval: 5s}\n")
    problems = find_problems(include, MINIMAL)
    assert [line.partition(" ")[0] for line in problems] == [f"defaults.yaml:{n}:" for n in (2, 3, 4)]
    [(_, error)] = load_all_pipelines(include)
    assert isinstance(error, ConfigurationError)
    assert len(error.problems) == 3


@pytest.mark.parametrize("text", ["", "- heartbeat\n", "heartbeat\n"])
def test_a_file_of_defaults_without_a_section_is_refused(include: Path, text: str) -> None:
    write(include, text)
    assert "no section in it" in find_problems(include, MINIMAL)[0]


def test_tags_of_the_defaults_hold_where_a_pipeline_has_none_of_its_own(include: Path) -> None:
    write(include, "tags: [shop, nightly]\n")
    assert load(include, MINIMAL).tags == ("shop", "nightly")
    assert load(include, MINIMAL + "tags: [own]\n").tags == ("own",)
    assert load(include, MINIMAL + "tags: []\n").tags == ()


def test_wrong_tag_of_the_defaults_is_named_there(include: Path) -> None:
    write(include, "heartbeat: {interval: 3m}\ntags: [shop, '']\n")
    [problem] = find_problems(include, MINIMAL)
    assert problem == "defaults.yaml:2: tags[1]='': a tag has 1 to 100 printable letters, no blank before or after them"


def test_key_that_only_one_pipeline_cannot_have_is_named_where_it_stands(include: Path) -> None:
    """Two keys of the defaults, and one of them that the pipeline gives itself."""
    text = "source: {topics: [orders], value: {schema: 'name STRING'}}\ntables: [{name: 'lake.Shop.{name}'}]\n"
    write(include, "verify: {interval: 1d}\nheartbeat: {produce: true, topic: orders}\n")
    problems = find_problems(include, text + "heartbeat: {interval: 3m}\n")
    assert [problem.partition(": ")[2].partition(": ")[0] for problem in problems] == [
        "verify (in defaults.yaml)",
        "heartbeat.topic=orders (in defaults.yaml)",
    ]
    problems = find_problems(include, text + "heartbeat: {topic: orders}\nverify: {interval: 2d}\n")
    assert [problem.partition(": ")[2].partition(": ")[0] for problem in problems] == [
        "heartbeat.topic=orders",
        "verify",
    ]


def test_link_of_defaults_that_leads_nowhere_is_refused_and_not_taken_for_no_file(include: Path) -> None:
    (include / "defaults.yaml").symlink_to("gone.yaml")
    for name in ("orders", "lines"):
        (include / "pipelines" / f"{name}.yaml").write_text(MINIMAL)
    problems = dict(load_all_pipelines(include))
    assert sorted(problems) == ["lines", "orders"]
    for problem in problems.values():
        assert isinstance(problem, ConfigurationError)
        assert "defaults.yaml: cannot be read: No such file or directory" in str(problem)
