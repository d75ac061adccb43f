"""The demo ends with exit code 1 where the product lets a flood of deletes through, or finds its own tables wrong."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demo import __main__ as demo
from demo import product, story
from demo.generator import _is_not_quiet
from demo.product import PIPELINES, Progress
from demo.shop import Row, Shop
from demo.story import FLOODED_PIPELINE, Story
from demo.tables import IcebergTables
from demo.view import View

FLOODED = PIPELINES[FLOODED_PIPELINE]


class Product(IcebergTables):
    """The product beside a shop: its tables and commands. Each flush brings in what the shop has, unless that waits.

    `holds`: a flood waits for an approval. `differing`: what verify calls different from the log. `lost`: of the
    flood, the rows that come in before the rest waits.
    """

    def __init__(self, *, holds: bool = True, differing: str = "", lost: int = 0) -> None:
        self.holds, self.differing, self.lost = holds, differing, lost
        self.shop = Shop(seed=3)
        list(self.shop.create_snapshot(customers=60, orders=20))
        self.shop.may_touch = _is_not_quiet
        self.failure, self.produced, self.approvals = "", 0, 0
        self.rows = {table: self._read_shop(table) for table in PIPELINES.values()}

    def _read_shop(self, table: str) -> list[Row]:
        return list(self.shop.get_rows(table).values())

    def __getattr__(self, name: str) -> Any:
        """The generator pauses and ends."""
        return lambda: None

    def read_rows(self, table: str) -> list[Row]:
        return self.rows[table.rpartition(".")[2]]

    def describe_leftovers(self, intermediate: str) -> None:
        return None

    def send_flood(self, table: str, share: float) -> int:
        return len(self.shop.lose_rows(table, share))

    def read_progress(self, _: Any) -> list[Progress]:
        waits = self.holds and not self.approvals and self.rows[FLOODED] != self._read_shop(FLOODED)
        left = self._read_shop(FLOODED)
        if waits:
            gone = [row for row in self.rows[FLOODED] if row not in left]
            self.rows[FLOODED] = [*left, *gone[self.lost :]]
            self.lost = 0
        else:
            self.rows[FLOODED] = left
        batch = {"batch": 1, "published_at": "2026-01-01T00:00:00.000Z"}
        known = {"rows": 1, "batch": 1, "valid_through": None, "lag": 0, "settled": True, "batches": (batch,)}
        return [
            Progress(pipeline=name, **known, held="held for approval" if waits and name == FLOODED_PIPELINE else None)
            for name in PIPELINES
        ]

    def approve_table(self, pipeline: str, _: Any) -> tuple[bool, str]:
        self.approvals += 1
        return True, f"{pipeline} approved"

    def verify_table(self, pipeline: str, _: Any) -> tuple[bool, str]:
        return pipeline != self.differing, f"{pipeline} verified"


class Watch:
    """Seconds pass while the story sleeps, and at no other time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def run_demo(monkeypatch: pytest.MonkeyPatch, run_dir: Path, beside: Product) -> int:
    stack = SimpleNamespace(build_environment=dict)
    airflow = SimpleNamespace(page_url="http://airflow", describe_runs=str, list_failures=lambda dag: [])
    monkeypatch.setenv("TIDEGATE_INCLUDE", "")  # which the demo changes
    monkeypatch.setattr(demo.signal, "signal", lambda *_: None)
    monkeypatch.setattr(demo, "find_run_dir", lambda: run_dir)
    monkeypatch.setattr(demo, "start_stack", lambda *_, **__: stack)
    monkeypatch.setattr(demo, "stop_stack", lambda _: None)
    monkeypatch.setattr(demo, "_open_tables", lambda *_: beside)
    monkeypatch.setattr(
        story,
        "begin_story",
        lambda _, tables, *__: Story(stack, tables, beside, airflow, View()),  # type: ignore[arg-type]
    )
    monkeypatch.setattr(story, "time", Watch())
    for command in ("read_progress", "approve_table", "verify_table"):
        monkeypatch.setattr(product, command, getattr(beside, command))
    return demo.main(["--once", "--flushes", "1"])


def test_demo_whose_flood_waited_and_whose_tables_are_equal_ends_well(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = Product(lost=2)  # a flush may take the first deletes alone
    assert run_demo(monkeypatch, tmp_path, beside) == 0
    output = capsys.readouterr().out
    assert "held: held for approval" in output
    assert "shop.customers still has 58 rows" in output
    assert "VERDICT: every table equals the shop" in output
    assert beside.approvals == 1


def test_demo_whose_flood_is_published_unseen_says_so_and_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = Product(holds=False)
    assert run_demo(monkeypatch, tmp_path, beside) == 1
    output = capsys.readouterr().out
    assert "published without an approval" in output
    assert "VERDICT: something is wrong, see above" in output
    assert beside.approvals == 0


def test_demo_fails_where_more_came_in_before_the_hold_than_the_rule_lets_through(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run_demo(monkeypatch, tmp_path, Product(lost=31)) == 1


def test_demo_fails_where_nobody_could_approve(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = Product()
    beside.approve_table = lambda pipeline, _: (False, "no rights")  # type: ignore[method-assign]
    assert run_demo(monkeypatch, tmp_path, beside) == 1
    assert f"tidegate approve {FLOODED_PIPELINE}: no rights" in capsys.readouterr().out


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_demo_fails_where_verify_finds_a_difference_though_the_shop_is_equal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], pipeline: str
) -> None:
    assert run_demo(monkeypatch, tmp_path, Product(differing=pipeline)) == 1
    output = capsys.readouterr().out
    assert output.count(": EQUAL: ") == len(PIPELINES)
    assert all(f"tidegate verify {name}: {name} verified" in output for name in PIPELINES)
    assert "VERDICT: something is wrong, see above" in output
