"""The table of mistakes of a first hour: forty and more, each one sown by a test, in each part of the product."""

from collections import Counter
from pathlib import Path

from seeded_mistakes import MISTAKES
from tidegate.diagnosis.finding import CHECKS

TESTS = Path(__file__).parents[1]


def test_each_mistake_is_sown_by_a_test() -> None:
    tests = [path for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
    texts = [text for text in (path.read_text() for path in tests) if "seeded_mistakes" in text]
    assert [name for name in MISTAKES if not any(f'"{name}"' in text for text in texts)] == []


def test_there_are_more_than_forty_in_every_part() -> None:
    parts = Counter(mistake.check.partition(".")[0] for mistake in MISTAKES.values())
    assert parts.total() >= 40
    assert parts.keys() == {"files", "kafka", "registry", "catalog", "pipeline", "spark", "airflow"}


def test_each_check_is_tried_by_a_mistake() -> None:
    tried_checks = {mistake.check for mistake in MISTAKES.values()}
    assert {*CHECKS} - tried_checks == set()
