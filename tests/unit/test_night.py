"""The night: its pipeline files are right before a server is up; its table keeps the rows of failures not run."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import Workbench
from night import report
from night.catalogue import FAILURES
from night.observation import Observation, find_far_remedy
from night.operator_hand import Sight
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
        clicks=1,
        pixels=240,
        recovery_seconds=16.0,
    )
    report.write_rows([first, see("poison_record", problem="never says it")])
    report.write_rows(
        [
            see(
                "poison_record",
                sentence="bad",
                reaction_seconds=21.0,
                remedy="*Skip*",
                clicks=2,
                pixels=0,
                recovery_seconds=4.0,
            )
        ]
    )
    rows = list_rows(document)
    assert [row[0] for row in rows] == [FAILURES["poison_record"].title, FAILURES["wrong_file"].title]
    assert [row[1:8] for row in rows] == [
        ["21", "`bad`", "*Skip*", "2", "0", "4", "nothing"],
        ["3", "`colour: a  b`", "correct it", "1", "240", "16", "nothing"],
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
    assert [row[7] for row in list_rows(document)] == ["branch tidegate_x_1_a", ""]
    assert "never says No space" in list_rows(document)[1][2]


def test_remedy_that_has_to_be_looked_for_is_no_success() -> None:
    assert find_far_remedy(2, Sight(1, 880, is_whole=True)) == ""
    assert find_far_remedy(3, Sight(1, 300, is_whole=True)) == "the remedy takes 3 clicks"
    assert "3100 pixels down" in find_far_remedy(2, Sight(1, 3100, is_whole=False))
    assert find_far_remedy(0, None) == ""


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
