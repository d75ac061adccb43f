"""Owns what a run says in the end: one table for people, one JSON file for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.product import Flush
from benchmarks.work import Truth

HEADER = (
    "", "wall s", "CPU s", "worker", "peak MB", "read first/again", "rows", "right?", "CPU ratio", "wall ratio",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One way through the work. `read` is what `read_worker` says of its table."""

    name: str
    wall: float
    cpu: float
    worker_cpu: float | None
    peak_mb: int
    read: dict[str, Any]
    right: bool


def is_right(truth: Truth, read: dict[str, Any]) -> bool:
    """Whether a table that was read equals the truth."""
    return truth.equals(read["rows"], read["amount"] or 0.0, read["updated_at"] or 0)


def ratios(product: Row, other: Row) -> dict[str, float]:
    """Product divided by the other: below 1 the product needs less."""
    return {"cpu": round(product.cpu / other.cpu, 2), "wall": round(product.wall / other.wall, 2)}


def table(rows: Sequence[Row]) -> str:
    """The rows as text, the first one being the product; ratios are product / row."""
    product = rows[0]
    lines = [HEADER, *(_cells(row, ratios(product, row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(line, widths, strict=True)) for line in lines)
    )


def _cells(row: Row, ratio: dict[str, float]) -> tuple[str, ...]:
    first, *again = row.read["reads"]
    return (
        row.name,
        f"{row.wall:.1f}",
        f"{row.cpu:.1f}",
        "-" if row.worker_cpu is None else f"{row.worker_cpu:.1f}",
        str(row.peak_mb),
        f"{first:.2f} / {min(again):.2f}",
        f"{row.read['rows']:,}",
        "yes" if row.right else "NO",
        f"{ratio['cpu']:.2f}",
        f"{ratio['wall']:.2f}",
    )


def steps(flush: Flush) -> str:
    """Where the product's time goes, a line for each step."""
    lines = [f"{'step':20}{'wall s':>8}{'server CPU s':>14}{'worker CPU s':>14}"]
    for name, spent in flush.steps.items():
        lines.append(f"{name:20}{spent['wall']:8.2f}{spent['server_cpu']:14.2f}{spent['worker_cpu']:14.2f}")
    return "\n".join(lines)


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows with their ratios product / row, for the file."""
    return [{**asdict(row), "product_ratio": ratios(rows[0], row)} for row in rows]


def write(folder: Path, results: dict[str, Any]) -> Path:
    """Write the next numbered file of the folder."""
    taken = [int(path.stem.rpartition("-")[2]) for path in folder.glob("results-*.json")]
    path = folder / f"results-{max(taken, default=0) + 1}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    return path
