"""Writes the report of a run: tables, goals and a comparison for people, one JSON file, and a chart."""

import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.bar import Bar
from rich.console import Console
from rich.table import Table as Drawn

from benchmarks.result import Goal, Result, Table

PICTURE_WIDTH, BAR = 130, 40
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # rich's picture would fetch one from the network
AS_LIMIT = 1.0


def format_tables(result: Result) -> str:
    """A part's tables as text."""
    return "\n\n".join(format_table(table) for table in result.tables)


def format_table(table: Table) -> str:
    """One table as text."""
    lines = [table.header, *table.lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.header))]
    table_lines = (
        "  ".join(cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(line, widths, strict=True)) for line in lines)
    )
    return "\n".join([table.title, *(line.rstrip() for line in table_lines)])


def build_goal_table(results: Mapping[str, Result]) -> Table:
    """Every goal with its figure, and whether it was reached."""
    lines = [
        (
            part,
            goal.name,
            f"{goal.figure:g}",
            f"{'≥' if goal.more_is_better else '≤'} {goal.limit:g}",
            _describe_goal(goal),
        )
        for part, result in results.items()
        for goal in result.goals
    ]
    return Table("Goals", ("", "", "figure", "goal", ""), lines)


def _describe_goal(goal: Goal) -> str:
    return "met" if goal.met else "NOT met"


def build_comparison(results: Mapping[str, Result], recorded: Mapping[str, Any]) -> Table:
    """Each figure beside that of the last recorded run; only parts that did as much then as now."""
    lines = list(_list_comparisons(results, recorded))
    return Table("Against the last recorded run", ("", "", "now", "then", "now/then"), lines)


def _list_comparisons(results: Mapping[str, Result], recorded: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for part, result in results.items():
        before = recorded.get(part, {}).get("figures", {})
        for name, now in result.figures.items():
            if name in before:
                former_figure = before[name]
                yield (
                    part,
                    name,
                    f"{now:g}",
                    f"{former_figure:g}",
                    f"{now / former_figure:.2f}" if former_figure else "-",
                )


def to_json(result: Result, description: Mapping[str, Any]) -> dict[str, Any]:
    """A part for the file."""
    return {
        **description,
        "right": result.right,
        "figures": result.figures,
        "goals": [{**asdict(goal), "met": goal.met} for goal in result.goals],
        "tables": [asdict(table) for table in result.tables],
        "details": result.details,
        "missing": list(result.missing),
    }


def write(folder: Path, parts: Mapping[str, Any]) -> Path:
    """Write the next numbered file of the folder."""
    numbers = [int(path.stem.rpartition("-")[2]) for path in folder.glob("results-*.json")]
    path = folder / f"results-{max(numbers, default=0) + 1}.json"
    path.write_text(json.dumps(parts, indent=1, ensure_ascii=False) + "\n")
    return path


def draw_goals(parts: Mapping[str, Any], path: Path) -> None:
    """Draw the goals as bars, as recorded: a whole bar is what the goal allows."""
    chart = Drawn("", "", "figure", "goal", "of what it allows", "", title="What a flush costs: goals and figures")
    for part, result in sorted(parts.items()):
        for data in result["goals"]:
            goal = Goal(**{name: value for name, value in data.items() if name != "met"})
            share = _share(goal)
            color = "green" if goal.met else "red"
            bar = Bar(size=AS_LIMIT, begin=0, end=min(max(share, 0), AS_LIMIT), width=BAR, color=color)
            sign = "≥" if goal.more_is_better else "≤"
            cells = (
                part,
                goal.name,
                f"{goal.figure:g}",
                f"{sign} {goal.limit:g}",
                bar,
                f"{share:.2f} {_describe_goal(goal)}",
            )
            chart.add_row(*cells)
    console = Console(record=True, width=PICTURE_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(chart)
    path.write_text(FONT.sub("", console.export_svg(title="make bench")))


def _share(goal: Goal) -> float:
    """How much of what the goal allows is used."""
    above, below = (goal.limit, goal.figure) if goal.more_is_better else (goal.figure, goal.limit)
    return above / below if below else float("inf")
