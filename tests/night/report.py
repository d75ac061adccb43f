"""The table in ``benchmarks/results/failures.md``: one row for each failure, in the order of the catalogue."""

import re

from conftest import ROOT

from night.catalogue import FAILURES
from night.observation import Observation

DOCUMENT = ROOT / "benchmarks" / "results" / "failures.md"
BEGIN, END = "<!-- table: written by python -m night -->", "<!-- end of the table -->"
HEAD = (
    "| failure | seconds until reported | message | way out | clicks | pixels | seconds until recovered | left behind |"
)
RULE = "| --- | ---: | --- | --- | ---: | ---: | ---: | --- |"
NAMES = re.compile(r"^(?:\w+ failed[^:]*: )?(?:\w+=\S+ )*\w+=\S+: ")
MAX_CHARACTERS = 110  # of a message: enough to recognise it


def write_rows(observations: list[Observation]) -> None:
    """Replace the rows of these failures; the others stay."""
    before, _, tail = DOCUMENT.read_text().partition(BEGIN)
    old, _, after = tail.partition(END)
    rows = {line.split("|")[1].strip(): line for line in old.splitlines() if line.startswith("| ")}
    rows |= {observation.title: format_row(observation) for observation in observations}
    lines = [rows[kind.title] for kind in FAILURES.values() if kind.title in rows]
    DOCUMENT.write_text("\n".join([f"{before}{BEGIN}", HEAD, RULE, *lines, f"{END}{after}"]))


def format_row(observation: Observation) -> str:
    """One line of the table."""
    sentence = (
        f"`{escape(shorten(observation.sentence).replace(chr(96), chr(39)))}`"
        if observation.reaction_seconds is not None
        else escape(observation.sentence)
    )
    if observation.problem:
        sentence = f"**not as it should be**: {escape(observation.problem)}"
    cells = [
        observation.title,
        format_seconds(observation.reaction_seconds),
        sentence,
        escape(observation.remedy),
        "" if observation.clicks is None else str(observation.clicks),
        "" if observation.pixels is None else str(observation.pixels),
        format_seconds(observation.recovery_seconds),
        "nothing"
        if observation.recovery_seconds is not None and not observation.leftovers
        else escape(", ".join(observation.leftovers)),
    ]
    return f"| {' | '.join(cells)} |"


def shorten(text: str) -> str:
    """The first words of a message behind the names that it begins with."""
    text = NAMES.sub("", text)
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS].rpartition(" ")[0].rstrip(" ;:,") + " …"


def format_seconds(seconds: float | None) -> str:
    """Whole seconds; nothing where there were none to count."""
    return "" if seconds is None else f"{seconds:.0f}"


def escape(text: str) -> str:
    """Text that ends no cell."""
    return text.replace("|", "\\|")
