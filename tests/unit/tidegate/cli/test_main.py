"""The command line as a person meets it first: help, version, what there is, and names that there are not."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tidegate.cli.main import main
from tidegate.cli.output import name_command
from tidegate.errors import BadRecord, ConfigurationError, GiveUp, PositionLost, RetryLater, TidegateError
from tidegate.monitoring.runbook import name_page_file
from tidegate.settings import format_path, read_version
from tidegate.wiring.proposed_files import write_files

ROOT = Path(__file__).parents[4]
CATALOGS = """
lake:
  type: iceberg
  properties: {type: sql, uri: "sqlite:////tmp/none.db", warehouse: /tmp/none}
"""
ORDERS = """
description: Orders of the shop
tags: [sales, gold]
source:
  topics: [shop.orders, shop.returns]
  key: {fields: [order_id], schema: order_id BIGINT}
  value: {format: json, schema: name STRING}
tables:
  - name: lake.shop.orders
    disjoint_keys: true
"""
INVALID_FILE = "source: {topics: [x]}\n"


@pytest.fixture
def include(tmp_path, monkeypatch) -> Path:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "catalogs.yaml").write_text(CATALOGS)
    (tmp_path / "pipelines" / "orders.yaml").write_text(ORDERS)
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(tmp_path))
    return tmp_path


def run_list(capsys) -> tuple[int, dict[str, Any]]:
    code = main(["list", "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_version_is_the_projects(capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"tidegate {read_version()}\n"
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == read_version()


def test_list_says_what_each_file_describes(include, capsys) -> None:
    code, listing = run_list(capsys)
    assert code == 0
    assert listing == {
        "pipelines": [
            {
                "pipeline": "orders",
                "description": "Orders of the shop",
                "tags": ["sales", "gold"],
                "fleet": None,
                "topics": ["shop.orders", "shop.returns"],
                "tables": ["lake.shop.orders"],
                "error": None,
            }
        ],
        "publications": [],
    }
    assert main(["list"]) == 0
    assert capsys.readouterr().out == "orders: shop.orders, shop.returns -> lake.shop.orders: Orders of the shop\n"


def test_list_shows_the_others_beside_a_file_that_is_wrong(include, capsys) -> None:
    (include / "pipelines" / "broken.yaml").write_text(INVALID_FILE)
    code, listing = run_list(capsys)
    assert code == 1
    assert [(entry["pipeline"], entry["tables"]) for entry in listing["pipelines"]] == [
        ("broken", []),
        ("orders", ["lake.shop.orders"]),
    ]
    assert "broken.yaml" in listing["pipelines"][0]["error"]


def test_status_of_all_names_what_holds_up_the_right_one_of_two_files_of_a_name(include, capsys, monkeypatch) -> None:
    """Two pipelines: one with its file under a second ending too, and one that is only wrong."""
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
    (include / "pipelines" / "orders.yml").write_text(ORDERS)
    (include / "pipelines" / "broken.yaml").write_text(INVALID_FILE)
    assert main(["status", "--json"]) == 1
    errors = {one["pipeline"]: one["error"] for one in json.loads(capsys.readouterr().out)["pipelines"]}
    assert list(errors) == ["broken", "orders"]
    assert "tables: missing" in errors["broken"]
    assert "connection=kafka_default: not found" in errors["orders"]


def test_status_of_a_pipeline_that_is_refused_for_another_s_table_says_so(include, capsys, monkeypatch) -> None:
    """Two pipelines that need one intermediate table: each flush of the later one is refused."""
    monkeypatch.setattr("tidegate.cli.commands.progress.assemble_pipeline", lambda include, name, resolve: name)
    monkeypatch.setattr("tidegate.cli.commands.progress.read_status", lambda name: {"pipeline": name})
    (include / "pipelines" / "orders.yaml").unlink()
    for name, table in (("b_x", "lake.Shop.t"), ("x", "lake.Shop.t_b")):
        (include / "pipelines" / f"{name}.yaml").write_text(ORDERS.replace("lake.shop.orders", table))
    refusal = "pipeline b_x needs lake.Shop.t_b_x_tmp too"
    assert main(["status", "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)["pipelines"]
    assert first == {"pipeline": "b_x"}
    assert (second["pipeline"], refusal in second["error"]) == ("x", True)
    assert main(["status", "x"]) == 1
    assert refusal in capsys.readouterr().err
    assert main(["status", "b_x", "--json"]) == 0


def run_validate(capsys, *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["validate", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_validate_tells_programs_each_file_with_its_problems_and_warnings(include, capsys) -> None:
    assert run_validate(capsys) == (
        0,
        {
            "ok": True,
            "catalogs": [],
            "pipelines": [{"pipeline": "orders", "problems": [], "warnings": []}],
            "publications": [],
            "warnings": [],
        },
    )
    (include / "pipelines" / "Eu").mkdir()
    (include / "pipelines" / "Eu" / "orders.yaml").write_text(ORDERS)
    code, report = run_validate(capsys)
    assert code == 0
    assert ["Eu/orders.yaml: lies in a folder below" in warning for warning in report["warnings"]] == [True]
    (include / "publications").mkdir()
    (include / "publications" / "out.yaml").write_text("table: lake.shop.orders\ntopic: a b\nkey: {fields: [id]}\n")
    (include / "pipelines" / "broken.yaml").write_text(INVALID_FILE)
    (include / "pipelines" / "keyless.yaml").write_text(ORDERS.replace("fields: [order_id], ", ""))
    (include / "catalogs.yaml").write_text(f"{CATALOGS}\ndwh: {{type: bigquery}}\n")
    code, report = run_validate(capsys)
    broken_file, keyless, orders = report["pipelines"]
    assert (code, report["ok"], orders["problems"]) == (1, False, [])
    assert "dwh.project: missing" in report["catalogs"][0]
    assert "tables: missing" in broken_file["problems"][0]
    assert "fields" in keyless["warnings"][0]
    assert "topic=a b: not a topic name" in report["publications"][0]["problems"][0]
    for kind, name in (("pipeline", "broken"), ("publication", "out")):
        file = str(include / f"{kind}s" / f"{name}.yaml")
        code, report = run_validate(capsys, file)
        assert (code, report["ok"], report[f"{kind}s"][0][kind]) == (1, False, file)
        assert report[f"{kind}s"][0]["problems"]


def test_validate_takes_a_name_as_other_commands_do(include, tmp_path, monkeypatch, capsys) -> None:
    (include / "pipelines" / "Broken.yaml").write_text(INVALID_FILE)
    (include / "publications").mkdir()
    (include / "publications" / "out.yaml").write_text("table: lake.shop.orders\ntopic: a b\nkey: {fields: [id]}\n")
    monkeypatch.chdir(tmp_path)
    assert run_validate(capsys, "orders")[0] == 0
    for name, folder in (("Broken", "pipelines"), ("out", "publications")):
        assert main(["validate", name]) == 1
        assert capsys.readouterr().err.startswith(f"{include / folder / name}.yaml:")
    assert main(["validate", "nobody"]) == 1
    assert (
        capsys.readouterr().err == "nobody: cannot be read: No such file or directory; check the path and its rights\n"
    )
    (tmp_path / "orders").write_text(INVALID_FILE)  # a path counts first
    assert main(["validate", "orders"]) == 1


@pytest.mark.parametrize("shared", ["catalogs.yaml", "defaults.yaml"])
def test_problem_of_a_shared_file_is_printed_once_however_many_pipelines_it_refuses(
    include, capsys, shared: str
) -> None:
    for name in ("second", "third"):
        (include / "pipelines" / f"{name}.yaml").write_text(ORDERS.replace("lake.shop.orders", f"lake.shop.{name}"))
    (include / shared).write_text("")
    assert main(["validate"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert f"{shared}:1: no " in line


@pytest.mark.parametrize(
    "words",
    [
        ["approve", "orders", "--table", ""],
        ["undo-rollback", "orders", "--table", "", "--yes"],
        ["rebase", "orders", "--to", "", "--yes"],
        ["dead-letters", "orders", "--table", "", "--discard", "--because", "test", "--yes"],
    ],
)
def test_option_of_a_variable_that_is_unset_chooses_not_all(words: list[str], include, capsys) -> None:
    assert main(words) == 1
    option = words[words.index("") - 1].removeprefix("--")
    assert f"{option} is empty; give it a value, or leave it out; nothing was changed" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["catalogs.yaml", "defaults.yaml"])
def test_shared_file_is_no_pipeline_that_lacks_its_source(name: str, include, capsys) -> None:
    (include / "defaults.yaml").write_text("heartbeat: {interval: 3m}\n")
    assert main(["validate", str(include / name)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"{include / name}: no pipeline; run validate without a file, which reads it too"
    (include / "pipelines" / name).write_text(ORDERS)
    assert main(["validate", str(include / "pipelines" / name)]) == 0


@pytest.mark.parametrize("folder", [".", "drafts"])
def test_file_outside_of_an_include_folder_is_validated_with_the_catalogs_of_the_commands(
    include, tmp_path_factory, capsys, folder: str
) -> None:
    """It is not the pipeline of its name, of which other files are held against it."""
    draft = tmp_path_factory.mktemp("elsewhere") / folder / "orders.yaml"
    draft.parent.mkdir(exist_ok=True)
    draft.write_text(ORDERS)
    (include / "pipelines" / "orders.yaml").write_text(INVALID_FILE)
    assert run_validate(capsys, str(draft))[0] == 0
    draft.write_text(ORDERS.replace("lake.shop", "lke.shop"))
    code, report = run_validate(capsys, str(draft))
    (problem,) = report["pipelines"][0]["problems"]
    assert (code, "catalog=lke is not in catalogs.yaml; did you mean lake?" in problem) == (1, True)
    (draft.parent.parent / "catalogs.yaml").write_text(CATALOGS.replace("lake:", "lke:"))
    assert run_validate(capsys, str(draft))[0] == 0  # as in a checkout beside the one that commands use


@pytest.mark.parametrize("words", [["status"], ["list"], ["validate"], ["flush", "orders"]], ids="-".join)
def test_missing_folder_is_said_once(words, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(tmp_path / "nowhere"))
    assert main(words) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        f"include={tmp_path / 'nowhere'}: no such folder; set TIDEGATE_INCLUDE to one with catalogs.yaml and pipelines/"
    ]


def test_home_of_nobody_is_a_missing_folder(monkeypatch, capsys) -> None:
    monkeypatch.setenv("TIDEGATE_INCLUDE", "~no-such-user/include")
    assert main(["list"]) == 1
    assert "no such folder; set TIDEGATE_INCLUDE" in capsys.readouterr().err


def test_file_beside_no_folder_is_told_as_it_is(capsys) -> None:
    assert main(["validate", "/no-such-file.yaml"]) == 1
    assert "/no-such-file.yaml: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--dry-run"], ["--table", "lake.shop.orders"]], ids=" ".join)
@pytest.mark.usefixtures("include")
def test_backfill_is_not_given_up_by_words_that_ask_for_less(options, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["backfill", "orders", "--abandon", "a1b2", *options])
    assert end.value.code == 2
    assert "--abandon gives the whole backfill up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "problem"),
    [(["--yes"], "--yes confirms a repair"), (["--repair", "--sample", "1%"], "--repair compares every key")],
)
def test_repair_is_asked_for_in_words_and_of_every_key(
    options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["verify", "orders", *options])
    assert end.value.code == 2
    assert problem in capsys.readouterr().err


COMMAND = [sys.executable, "-m", "tidegate"]


def build_environment(unbuffered: str = "") -> dict[str, str]:
    return os.environ | {
        "PYTHONUNBUFFERED": unbuffered,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT / "jobs")]),
    }


@pytest.mark.usefixtures("include")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["list", "--json"], ["schema"]], ids=" ".join)
def test_output_that_nobody_takes_ends_a_command_with_one_line(words: list[str], unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed_output, Path("/dev/full").open("w") as full:
        for output, reason in ((closed_output, "Broken pipe"), (full, "No space left on device")):
            process_options = {
                "env": build_environment(unbuffered),
                "stdout": output,
                "stderr": subprocess.PIPE,
                "text": True,
            }
            process = subprocess.run([*COMMAND, *words], check=False, **process_options)
            line = f"{words[0]}: its output cannot be written: {reason}; what is done stands\n"
            assert (process.returncode, process.stderr) == (1, line)


def test_name_that_the_terminals_letters_lack_is_shown_by_its_numbers(include) -> None:
    text = ORDERS.replace("Orders of the shop", "B\u00fccher \u65e5\u672c")
    (include / "pipelines" / "orders.yaml").write_text(text, encoding="utf-8")
    process_options = {"env": build_environment() | {"PYTHONIOENCODING": "latin-1"}, "capture_output": True}
    process = subprocess.run([*COMMAND, "list"], check=False, **process_options)
    assert (process.returncode, process.stderr) == (0, b"")
    assert process.stdout.decode("latin-1").endswith("lake.shop.orders: B\u00fccher \\u65e5\\u672c\n")


WRITES_FILES = """
import argparse, sys
from pathlib import Path
from tidegate.cli.commands.import_connector import _read_file
from tidegate.cli.commands.install import write_missing_file
from tidegate.wiring.proposed_files import check_files, write_files

include, text, entry = Path(sys.argv[1]), "# B\\u00fccher \\u65e5\\u672c\\n", "b: {type: iceberg} # B\\u00fccher\\n"
write_files(include, "a", text)
write_missing_file(include / "c.yaml", text)
assert write_missing_file(include / "c.yaml", text) == "unchanged"
check_files(include, "b", text, entry)
write_files(include, "b", text, entry)
assert _read_file(include / "c.yaml") == text
"""


def test_files_are_utf_8_whatever_the_terminals_letters_are(include) -> None:
    text = "# B\u00fccher \u65e5\u672c\n"
    (include / "catalogs.yaml").write_text(CATALOGS + text, encoding="utf-8")
    latin = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", WRITES_FILES, str(include)]
    process = subprocess.run(command, env=build_environment() | latin, capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (0, b"")
    for file in ("pipelines/a.yaml", "pipelines/b.yaml", "c.yaml"):
        assert (include / file).read_text(encoding="utf-8") == text
    entry = "b: {type: iceberg} # B\u00fccher\n"
    assert (include / "catalogs.yaml").read_text(encoding="utf-8") == f"{CATALOGS}{text}\n{entry}"


@pytest.mark.parametrize(
    "catalogs", ["{}\n", "{lake: {type: iceberg}}\n", "# ours\n{lake: {type: iceberg},\n Dwh: {}}\n"]
)
def test_import_into_catalogs_in_braces_breaks_no_file(include, catalogs: str) -> None:
    (include / "catalogs.yaml").write_text(catalogs)
    with pytest.raises(ConfigurationError, match=r"file=.*catalogs\.yaml: no catalog can be added .*\n.*\ncopy: \{\}"):
        write_files(include, "copy", "description: x\n", "# of the connector\ncopy: {}\n")
    assert (include / "catalogs.yaml").read_text() == catalogs
    assert not (include / "pipelines" / "copy.yaml").exists()
    (include / "catalogs.yaml").write_text("lake: {type: iceberg}\n")
    write_files(include, "copy", "description: x\n", "copy: {}\n")
    assert (include / "catalogs.yaml").read_text() == "lake: {type: iceberg}\n\ncopy: {}\n"


# a command in whose place all is asked that commands ask of their streams; the file tells the answers
ASKS_STREAMS = """
import sys
from pathlib import Path
import tidegate.cli.commands.files as files
from tidegate.__main__ import run_and_exit

def run_list(words):
    from tidegate.cli.commands import actions
    from tidegate.errors import GiveUp

    asked = actions._ask("sure? ")
    with Path(answers).open("w") as file:
        file.write(f"{asked} above={file.fileno() > 2}")
    raise GiveUp("as told")

answers = sys.argv.pop()
sys.argv.append("list")
files.run_list = run_list
run_and_exit()
"""


@pytest.mark.usefixtures("include")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_command_with_closed_streams_does_its_work_and_takes_no_answer_for_no(closed: str, tmp_path: Path) -> None:
    """No file that is opened later comes to lie where a library writes its errors."""
    answers = tmp_path / "answers"
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", ASKS_STREAMS, str(answers)]
    process_options = {"env": build_environment(), "stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    process = subprocess.run(command, check=False, **process_options)
    assert answers.is_file(), process.stderr
    assert answers.read_text() == "False above=True"
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr == ("" if "2>&-" in closed else "sure? as told\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_version_that_nobody_takes_ends_with_one_line(unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        process_options = {
            "env": build_environment(unbuffered),
            "stdout": full,
            "stderr": subprocess.PIPE,
            "text": True,
        }
        process = subprocess.run([*COMMAND, "--version"], check=False, **process_options)
    message = "tidegate: its output cannot be written: No space left on device; what is done stands\n"
    assert (process.returncode, process.stderr) == (1, message)


def test_terminated_command_ends_as_by_ctrl_c(include) -> None:
    os.mkfifo(include / "defaults.yaml")  # reading it waits for a writer
    run = subprocess.Popen([*COMMAND, "list"], env=build_environment(), stderr=subprocess.PIPE, text=True)
    with run, (include / "defaults.yaml").open("w"):  # opened as soon as the command reads
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=120)
    assert (run.returncode, errors) == (130, "list: interrupted: nothing is half published; run the command again\n")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["flsh"],
        ["flush"],
        ["flush", "orders", "--until-current", "--until", "latest"],
        *(["flush", "orders", "--merges-at-once", number] for number in ("0", "-1", "1000001", "1e3")),
        ["run", "--flushes-at-once", "-1"],
        *(["dead-letters", "orders", "--limit", number] for number in ("-1", "1000001", "9" * 50, "1.5")),
        *(["doctor", "--timeout", seconds] for seconds in ("-1", "0", "nan", "inf", "86401", "x")),
        *(["init", "--topic", "orders", "--records", number] for number in ("0", "1000001")),
        ["plan", "orders", "more"],
        ["status", "--jsn"],
        ["backfill", "orders"],
        ["backfill", "orders", "--range", "{}", "--from", "2026-01-01T00:00:00Z"],
        ["backfill", "orders", "--from", "2026-01-01T00:00:00Z"],
        ["rebase", "orders"],
        ["dead-letters", "orders", "--replay", "--discard"],
        ["dead-letters", "orders", "--discard"],
        ["dead-letters", "orders", "--limit", "1", "--replay"],
        ["dead-letters", "orders", "--limit", "0", "--discard", "--because", "test"],
        ["dead-letters", "orders", "--limit", "1", "--export", "letters.jsonl"],
        ["schema", "catalog"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_says_how_to_call_it(words: list[str], include, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    output = capsys.readouterr()
    assert (end.value.code, output.out) == (2, "")
    assert output.err.startswith("usage: tidegate")
    assert "parse_" not in output.err, "no name of a function"


@pytest.mark.parametrize(
    "words",
    [
        ["flush", "nobody"],
        ["plan", "nobody"],
        ["status", "nobody"],
        ["backfill", "nobody", "--range", '{"t": {"0": [0, 1]}}'],
        ["rebase", "nobody", "--to", "earliest", "--yes"],
        ["dead-letters", "nobody"],
    ],
    ids=" ".join,
)
def test_pipeline_that_has_no_file_exits_with_1_and_names_it(words: list[str], include, capsys) -> None:
    assert main(words) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert "nobody" in output.err


@pytest.mark.parametrize("name", ["../catalogs", "nope", "*", ""])
def test_name_is_never_a_path(name, include, capsys) -> None:
    assert main(["flush", name]) == 1
    assert capsys.readouterr().err == f"pipeline={name}: no such pipeline; there are: orders\n"


def test_name_that_an_empty_folder_lacks_is_refused_with_the_folder(include, capsys) -> None:
    (include / "pipelines" / "orders.yaml").unlink()
    assert main(["flush", "orders"]) == 1
    assert capsys.readouterr().err == (
        f"pipeline=orders: no such pipeline; there are: none in {include}/pipelines; write its file there, or set "
        "TIDEGATE_INCLUDE to the folder that has it\n"
    )


PAGES = [
    (PositionLost("table=lake.shop.a: it was rolled back or replaced"), "see docs/runbook/rolled-back.md\n"),
    (BadRecord("topic=t partition=1 offset=7: the record cannot be decoded"), "see docs/runbook/bad-record.md\n"),
    (RetryLater("Kafka kafka_default address=h:1 took no connection: refused"), "see docs/runbook/server-down.md\n"),
    (ConfigurationError("mode=all is not known; write one of upsert, append"), ""),
    (GiveUp("something that no page is about"), ""),
]


@pytest.mark.parametrize(("problem", "message"), PAGES, ids=lambda problem: type(problem).__name__)
@pytest.mark.usefixtures("include")
def test_failure_at_a_terminal_names_the_page_of_the_runbook(
    problem: TidegateError, message: str, monkeypatch, capsys
) -> None:
    monkeypatch.setattr("tidegate.cli.commands.files.run_list", Mock(side_effect=problem))
    for at_terminal in (True, False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda at_terminal=at_terminal: at_terminal)
        assert main(["list"]) == 1
        assert capsys.readouterr().err == f"{problem}\n{message if at_terminal else ''}"


@pytest.mark.parametrize("command", ["list", "validate"])
def test_folder_without_a_pipeline_leads_to_the_command_that_proposes_one(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "catalogs.yaml").write_text(CATALOGS)
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_COMMAND", "bin/tidegate")
    main([command])
    assert "propose one with: bin/tidegate init --topic TOPIC --to CATALOG.NAMESPACE.TABLE" in capsys.readouterr().out


@pytest.mark.parametrize(("is_installed", "shown"), [(True, "{}/Include/p.yaml"), (False, "Include/p.yaml")])
def test_path_in_a_message_is_whole_where_the_package_is_installed(
    is_installed: bool, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setattr("tidegate.settings.is_checkout", lambda: not is_installed)
    assert format_path(tmp_path / "Include" / "p.yaml") == shown.format(tmp_path)


def test_page_of_the_runbook_is_named_by_its_whole_path_where_the_package_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.settings.PACKAGED_FILES", tmp_path)
    for module in ("tidegate.settings", "tidegate.monitoring.runbook"):
        monkeypatch.setattr(f"{module}.is_checkout", lambda: False)
    assert name_page_file("rolled-back") == f"{tmp_path}/docs/runbook/rolled-back.md"
    shown = f"give the rights that {tmp_path}/docs/security.md lists; see {tmp_path}/docs/runbook/rows-differ.md"
    assert name_command("give the rights that docs/security.md lists; see docs/runbook/rows-differ.md") == shown
    assert name_command(shown) == shown
