"""Which page of the runbook belongs to a reason: by the message's own words, else by the class of the error."""

import re
from pathlib import Path

from tidegate.errors import find_kind
from tidegate.monitoring.health import Health, split_reason
from tidegate.settings import find_product_folder, is_checkout

NAME_PATTERN = re.compile(r"README|[a-z]+(-[a-z]+)*")
MANUAL_PATTERN = re.compile(r"(?<![\w./-])docs/(?=[\w/-]+\.md)")  # as messages name a page
DEFAULT_PAGE = "failed-task"
# the first that fits; a message of several tables leads to what is said of the first kind of them
PAGE_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (page, re.compile(pattern))
    for page, pattern in (
        ("publication-refused", r"(^|failed: )publication="),
        ("held", r"held for approval"),
        ("pipeline-file", r"(^|: )\S+\.yaml(:\d+)?: |(^|: )connection=\S+: not found"),
        ("bad-record", r"cannot be decoded|records name no table|records do not add up|timestamp that Spark's Kafka"),
        ("rolled-back", r"was rolled back|rolled back or replaced|of its last published snapshot is gone"),
        ("table-replaced", r"replaced by another of the same name|no position, and this batch|its position is gone"),
        ("topic-missing", r"does not exist.*correct source\.topics"),
        (
            "log-changed",
            r"are another cluster|deleted and created again|no such partition|, before the position|the log was cut|"
            r"is not read any more",
        ),
        (
            "records-gone",
            r"gone before being read|of a compacted topic|are gone that|needed (are|is) gone|"
            r"the log ends at offset=[^,;]+: ",
        ),
        ("partitions-grown", r"has a new partition="),
        ("behind", r"a transaction that began at offset="),
        ("queue-full", r"its queue is full"),
        ("audit", r"\baudits? .*the batch stays staged|nothing was published and the batch stays staged"),
        (
            "schema",
            r"incompatible change|such a column keeps its name|widens no field inside a column|"
            r"the table has it no more|dropped it and added it again|this file sets it no more|"
            r"none says since when it holds|"
            r"cannot merge on read there|keeps this name for a column of its own",
        ),
        ("login-refused", r"log-in|access was refused|was refused a right"),
        ("nothing-published", r"nothing was published meanwhile|, freshness_target="),
        ("server-down", r"no answer|did not answer|answered nothing|not answered|took no connection"),
        ("server-down", r"cannot be asked|has kept its lock"),
    )
)
REFUSAL_PATTERN = re.compile(r"refuses? the log-in|the log-in or its rights were refused|was refused a right")
KIND_PAGES = {
    "BadRecord": "bad-record",
    "IncompatibleSchema": "schema",
    "AuditFailed": "audit",
    "PositionLost": "log-changed",
    "ConfigurationError": "pipeline-file",
    "SomeTablesFailed": "table-stopped",
    "SomeTablesDelayed": "table-stopped",
    "RetryLater": "server-down",
    "OutcomeUnknown": "server-down",
}


def find_page(message: str, kind: str | None = None) -> str:
    known = KIND_PAGES.get(kind or "")
    if kind == "ConfigurationError" and REFUSAL_PATTERN.search(message):  # no file is wrong
        return "login-refused"
    if kind in ("BadRecord", "IncompatibleSchema", "AuditFailed", "ConfigurationError") and known:
        return known
    for page, pattern in PAGE_PATTERNS:
        if pattern.search(message):
            return page
    if known is None and kind and (parent := find_kind(kind)):
        known = next((KIND_PAGES[kind.__name__] for kind in parent.__mro__ if kind.__name__ in KIND_PAGES), None)
    return known or DEFAULT_PAGE


def find_page_of_problem(problem: str | None) -> str | None:
    return None if problem is None else find_page(problem)


def find_page_of_state(state: str, reason: str) -> str | None:
    """Return the page of a pipeline or publication that somebody should look at; None if all goes on."""
    if state == Health.UNKNOWN:
        page = find_page(reason)
        return page if page != DEFAULT_PAGE else "unreadable"
    if state == Health.PAUSED:
        page = find_page(reason)
        return page if page != DEFAULT_PAGE else "paused"
    if state == Health.CATCHING_UP:
        return "behind"
    return find_page(reason) if state in (Health.STUCK, Health.FAILING) else None


def describe_state(state: Health, reason: str, *, names_table: bool = False) -> dict[str, str | None]:
    """Return what a row says of a state: the reason, its two parts, and the page about it."""
    fact, advice = split_reason(reason, names_table=names_table)
    page = find_page_of_state(state, reason)
    return {"state": state, "reason": reason, "fact": fact, "advice": advice, "runbook": page}


def name_page_file(name: str | None) -> str:
    """Return the page's file as a person opens it: an installed package has it in a folder of its own."""
    place = Path("docs") / "runbook" / f"{name or DEFAULT_PAGE}.md"
    return str(place if is_checkout() else find_product_folder() / place)


def locate_pages(text: str) -> str:
    """Return `text` with each page of the manual as a person opens it."""
    return text if is_checkout() else MANUAL_PATTERN.sub(f"{find_product_folder() / 'docs'}/", text)


def read_page(name: str) -> str | None:
    file = find_product_folder() / "docs" / "runbook" / f"{name}.md"
    return file.read_text(encoding="utf-8") if NAME_PATTERN.fullmatch(name) and file.is_file() else None
