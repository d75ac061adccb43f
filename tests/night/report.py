"""The table in ``docs/failures.md``: one row for each failure, in the order of the catalogue."""

import subprocess
from datetime import UTC, datetime

from conftest import ROOT

from night.catalogue import FAILURES
from night.observation import Observation

DOCUMENT = ROOT / "docs" / "failures.md"
BEGIN, END = "<!-- table: written by python -m night -->", "<!-- end of the table -->"
HEAD = (
    "| failure | seconds until reported | message | way out | clicks | seconds until recovered | left behind | seen |"
)
RULE = "| --- | ---: | --- | --- | ---: | ---: | --- | --- |"


def write_rows(observations: list[Observation]) -> None:
    """Replace the rows of these failures; the others stay."""
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    rows = {line.split("|")[1].strip(): line for line in old.splitlines() if line.startswith("| ")}
    rows |= {seen.title: format_row(seen) for seen in observations}
    lines = [rows[kind.title] for kind in FAILURES.values() if kind.title in rows]
    DOCUMENT.write_text("\n".join([f"{before}{BEGIN}", HEAD, RULE, *lines, f"{END}{after}"]))


def format_row(seen: Observation) -> str:
    """One line of the table."""
    sentence = (
        f"`{escape(seen.sentence.replace(chr(96), chr(39)))}`" if seen.told is not None else escape(seen.sentence)
    )
    if seen.problem:
        sentence = f"**not as it should be**: {escape(seen.problem)}"
    cells = [
        seen.title,
        format_seconds(seen.told),
        sentence,
        escape(seen.remedy),
        "" if seen.clicks is None else str(seen.clicks),
        format_seconds(seen.well),
        "nothing" if seen.well is not None and not seen.left else escape(", ".join(seen.left)),
        find_date_and_commit(),
    ]
    return f"| {' | '.join(cells)} |"


def format_seconds(seconds: float | None) -> str:
    """Whole seconds; nothing where there were none to count."""
    return "" if seconds is None else f"{seconds:.0f}"


def escape(text: str) -> str:
    """Text that ends no cell."""
    return text.replace("|", "\\|")


def find_date_and_commit() -> str:
    """When and of which code."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return f"{datetime.now(UTC):%F} {commit}".strip()
