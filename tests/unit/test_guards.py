"""The table of guards follows the code: ``make test-mutations`` finds each, and the guarantees page names it."""

import ast
from pathlib import Path

import pytest
from mutations.guards import GUARDS, Guard

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_guard_can_be_switched_off_and_has_a_test(guard: Guard) -> None:
    assert (ROOT / guard.file).read_text().count(guard.text) == 1, f"{guard.file}: correct tests/mutations/guards.py"
    file, _, test = guard.test.partition("::")
    tree = ast.parse((ROOT / file).read_text())
    assert test.partition("[")[0] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_guarantees_page_lists_every_guard() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text()
    assert not [guard.name for guard in GUARDS if f"| {guard.name} |" not in page]
