"""``benchmarks/results/engines.md``: a section for each engine, which its run replaces; the others stay."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from conftest import ROOT

from engines.journey import State
from engines.readers import Engine, Reading
from engines.shop import CASES
from engines.values import describe_difference, find_limits

DOCUMENT = ROOT / "benchmarks" / "results" / "engines.md"
BEGIN, END = "<!-- {engine}: written by make test-engines -->", "<!-- end of {engine} -->"
EQUAL, REFUSED, WRONG = "equal", "refused", "**WRONG**"
MAX_CHARACTERS = 160  # of a refusal: enough to recognise it


@dataclass(frozen=True)
class Result:
    """What an engine made of a state, and what is to be said of it; `is_known` where its limits or refusals tell it."""

    state: State
    verdict: str
    reason: str = ""
    is_known: bool = True


def judge(engine: Engine, state: State, expected: Reading, reading: Reading) -> Result:
    """Compare rows with those of Spark, value by value."""
    if reading.refused:
        known = any(re.search(pattern, reading.refused) for pattern in engine.refusals)
        return Result(state, REFUSED, f"`{shorten(reading.refused)}`", known)
    limits = find_limits(expected.rows, reading.rows, state.fields, engine.limits)
    if limits is None:
        return Result(state, WRONG, describe_difference(expected.rows, reading.rows), is_known=False)
    return Result(state, EQUAL, "but " + " and ".join(limit.words for limit in limits) if limits else "")


def write_section(engine: str, version: str, results: Sequence[Result], day: str) -> str:
    """Replace the engine's section; return it."""
    counts = Counter(result.verdict for result in results)
    told = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    formats = list(dict.fromkeys(result.state.format for result in results))
    marks = dict(zip(dict.fromkeys(filter(None, (result.reason for result in results))), ascii_lowercase, strict=False))
    lines = [BEGIN.format(engine=engine), f"## {version}", "", f"States read on {day}: {told}.", ""]
    lines += [f"| table | {' | '.join(f'format {name}' for name in formats)} |", "| --- |" + " --- |" * len(formats)]
    for case in CASES:
        cells = [
            describe_steps([r for r in results if (r.state.case, r.state.format) == (case, name)], marks)
            for name in formats
        ]
        lines.append(f"| {case.title} | {' | '.join(cells)} |")
    notes = [f"- ({mark}) {reason}" for reason, mark in marks.items()]
    section = "\n".join([*lines, *(["", *notes] if notes else []), END.format(engine=engine)])
    before, _, tail = DOCUMENT.read_text().partition(BEGIN.format(engine=engine))
    _, _, after = tail.partition(END.format(engine=engine))
    DOCUMENT.write_text(before + section + after)
    return section


def describe_steps(results: Sequence[Result], marks: Mapping[str, str]) -> str:
    """The states of one table: one word where all are the same, else each with its own."""
    by_words: dict[str, list[str]] = {}
    for result in results:
        words = f"{result.verdict} ({marks.get(result.reason, '…')})" if result.reason else result.verdict
        by_words.setdefault(words, []).append(result.state.step)
    if len(by_words) == 1:
        return next(iter(by_words))
    return "; ".join(f"{', '.join(steps)}: {words}" for words, steps in by_words.items())


def shorten(text: str) -> str:
    line = " ".join(text.split()).replace("`", "'")
    return line if len(line) <= MAX_CHARACTERS else line[:MAX_CHARACTERS].rpartition(" ")[0] + " …"
