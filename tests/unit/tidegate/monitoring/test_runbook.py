"""Each error has its page of the runbook, found by its own words, and each page is reached."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tidegate.errors import NothingToDo, PublishedElsewhere, TidegateError
from tidegate.monitoring.health import Health
from tidegate.monitoring.runbook import (
    DEFAULT_PAGE,
    KIND_PAGES,
    PAGE_PATTERNS,
    find_page,
    find_page_of_state,
    read_page,
)

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "docs" / "runbook"
PAGES = {path.stem for path in FOLDER.glob("*.md")}
ALERTS = yaml.safe_load((ROOT / "deploy" / "monitoring" / "alerts.yaml").read_text())
# messages whose text comes from elsewhere, whole: what they are made of is looked at where it is made
DESCRIBED_ELSEWHERE = {
    "position.py": ("{_describe_rollback",),
    "start_offsets.py": ("{table.prefix}: {loss}; to keep its rows",),
    "observed_table.py": ("{error}; a move of the position", "{error}; batch="),
}


def read_texts(node: ast.expr) -> str:
    """A message as it is written; each value in it is a word in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(read_texts(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return read_texts(node.left) + read_texts(node.right)
    return f"{{{ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node)}}}"


def list_messages(kind: str) -> Iterator[tuple[str, str]]:
    """The file and the text of each error of this class that the product makes."""
    for path in sorted((ROOT / "plugins" / "tidegate").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == kind and node.args:
                yield path.name, read_texts(node.args[0])


def list_kinds(kind: type[TidegateError] = TidegateError) -> list[type[TidegateError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in list_kinds(child))]


def test_every_message_about_a_lost_position_has_a_page_of_its_own() -> None:
    patterns = dict(PAGE_PATTERNS)
    messages = list(list_messages("PositionLost"))
    assert len(messages) > 15
    for file, text in messages:
        if text.startswith(DESCRIBED_ELSEWHERE.get(file, ("no such",))):
            continue
        assert any(pattern.search(text) for pattern in patterns.values()), f"{file}: {text}"


@pytest.mark.parametrize(
    ("message", "page"),
    [
        ("pipeline=p: 1 record cannot be decoded; the first: topic=t partition=0 offset=1", "bad-record"),
        ("table=t was rolled back: the last published snapshot of pipeline=p is no longer part of main", "rolled-back"),
        ("table=t was rolled back or replaced: no snapshot tells a position", "rolled-back"),
        ("it is not known whether the table was rolled back", "rolled-back"),
        ("the tag tidegate_p of its last published snapshot is gone, as somebody dropped it", "rolled-back"),
        ("the brokers are another cluster: cluster_id=a recorded=b", "log-changed"),
        ("topic=t was deleted and created again: topic_id=a recorded=b", "log-changed"),
        ("shape of the rows, and topic=t was deleted and created again: topic_id=a recorded=b; to keep", "log-changed"),
        ("the log starts at offset=9, so 5 offsets are gone before being read again; to keep its rows", "records-gone"),
        ("the log starts at offset=9, so 5 offsets are gone before being read; lengthen", "records-gone"),
        ("topic=t is not read any more: the pipeline file names it no longer", "log-changed"),
        ("source.start=group asks for offset=9, and the log ends at offset=3: the offset is mistyped", "records-gone"),
        ("topic=t has a new partition=3: keys may have moved", "partitions-grown"),
        ("table=t: its queue is full: open_batches=10 max_pending=10", "queue-full"),
        ("brokers=b:9092 refuse the log-in: SASL; check user", "login-refused"),
        ("stage failed: Spark address=b:15002 has answered nothing for 180 s in the middle of stage", "server-down"),
        ("kafka_default: b:9092 took no connection for 30 s: refused", "server-down"),
        ("stage failed: catalog=lake file=/lake/catalog.db: another program has kept its lock for 5 s", "server-down"),
        ("brokers or catalog have not answered for 12 s; the numbers are older", "server-down"),
        ("5 records wait, and nothing was published meanwhile; check that the scheduler runs", "nothing-published"),
        ("5 records wait, and nothing was published meanwhile: task=stage of the run r", "nothing-published"),
        ("publication=p: table=t was rolled back behind what is published", "publication-refused"),
        ("topic=a partition=0 position=4: a transaction that began at offset=3 is still open, and hides", "behind"),
        ("topic=a does not exist on brokers=b:1; create it, or correct source.topics", "topic-missing"),
        ("pipeline=p batch=7: a record has a timestamp that Spark's Kafka source cannot read, as of", "bad-record"),
        ("2 records cannot be decoded; the same failure in 3 runs since t; it is tried again at u", "bad-record"),
        ("/opt/include/pipelines/p.yaml:5: colour=red: unknown key; allowed: source", "pipeline-file"),
        ("plan failed: include/pipelines/p.yaml: source.topics is missing", "pipeline-file"),
        ("connection=kafka_default: not found; create it in Airflow", "pipeline-file"),
        ("catalog=lake of catalogs.yaml: the log-in was refused", "login-refused"),
        ("run scheduled__1 failed", DEFAULT_PAGE),
    ],
)
def test_message_leads_to_its_page(message: str, page: str) -> None:
    assert find_page(message) == page


@pytest.mark.parametrize(
    ("reason", "page"),
    [
        ("connection=b address=b:1 took no connection for 30 s: Connection refused", "server-down"),
        ("5 records wait, the oldest for 61 s", "paused"),
        ("nothing waits", "paused"),
    ],
)
def test_paused_pipeline_leads_to_the_page_of_what_is_wrong_besides(reason: str, page: str) -> None:
    assert find_page_of_state(Health.PAUSED, reason) == page


def test_every_class_of_error_has_a_page_also_where_its_words_say_nothing() -> None:
    for kind in list_kinds():
        if issubclass(kind, NothingToDo | PublishedElsewhere):
            continue
        assert find_page("something", kind.__name__) in PAGES, kind
    assert find_page("something", "OutcomeUnknown") == "server-down"
    assert find_page("something", "GiveUp") == DEFAULT_PAGE
    assert find_page("include/pipelines/x.yaml: source.topics does not exist", "ConfigurationError") == "pipeline-file"


@pytest.mark.parametrize(
    "message",
    [
        "catalog=lake connection=lake: the log-in or its rights were refused during read_state of table=lake.shop.t",
        "pipeline=p batch=1 merge: Spark was refused a right by the object store: s3:PutObject: Access Denied",
        "Spark connection=spark_default address=s:15002 refuses the log-in: Invalid authentication token",
    ],
)
def test_login_or_right_that_a_server_refused_is_no_mistake_of_a_file(message: str) -> None:
    """Though a retry is as useless as with one, and so the error is of the same class."""
    assert find_page(message, "ConfigurationError") == "login-refused"


def test_every_page_is_reached_and_every_page_that_is_named_is_there() -> None:
    states = {find_page_of_state(state, "") for state in Health} - {None}
    alerts = {Path(r["annotations"]["runbook"]).stem for group in ALERTS["groups"] for r in group["rules"]}
    reached_pages = {page for page, _ in PAGE_PATTERNS} | set(KIND_PAGES.values()) | {DEFAULT_PAGE} | states | alerts
    assert reached_pages == PAGES
    index = (FOLDER / "README.md").read_text()
    assert set(re.findall(r"\]\(([a-z-]+)\.md\)", index)) == PAGES - {"README"}


@pytest.mark.parametrize("page", sorted(PAGES - {"README"}))
def test_page_is_short_and_says_what_one_sees_why_what_to_check_and_what_to_do(page: str) -> None:
    text = (FOLDER / f"{page}.md").read_text()
    assert re.findall(r"^\*\*(You see|Cause|Check|Do)\b", text, re.MULTILINE) == ["You see", "Cause", "Check", "Do"]
    assert len(text) < 3000
    assert read_page(page) == text


@pytest.mark.parametrize("name", ["../operations", "nothing", "", "README.md", "a/b", "/etc/passwd"])
def test_nothing_else_is_read_as_a_page(name: str) -> None:
    assert read_page(name) is None
