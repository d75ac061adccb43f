"""The manual as a site: ``make docs`` copies `docs/`, adds what is generated, and lets Sphinx build it.

Links between pages stay. A link to a file that is no page is named as text, as the site has no sources.
"""

import argparse
import os
import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from sphinx.cmd.build import main as build_site
from tidegate.cli.parser import build_parser

from docs.site import coming_from, hazards, keys, messages

ROOT = Path(__file__).parents[2]
DOCS, OUTPUT_FOLDER = ROOT / "docs", ROOT / "dist" / "manual"
PROJECT_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "vulnerabilities.md",
}
OTHER_HOMES = {**PROJECT_PAGES, "README.md": "index.md"}
LINK_PATTERN = re.compile(r"(!?)\[((?:[^\]`]|`[^`]*`)*)\]\(([^)\s]+)\)")
SECTION_PATTERN = re.compile(r"^## (.+)$", re.MULTILINE)
GENERATED_PAGES = {
    f"- {name}:": f"- [{name}]({page}.md):"
    for name, page in (
        ("Commands", "commands"),
        ("Messages", "messages"),
        ("Hazards", "hazards"),
        ("Format values", "format-values"),
    )
}
VALUE_CASES = ROOT / "tests" / "value_cases.py"
FOLDER_TOCTREE = "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def main() -> int:
    """Build the site into ``dist/manual/html``; 0 if Sphinx has no warning."""
    source = OUTPUT_FOLDER / "source"
    shutil.rmtree(OUTPUT_FOLDER, ignore_errors=True)
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("site"))
    for name, page in PROJECT_PAGES.items():
        shutil.copy(ROOT / name, source / page)
    for page in source.rglob("*.md"):
        page.write_text(rewrite_links(keys.expand_page(page.read_text()), find_home(page, source)))
    migration = source / "migration.md"
    migration.write_text(coming_from.expand_page(migration.read_text()))
    (source / "commands.md").write_text("".join(render_commands(build_parser())))
    (source / "messages.md").write_text(messages.render_page()[0])
    (source / "hazards.md").write_text(hazards.render_page())
    (source / "format-values.md").write_text(runpy.run_path(str(VALUE_CASES))["render_page"]())
    index = source / "index.md"
    text = index.read_text()
    for line, link in GENERATED_PAGES.items():
        text = text.replace(line, link)
    index.write_text(text + "".join(render_toctrees(text)))
    for folder in ("adr", "runbook"):
        contents = source / folder / "README.md"
        contents.write_text(contents.read_text() + FOLDER_TOCTREE)
    words = [
        "-W",
        "--keep-going",
        "-q",
        "-c",
        str(Path(__file__).parent),
        "-b",
        "html",
        str(source),
        str(OUTPUT_FOLDER / "html"),
    ]
    code = build_site(words)
    if not code:
        print(f"docs: {OUTPUT_FOLDER.relative_to(ROOT)}/html/index.html")
    return code


def find_home(page: Path, source: Path) -> Path:
    """The file of the repository that the page was copied from."""
    name = str(page.relative_to(source))
    page_sources = {new: old for old, new in PROJECT_PAGES.items()}
    return ROOT / page_sources[name] if name in page_sources else DOCS / name


def rewrite_links(text: str, home: Path) -> str:
    """The page's text with the links of its copy, where `home` is the page in the repository."""
    return LINK_PATTERN.sub(lambda link: _rewrite_link(link, home), text)


def _rewrite_link(link: re.Match[str], home: Path) -> str:
    mark, text, target = link.groups()
    if re.match(r"[a-z]+:|#", target):
        return link[0]
    name, _, anchor = target.partition("#")
    file = (home.parent / name).resolve()
    place = file.relative_to(ROOT)
    if str(place) in OTHER_HOMES:
        page = DOCS / OTHER_HOMES[str(place)]
    elif file.is_relative_to(DOCS) and file.is_file():
        page = file
    else:
        return text if str(place) in text else f"{text} (`{place}`)"
    way = os.path.relpath(page, DOCS if home.parent == ROOT else home.parent)
    anchor = "" if page.name == "index.md" else anchor
    return f"{mark}[{text}]({way}{f'#{anchor}' if anchor else ''})"


def render_toctrees(index: str) -> Iterator[str]:
    """What stands at the side of each page: the sections of the index with their pages."""
    _, *sections = SECTION_PATTERN.split(index)
    for name, text in zip(sections[::2], sections[1::2], strict=True):
        pages = [target.removesuffix(".md") for _, _, target in LINK_PATTERN.findall(text)]
        yield "\n".join(["", "```{toctree}", ":hidden:", f":caption: {name}", "", *pages, "```", ""])


def render_commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The page of all commands: what each prints for ``--help``."""
    yield "# Commands\n\nWhat `tidegate --help` says, and `--help` of each command.\n"
    yield f"\n```text\n{parser.format_help()}```\n"
    (choices,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for name, command in choices.choices.items():
        yield f"\n## `tidegate {name}`\n\n```text\n{command.format_help()}```\n"


if __name__ == "__main__":
    sys.exit(main())
