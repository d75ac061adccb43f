"""Lines for people: commands that can be typed as they stand, and a dry run that nobody takes for a real one."""

import argparse
import io
import logging
import os
import subprocess
from pathlib import Path

import pytest
from tidegate.cli import output
from tidegate.cli.commands.flush import format_proposal
from tidegate.errors import BadRecord, ConfigurationError
from tidegate.model.backfill import Backfill, TableBackfill
from tidegate.model.kafka_log import KafkaRecord
from tidegate.model.offsets import Ranges
from tidegate.reprocess.backfill_plan import ProposedBackfill
from tidegate.reprocess.record import format_record

ROOT = Path(__file__).parents[4]
MESSAGE = "look at it with: tidegate record mid --at shop.mid:0:1; or: tidegate skip mid --at shop.mid:0:1"


def test_commands_in_a_message_are_those_that_can_be_typed(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("TIDEGATE_COMMAND", "bin/tidegate")
    runnable_text = (
        "look at it with: bin/tidegate record mid --at shop.mid:0:1; or: bin/tidegate skip mid --at shop.mid:0:1"
    )
    assert output.format_problem(BadRecord(MESSAGE)) == runnable_text
    output.print_result(argparse.Namespace(json=False), MESSAGE, {"told": MESSAGE})
    assert capsys.readouterr().out == f"{runnable_text}\n"
    output.print_result(argparse.Namespace(json=True), MESSAGE, {"told": MESSAGE})
    assert MESSAGE in capsys.readouterr().out
    other_text = (
        "table=lake.tidegate.record made by bin/tidegate flush; see tidegate status-page and group=tidegate skip"
    )
    assert output.name_command(other_text) == other_text
    assert output.name_command("start it with: tidegate run") == "start it with: bin/tidegate run"
    of_another = "install it there: tidegate airflow install"
    assert output.name_command(of_another) == of_another


def test_commands_in_a_message_stay_where_the_shell_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_COMMAND", raising=False)
    assert output.format_problem(ConfigurationError(MESSAGE)) == MESSAGE


@pytest.mark.parametrize("known", [False, True])
def test_checkout_names_its_own_command_unless_the_shell_has_one(known: bool, tmp_path: Path) -> None:
    for name in ("bin", "plugins/tidegate", ".venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin" / "tidegate").write_text((ROOT / "bin" / "tidegate").read_text())
    program = tmp_path / ".venv" / "bin" / "python"
    program.write_text('#!/bin/sh\necho "$TIDEGATE_COMMAND"\n')
    for file in (program, tmp_path / "bin" / "tidegate"):
        file.chmod(0o755)
    path = os.pathsep.join([*([str(tmp_path / "bin")] if known else []), "/usr/bin", "/bin"])
    run = subprocess.run(["bin/tidegate"], cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ("" if known else "bin/tidegate")


@pytest.mark.parametrize(("is_dry", "begin"), [(True, "would apply:"), (False, "applies:")])
def test_dry_run_of_a_backfill_says_that_nothing_is_written(is_dry: bool, begin: str) -> None:
    ranges = Ranges({"t": {0: (0, 4), 1: (0, 3)}})
    backfill = Backfill("b", "asked", 10, (TableBackfill("lake.a.b", ranges),), "c", {})
    proposal = format_proposal(ProposedBackfill(backfill, (), False), is_dry)
    assert proposal.splitlines()[0] == f"backfill=b {begin}"
    assert proposal.endswith("nothing was written") == is_dry


def test_pairs_are_told_in_words_and_not_in_those_of_python() -> None:
    assert output.format_pairs({"from": None, "resumed": False, "topics": ["a", "b"]}) == (
        "from=none resumed=false topics=a, b"
    )


def test_what_records_and_servers_say_is_printed_with_control_characters_as_escapes(capsys) -> None:
    message = "its fields are \x1b[2J\x9b31m\r, é\tß\n日本"
    printable = "its fields are \\x1b[2J\\x9b31m\\r, é\tß\n日本"
    assert output.format_problem(BadRecord(message)) == printable
    output.print_result(argparse.Namespace(json=False), message, {})
    assert capsys.readouterr().out == f"{printable}\n"


def test_record_and_its_headers_are_shown_with_control_characters_as_escapes() -> None:
    record = KafkaRecord("orders", 0, 7, 0, b'{"id": 1}', b"a\r\n\x0bb", (("x\x1b[2J", b"1"),))
    text = output.make_printable(format_record(record))
    assert r"  header x\x1b[2J: 1" in text
    assert r"  value: a\r" in text
    assert not [letter for letter in text if ord(letter) < 32 and letter != "\n"]


def test_log_line_and_trace_of_a_library_have_no_secret_of_an_address_and_no_control_characters() -> None:
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(output.PrintableFormatter("%(levelname)s %(message)s"))
    try:
        raise ValueError("Invalid URL 'htps://u:geheim@h/x?token=geheim' \x1b[2J")
    except ValueError as error:
        fault = error
    record = logging.LogRecord("a", logging.INFO, "a.py", 1, "unexpected: %s", (fault,), (type(fault), fault, None))
    handler.handle(record)
    text = lines.getvalue()
    assert text.count("htps://***@h/x?token=***") == 2
    assert "geheim" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(("verbose", "shown"), [(False, ["ours", "lost"]), (True, ["retrying", "ours", "lost"])])
def test_retry_inside_of_pyiceberg_is_said_only_on_request(
    verbose: bool, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A commit that another writer overtook is repeated there, or becomes an error of ours: all was well."""
    handler = output.build_log_handler(verbose=verbose)
    for name, level, message in (
        ("pyiceberg.table", logging.WARNING, "retrying"),
        ("pyicebergs", logging.WARNING, "ours"),
        ("pyiceberg.io", logging.ERROR, "lost"),
    ):
        handler.handle(logging.LogRecord(name, level, "a.py", 1, message, (), None))
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == shown


@pytest.mark.parametrize(
    ("answer", "is_taken"),
    [
        ("y", True),
        ("yes\n", True),
        ("Y", True),
        ("YES", True),
        ("", False),
        ("n", False),
        ("yet", False),
        ("no", False),
    ],
)
def test_y_is_yes_wherever_a_command_asks(answer: str, is_taken: bool) -> None:
    assert output.is_yes(answer) == is_taken
