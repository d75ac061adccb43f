"""Renders the manual's page ``messages.md``: every error and warning by its first words, with the way out.

The messages come from the code (`message_index`), the cause of a group from its page of the runbook or from
``messages.yaml``, and so does the way out where a message does not end with its own. One without any is refused.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from tidegate.monitoring.runbook import find_page

from docs.site.message_index import GAP, ROOT, Message, collect_messages

WORDS = ROOT / "docs" / "site" / "messages.yaml"
RUNBOOK = ROOT / "docs" / "runbook"
MAX_CHARACTERS = 180
# behind a semicolon, or behind a colon where it begins with what to do
ADVICE_PATTERN = re.compile(r"; |: (?=(?:add|choose|create|install|name|say|use|write) )")
CAUSE_PATTERN = re.compile(r"\*\*Cause\.\*\* (.+)")
HEAD = """# Messages

Every error and warning of Tidegate by its first words: what a log, a task, `tidegate` or the page shows. `…` stands
for a name, a value or another error's words: search for a few words between two of them. What a message says before
its first own word, as pipeline and table, may be left out here.

The first column says what happened, the second what to do. *Nothing* means that the next run does it.

"""


@dataclass
class Section:
    """A group of messages with one cause; `rows` are first words and way out."""

    title: str
    about: str
    rows: dict[str, str] = field(default_factory=dict)


def render_page() -> tuple[str, list[str]]:
    """The page, and the first words of each message that has no way out."""
    words = yaml.safe_load(WORDS.read_text())
    sections: dict[str, Section] = {}
    missing = []
    for message in collect_messages():
        if message.text.startswith(tuple(words["left_out"])):
            continue
        section, default = _choose_section(message, words["sections"])
        head, advice = split_message(message, words["remedies"], default)
        if not advice:
            missing.append(f"{head} ({message.module})")
        sections.setdefault(section.title, section).rows.setdefault(head, advice)
    order = [section["title"] for section in words["sections"]]
    ordered_sections = sorted(sections.values(), key=lambda group: (group.title in order, group.title.casefold()))
    return HEAD + "\n".join("".join(_render_section(section)) for section in ordered_sections), missing


def list_unused_words() -> list[str]:
    """The entries of ``messages.yaml`` that fit no message of the code."""
    words = yaml.safe_load(WORDS.read_text())
    texts = [message.text for message in collect_messages()]
    heads = {_find_head(text)[0] for text in texts}
    unused_words = [start for start in words["left_out"] if not any(text.startswith(start) for text in texts)]
    return unused_words + [head for head in words["remedies"] if head not in heads]


def split_message(message: Message, remedies: dict[str, str], default: str) -> tuple[str, str]:
    """First words and way out: what was written for it, its own, or that of its section."""
    head, own_advice = _find_head(message.text)
    return head, remedies.get(head) or message.advice or own_advice or default


def _find_head(text: str) -> tuple[str, str]:
    text = re.sub(f"^(?:{GAP}[:;,]? +)+", "", text)
    head, *tail = ADVICE_PATTERN.split(text, maxsplit=1)
    way = re.sub(f" with: {GAP}$", " with the command that the message prints", "".join(tail))
    way = way.removesuffix(f": {GAP}").strip("; ")
    return head.rstrip(";"), way if re.search("[A-Za-z]{2}", way) else ""


def _choose_section(message: Message, sections: list[dict[str, Any]]) -> tuple[Section, str]:
    for section in sections:
        if message.kind in section.get("kinds", []) or message.module.startswith(tuple(section.get("modules", ["-"]))):
            runbook_link = f" [The runbook's page](runbook/{section['page']}.md)." if "page" in section else ""
            return Section(section["title"], section["about"].strip() + runbook_link), section.get("default", "")
    page = find_page(message.text, message.kind)
    text = (RUNBOOK / f"{page}.md").read_text()
    cause = CAUSE_PATTERN.search(text)
    cause_text = _move_links(cause[1] if cause else "")
    title = text.partition("\n")[0].removeprefix("# ")
    return Section(title, f"{cause_text} [The runbook's page](runbook/{page}.md) has all ways out."), ""


def _move_links(text: str) -> str:
    """A text of a page of the runbook with links as they are one folder above it."""
    page_text = re.sub(r"\]\((?!\.\./|https?:|#)([\w-]+\.md)", r"](runbook/\1", text)
    return page_text.replace("](../", "](")


def _render_section(section: Section) -> Iterator[str]:
    yield f"## {section.title}\n\n{section.about.strip()}\n\n| message | do |\n| --- | --- |\n"
    for head, advice in sorted(section.rows.items(), key=lambda row: re.sub(r"\W", "", row[0]).casefold()):
        head_text = head if len(head) <= MAX_CHARACTERS else head[:MAX_CHARACTERS].rpartition(" ")[0] + f" {GAP}"
        yield f"| {_to_code(head_text)} | {_to_markdown(advice)} |\n"


def _to_code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text.replace('|', chr(92) + '|')}{fence}"


def _to_markdown(text: str) -> str:
    """Escape a sentence for a table's cell, but not its text in backticks."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*_\[\]|<>{}])", r"\\\1", part).replace("$", "\\$") for part in parts[::2]]
    parts[1::2] = [part.replace("|", "\\|") for part in parts[1::2]]
    return "`".join(parts)
