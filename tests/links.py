"""``python -m links``: every link and path that the repository's Markdown names exists; part of ``make lint``.

Checked: relative links with their anchors, texts in backticks that look like a path of this repository, and rows
that an empty line has cut off from their table.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = (".", "docs", "docs/adr", "docs/runbook", "deploy", "benchmarks")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ROOTS = "plugins|jobs|dags|tests|local|demo|benchmarks|deploy|include/sql|docs"
PATH = re.compile(rf"`((?:{ROOTS})/[\w./-]+\.\w+)(?:::\w+)?`")
TEST = re.compile(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)(?:::(\w+)(?:\[[^`]*\])?)?`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CUT_ROW = re.compile(r"\n\s*\n *(\|[^\n]*)(?=\n|$)(?!\n *\|[ :|-]+(?:\n|$))")


def find_problems(page: Path) -> Iterator[str]:
    """What is wrong with the links and paths of a page, one sentence each."""
    text = FENCE.sub("", page.read_text())
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            yield f"link={target} leads nowhere"
        elif anchor and file.suffix == ".md" and anchor not in find_anchors(file):
            yield f"link={target}: the page has no such heading"
    yield from (f"path={path} does not exist" for path in PATH.findall(text) if not (ROOT / path).exists())
    for path, test in TEST.findall(text):
        files = [ROOT / "tests" / path] if "/" in path else [*(ROOT / "tests").rglob(path)]
        if not any(file.exists() for file in files):
            yield f"test={path} does not exist"
        elif test and not any(re.search(rf"^def {test}\(", file.read_text(), re.MULTILINE) for file in files):
            yield f"test={path}::{test} does not exist"
    yield from (f"row={row[:60]} stands behind an empty line, outside of its table" for row in CUT_ROW.findall(text))


def find_anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    plain = (re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def main() -> int:
    """Print every problem; the exit code."""
    pages = [page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md")) if page.name != "CHANGELOG.md"]
    problems = [f"{page.relative_to(ROOT)}: {problem}" for page in pages for problem in find_problems(page)]
    print("\n".join(problems) or f"links: {len(pages)} pages are right")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
