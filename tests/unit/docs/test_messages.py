"""The index of messages: it has every message of the code with a way out, and nothing of messages that are gone."""

import ast
from pathlib import Path

import pytest

from docs.site import message_index
from docs.site.message_index import Message, collect_messages
from docs.site.messages import list_unused_words, render_page, split_message

MAX_WORDS = 20  # before the first value
MODULE = '''
"""Plans; does nothing else."""
from tidegate.errors import GiveUp, RetryLater

class TableGone(GiveUp):
    """A table is gone; its words are read like those of any other error."""

def plan(table, fault, log, findings):
    reason = f"table={table}: its position is gone; "
    if fault:
        raise RetryLater(f"table={table}: %s never seen; it will be tried again")
    log.warning("no answer of %s in %.0f s", table, fault)
    raise TableGone(reason + "flush first")

def join():
    return "several topics feed it; give each its own table"
'''


def test_every_message_has_a_way_out() -> None:
    _, missing = render_page()
    assert missing == [], "end the message with what to do behind a semicolon, or add it to docs/site/messages.yaml"


def test_nothing_is_said_of_messages_that_are_gone() -> None:
    assert list_unused_words() == []


def test_first_value_of_a_message_comes_early() -> None:
    """Who was just woken up reads the beginning."""
    late = [message.text for message in collect_messages() if len(message.text.partition("…")[0].split()) > MAX_WORDS]
    assert [text for text in late if "…" in text] == []


@pytest.fixture
def collected(tmp_path: Path) -> list[Message]:
    errors = tmp_path / "plugins" / "tidegate" / "errors.py"
    errors.parent.mkdir(parents=True)
    errors.write_text("class TidegateError(Exception): ...\nclass GiveUp(TidegateError): ...\n"
                      "class RetryLater(TidegateError): ...\n")  # fmt: skip
    (errors.parent / "plan.py").write_text(MODULE)
    return collect_messages(tmp_path)


def test_errors_warnings_and_sentences_are_collected_as_they_are_read(collected: list[Message]) -> None:
    assert [(refusal.kind, refusal.text) for refusal in collected] == [
        ("log", "no answer of … in … s"),
        ("TableGone", "table=…: its position is gone; flush first"),
        ("RetryLater", "table=…: … never seen; it will be tried again"),
        ("text", "several topics feed it; give each its own table"),
    ]


def test_new_message_without_a_way_out_is_named() -> None:
    bare = Message("pipeline=…: the moon is full", "GiveUp", "plugins/tidegate/flush/plan.py")
    assert split_message(bare, {}, "") == ("pipeline=…: the moon is full", "")
    message = Message("pipeline=…: the moon is full; wait a day", "GiveUp", "plugins/tidegate/flush/plan.py")
    assert split_message(message, {}, "") == ("pipeline=…: the moon is full", "wait a day")
    assert split_message(bare, {"pipeline=…: the moon is full": "wait"}, "") == ("pipeline=…: the moon is full", "wait")


def test_every_error_that_is_raised_with_words_of_its_own_is_in_the_index() -> None:
    """Counted another way: each raise of a product's error whose first argument begins with a text."""
    kinds = {"GiveUp", "RetryLater", "ConfigurationError", "PositionLost", "NothingToDo", "BadRecord"}
    known = {(message.module, message.kind) for message in collect_messages()}
    for folder in message_index.FOLDERS:
        for path in (message_index.ROOT / folder).rglob("*.py"):
            module = path.relative_to(message_index.ROOT).as_posix()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds:
                    words = node.args[0] if node.args else None
                    if isinstance(words, ast.Constant) or (isinstance(words, ast.JoinedStr) and len(words.values) > 3):
                        assert (module, node.func.id) in known, f"{module}:{node.lineno}"
