"""The night: its pipeline files are right before a server is up; its table keeps the rows of failures not run."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Workbench
from night import report
from night.catalogue import FAILURES
from night.observation import Observation
from night.scene import write_catalogs
from tidegate.config.pipeline_file import load_pipeline


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    new_document = tmp_path / "failures.md"
    new_document.write_text(f"# Failures\n\nBefore.\n\n{report.BEGIN}\n{report.END}\n\nBehind.\n")
    monkeypatch.setattr(report, "DOCUMENT", new_document)
    return new_document


def see(name: str, **fields: object) -> Observation:
    return Observation(name, FAILURES[name].title, **fields)


def list_rows(document: Path) -> list[list[str]]:
    lines = document.read_text().partition(report.RULE)[2].partition(report.END)[0].strip().splitlines()
    return [[cell.strip() for cell in line.replace("\\|", "").split("|")[1:-1]] for line in lines]


def test_rows_of_other_failures_stay_and_all_stand_in_their_order(document: Path) -> None:
    first = see(
        "wrong_file",
        sentence="colour: a | b",
        reaction_seconds=3.4,
        remedy="correct it",
        clicks=0,
        recovery_seconds=16.0,
    )
    report.write_rows([first, see("poison_record", problem="never says it")])
    report.write_rows(
        [see("poison_record", sentence="bad", reaction_seconds=21.0, remedy="*Skip*", clicks=2, recovery_seconds=4.0)]
    )
    rows = list_rows(document)
    assert [row[0] for row in rows] == [FAILURES["poison_record"].title, FAILURES["wrong_file"].title]
    assert [row[1:7] for row in rows] == [
        ["21", "`bad`", "*Skip*", "2", "4", "nothing"],
        ["3", "`colour: a  b`", "correct it", "0", "16", "nothing"],
    ]
    text = document.read_text()
    assert text.startswith("# Failures\n\nBefore.\n\n")
    assert text.endswith("\n\nBehind.\n")


def test_what_was_not_told_or_was_left_behind_is_no_success(document: Path) -> None:
    leftover_observation = see(
        "kafka_dead", sentence="Kafka", reaction_seconds=1.0, leftovers=("branch tidegate_x_1_a",)
    )
    never = see("disk_full", problem="never says No space")
    assert [observation.is_good for observation in (leftover_observation, never, see("two_runners"))] == [
        False,
        False,
        True,
    ]
    report.write_rows([leftover_observation, never])
    assert [row[6] for row in list_rows(document)] == ["branch tidegate_x_1_a", ""]
    assert "never says No space" in list_rows(document)[1][2]


def test_every_failure_of_the_catalogue_is_documented(document: Path) -> None:
    report.write_rows([see(name) for name in FAILURES])
    assert len(list_rows(document)) == len(FAILURES) >= 20


def test_pipeline_files_are_right_before_any_server_is_up(tmp_path: Path) -> None:
    bench, door = Workbench(None, None, None, tmp_path), SimpleNamespace(port=1, address="http://127.0.0.1:1")
    doors = SimpleNamespace(to_registry=door, to_postgres=door, rest=door, small_disk=None)
    (bench.include / "publications").mkdir()
    write_catalogs(bench, doors)
    for name, failure in FAILURES.items():
        failure(name).write_files(bench, doors)
        assert load_pipeline(bench.include / "pipelines" / f"{name}.yaml").name == name
