"""`init` without brokers: what is asked, what is refused at once, and what the product's check says of a proposal."""

import io
import json
import resource
from pathlib import Path
from typing import Any

import pytest
from tidegate.cli.commands import init
from tidegate.cli.commands.init import choose_records
from tidegate.cli.parser import build_parser
from tidegate.errors import ConfigurationError
from tidegate.model.kafka_log import KafkaRecord
from tidegate.sampling.proposal import propose_table
from tidegate.sampling.samples import TopicSample
from tidegate.wiring.proposed_files import check_files, write_files


def build_sample(topic: str, span: int = 2) -> TopicSample:
    row = b'{"id": 1, "at": "2026-01-01T00:00:00Z"}'
    records = tuple(KafkaRecord(topic, n % 2, n // 2, 1000 * n, b'{"id": %d}' % n, row) for n in range(6))
    return TopicSample(topic, records, {0: 0, 1: 0}, {0: span, 1: 3})


@pytest.fixture
def run(include: Path, monkeypatch, capsys) -> Any:
    """The command over a sample that needs no broker: its exit code and what it wrote."""
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(include))
    monkeypatch.setattr("sys.stdin", io.StringIO())

    def run(*words: str, span: int = 2) -> tuple[int, str, str]:
        monkeypatch.setattr(init, "sample_topic", lambda kafka, resolve, topic, *_: build_sample(topic, span))
        code = init.run_init(build_parser().parse_args(["init", *words]))
        return (code, *capsys.readouterr())

    return run


def test_problem_of_a_proposal_names_the_file_that_it_would_be(include) -> None:
    text = "source: {topics: [t], oops: 1}\ntables: [{name: lake.shop.t}]\n"
    (problem,), _ = check_files(include, "orders", text)
    assert problem.startswith(f"{include}/pipelines/orders.yaml:1: source.oops")


def test_table_that_another_pipeline_needs_for_itself_is_refused(run, include) -> None:
    (include / "pipelines" / "aa.yaml").write_text("source: {topics: [t]}\ntables: [{name: lake.shop.x}]\n")
    with pytest.raises(ConfigurationError, match="pipeline aa needs"):
        run("--topic", "t", "--to", "lake.shop.tidegate_aa_batches", "--yes")
    assert [path.name for path in (include / "pipelines").iterdir()] == ["aa.yaml"]


def test_table_that_another_pipeline_writes_is_said(run, include) -> None:
    (include / "pipelines" / "aa.yaml").write_text("source: {topics: [t]}\ntables: [{name: lake.shop.orders}]\n")
    code, output, _ = run("--topic", "t", "--to", "lake.shop.orders", "--yes")
    assert (code, "warning: pipeline=aa writes lake.shop.orders already" in output) == (0, True)


def test_no_answer_writes_nothing_and_says_so_to_programs_too(run, include) -> None:
    code, output, errors = run("--topic", "t", "--to", "lake.shop.orders", "--json")
    assert (code, json.loads(output)["done"], "nothing was written" in errors) == (1, False, True)
    assert not list((include / "pipelines").iterdir())


@pytest.mark.parametrize("is_there", [True, False])
def test_disk_that_is_full_leaves_the_file_as_it_was(include, tmp_path, is_there: bool) -> None:
    """Also one behind a link, which stays a link."""
    old_text = "source: {topics: [Shop.Orders]}\n"
    kept = tmp_path / "kept.yaml"
    path = include / "pipelines" / "orders.yaml"
    if is_there:
        kept.write_text(old_text)
        path.symlink_to(kept)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(ConfigurationError, match=r"orders\.yaml: cannot be written: File too large; "):
            write_files(include, "orders", "# a comment\n" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [file.name for file in (include / "pipelines").iterdir()] == ["orders.yaml"] * is_there
    assert not is_there or path.read_text() == old_text
    write_files(include, "orders", "source: {}\n")
    assert (path.read_text(), path.is_symlink()) == ("source: {}\n", is_there)


def test_missing_topic_and_broken_words_are_refused(run) -> None:
    with pytest.raises(ConfigurationError, match="--topic is missing"):
        run("--to", "lake.shop.orders")
    for words in (("--records", "0"), ("--seconds", "x"), ("--records", "-5")):
        with pytest.raises(SystemExit):
            build_parser().parse_args(["init", *words])


@pytest.mark.parametrize(
    ("topic", "word", "name"),
    [
        ("shop.public.Orders", "orders", "orders"), ("a-b", "a_b", "a_b"), ("1st", "1st", "st"),
        ("x.", "records", "records"),
        ("Ünï", "_n_", "n_"), ("a" * 90, "a" * 90, "a" * 60),
    ],
)  # fmt: skip
def test_names_are_made_of_a_topics(topic, word, name) -> None:
    assert (init.to_word(topic), init.suggest_name(init.to_word(topic))) == (word, name)


def test_dry_run_takes_the_newest_records_of_each_partition_by_turns() -> None:
    table = propose_table(build_sample("t"), "lake.shop.t", lambda *_: None)
    assert [(record.partition, record.offset) for record in choose_records(table, 5)] == [
        (0, 2),
        (1, 2),
        (0, 1),
        (1, 1),
        (0, 0),
    ]
