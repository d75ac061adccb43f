"""What `make test` leaves out repeats a quick test, which is there and runs in every build."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from examples import ALL, DAY, DAYS, choose_part, is_of_today

TESTS = Path(__file__).parents[1]


@cache
def list_functions(file: Path) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(file.read_text() if file.exists() else "")
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def list_repeats(function: ast.FunctionDef) -> Iterator[tuple[str, list[str]]]:
    """The quick test that each mark names, and the parameters that it is about; none: all."""
    for node in function.decorator_list:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.repeats":
            quick, *parameters = (ast.literal_eval(word) for word in node.args)
            yield quick, parameters


def list_marked() -> Iterator[tuple[Path, str]]:
    """The file of each long test, and the quick test behind which it stands."""
    for file in sorted(TESTS.rglob("test_*.py")):
        if "pytest.mark.repeats(" in file.read_text():
            yield from ((file, quick) for node in list_functions(file).values() for quick, _ in list_repeats(node))


def find_quick(file: Path, quick: str) -> tuple[Path, str, str]:
    """Its file, function and parameters; a name without a file is one of the same file."""
    name, _, test = quick.rpartition("::")
    function, _, parameters = test.partition("[")
    return (TESTS / name if name else file), function, parameters.removesuffix("]")


def test_every_long_test_repeats_a_quick_one_that_is_there_and_runs_in_every_build() -> None:
    marked = list(list_marked())
    assert len(marked) > 100
    for file, quick in marked:
        assert "unit" not in file.relative_to(TESTS).parts, f"{file.name}: unit tests are never long"
        home, function, parameters = find_quick(file, quick)
        node = list_functions(home).get(function)
        assert node is not None, f"{file.name}: there is no {quick}"
        for _, long_ones in list_repeats(node):
            assert long_ones, f"{file.name}: {quick} is long itself"
            assert parameters not in long_ones, f"{file.name}: {quick} is long itself"


def test_each_repeat_is_met_on_one_of_the_days_over_which_they_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"test_Orders.py::test_{n}[iceberg-{n}]" for n in range(60)]
    monkeypatch.setenv(DAYS, "6")
    met = []
    for day in range(20_788, 20_794):
        monkeypatch.setenv(DAY, str(day))
        met.append([name for name in names if is_of_today(name)])
    assert sorted(name for of_day in met for name in of_day) == sorted(names)
    assert all(0 < len(of_day) < 30 for of_day in met)
    monkeypatch.delenv(DAYS)
    assert all(map(is_of_today, names))


def test_each_case_of_a_grid_is_met_on_one_of_the_days_and_the_quick_ones_on_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = [f"case {number}" for number in range(20)]
    quick = cases[5::9]
    for name in (ALL, DAYS):
        monkeypatch.delenv(name, raising=False)
    assert choose_part(cases, 14, 9) == quick
    monkeypatch.setenv(ALL, "all")
    assert choose_part(cases, 14, 9) == cases
    monkeypatch.setenv(DAYS, "6")
    others = []
    for day in range(20_788, 20_794):
        monkeypatch.setenv(DAY, str(day))
        met = choose_part(cases, 14, 9)
        assert set(quick) < set(met) < set(cases)
        others += [case for case in met if case not in quick]
    assert sorted(others) == sorted(set(cases) - set(quick))
