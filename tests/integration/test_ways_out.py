"""The remedies that messages print: each test runs the printed command unchanged."""

import json
import re
import shlex
from typing import Any

import pytest

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
SECOND = {"partition": 1}


def build_upsert(number: int, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"id": number}, {"id": number, "name": name}


def find_command(message: str, word: str) -> list[str]:
    """The words of the printed command that begins so, up to what ends a clause."""
    (command,) = re.findall(rf"tidegate ({word} .*?)(?=; | \(|$)", message)
    return shlex.split(command)


@pytest.fixture
def rolled_back(workbench) -> str:
    """Two flushes over two partitions, of which somebody took the second back; the message of the next flush."""
    topic = workbench.topic(2)
    workbench.pipeline("undone", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, build_upsert(1, "a"), (*build_upsert(2, "b"), SECOND))
    first = workbench.flush("undone").published[0].snapshot_id
    workbench.produce(topic, build_upsert(1, "changed"), build_upsert(3, "c"), ({"id": 2}, None, SECOND))
    workbench.flush("undone")
    workbench.run_spark_sql(f"CALL lake.system.rollback_to_snapshot('shop.undone', {first})")
    process = workbench.run_cli("flush", "undone")
    assert process.returncode == 1
    return process.stderr.strip()


def read_names(workbench) -> dict[int, str]:
    return {row["id"]: row["name"] for row in workbench.read_rows("shop.undone")}


AFTER = {1: "changed", 3: "c"}


def test_rollback_is_undone_by_the_printed_command(workbench, rolled_back) -> None:
    command = find_command(rolled_back, "undo-rollback")
    preview = workbench.run_cli(*command)
    assert (preview.returncode, preview.stderr.count("nothing was changed")) == (1, 1)
    assert "rows=2 -> rows=2" in preview.stdout
    assert (
        len(re.findall(r"comes back: snapshot=\d+ of .*pipeline=undone batch=2, changed rows=3", preview.stdout)) == 1
    )
    assert read_names(workbench) == {1: "a", 2: "b"}

    process = workbench.run_cli(*command, "--yes", "--json")
    report = json.loads(process.stdout)
    assert (process.returncode, report["done"], report["tables"][0]["rows_after"]) == (0, True, 2)
    assert read_names(workbench) == AFTER
    flush_process = workbench.run_cli("flush", "undone")
    assert (flush_process.returncode, "every table stands at the end" in flush_process.stdout) == (0, True)
    (status,) = json.loads(workbench.run_cli("status", "undone", "--json").stdout)["pipelines"]
    (action,) = status["tables"][0]["actions"]
    assert (action["action"], status["tables"][0]["problem"]) == ("undo-rollback", None)
    assert action["by"]
    assert f"undo-rollback by {action['by']}" in workbench.run_cli("status", "undone").stdout
    second = workbench.run_cli(*command, "--yes")
    assert (second.returncode, "none was rolled back" in second.stdout) == (0, True)


# the answers to a rollback in memory; one undo and one rewind are run by the printed command
@pytest.mark.repeats(
    "unit/scenarios/test_rollback_answers.py::test_undo_refuses_to_lose_what_others_wrote_since_unless_that_is_said"
)
def test_rollback_is_not_undone_over_another_writers_rows_but_by_the_printed_command(workbench, rolled_back) -> None:
    workbench.run_spark_sql("INSERT INTO lake.shop.undone VALUES (9, 'theirs')")
    refused = workbench.run_cli(*find_command(rolled_back, "undo-rollback"), "--yes")
    assert (refused.returncode, "with up to rows=1" in refused.stderr) == (1, True)
    assert read_names(workbench) == {1: "a", 2: "b", 9: "theirs"}
    assert workbench.run_cli(*find_command(refused.stderr.strip(), "undo-rollback"), "--yes").returncode == 0
    assert read_names(workbench) == AFTER


@pytest.mark.repeats(
    "unit/scenarios/test_rollback_answers.py::test_answer_shows_the_offsets_that_are_missing_and_is_given_once"
)
@pytest.mark.parametrize(("answer", "expected"), [("--rewind", AFTER), ("--keep", {1: "a", 2: "b"})])
def test_rollback_is_answered_once_by_the_printed_command(workbench, rolled_back, answer, expected) -> None:
    pattern = rf"tidegate (answer-rollback \S+ --table \S+ {answer})"
    process = workbench.run_cli(*shlex.split(re.findall(pattern, rolled_back)[0]), "--yes")
    assert (process.returncode, process.stdout.count("offsets [")) == (0, 2)
    workbench.run_cli("flush", "undone")
    assert read_names(workbench) == expected
    (status,) = json.loads(workbench.run_cli("status", "undone", "--json").stdout)["pipelines"]
    assert [action["action"] for action in status["tables"][0]["actions"]] == [answer.removeprefix("--")]


POISON = {
    "schema": "id BIGINT, score INT, amount DECIMAL(6,2), joined TIMESTAMP, tags ARRAY<STRING>, note STRING NOT NULL"
}
GOOD = {"id": 1, "score": 7, "amount": 19.90, "joined": "2026-01-01T12:00:00Z", "tags": ["a"], "note": "x"}
POOR = {"id": 2, "score": 1.5, "amount": 1.234, "joined": None, "tags": ["a", "b"]}


@pytest.fixture
def poisoned(workbench) -> tuple[str, str]:
    """A pipeline whose second partition holds a record with three bad fields; its topic, and the flush's message."""
    topic = workbench.topic(2)
    workbench.pipeline("poisoned", [topic], key=KEY, value=POISON)
    workbench.produce(topic, ({"id": 1}, GOOD), ({"id": 2}, POOR, SECOND), ({"id": 3}, {**GOOD, "id": 3}, SECOND))
    process = workbench.run_cli("flush", "poisoned")
    assert process.returncode == 1
    return topic, process.stderr.strip()


# a bad record is looked at, skipped and flushed on real servers by two clicks, and replayed in memory
@pytest.mark.repeats(
    "e2e/test_page.py::test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others"
)
def test_poison_record_is_shown_field_by_field_by_the_printed_command(workbench, poisoned) -> None:
    topic, message = poisoned
    command = find_command(message, "record")
    assert command == ["record", "poisoned", "--at", f"{topic}:1:0"]
    process = workbench.run_cli(*command)
    assert process.returncode == 0, process.stderr
    lines = [line.strip() for line in process.stdout.splitlines()]
    assert 'key: {"id": 2}' in lines
    assert f"value: {json.dumps(POOR)}" in lines
    assert "key id: expected BIGINT, got 2 (ok)" in lines
    fields = {line.split(":")[0]: line for line in lines if line.startswith("value ")}
    assert fields["value score"] == (
        "value score: expected INT, got 1.5 (refused: the value does not fit value.schema, fields: score)"
    )
    assert fields["value amount"].startswith("value amount: expected DECIMAL(6,2), got 1.234 (refused: ")
    assert fields["value note"].startswith("value note: expected STRING NOT NULL, got nothing (refused: ")
    assert fields["value joined"] == "value joined: expected TIMESTAMP, got nothing (ok)"
    assert fields["value tags"] == 'value tags: expected ARRAY<STRING>, got ["a","b"] (ok)'

    (good,) = json.loads(workbench.run_cli("record", "poisoned", "--at", f"{topic}:0:0", "--json").stdout)["tables"]
    assert (good["fate"], good["reason"]) == ("staged", None)
    assert all(field["accepted"] for field in good["fields"])
    assert json.loads(good["row"])["value"]["score"] == 7
    tables = workbench.open_session("poisoned").tables.list_tables("lake.shop")
    assert tables == ["poisoned_poisoned_tmp"]


# a bad record is looked at, skipped and flushed on real servers by two clicks, and replayed in memory
@pytest.mark.guard(
    "a skipped record lets no other bad record pass",
    file="jobs/tidegate_spark/stage/record_pass.py",
    text="    if table.skips is not None:\n",
    off="    if False:\n",
)
@pytest.mark.repeats(
    "e2e/test_page.py::test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others"
)
def test_poison_record_is_skipped_by_the_printed_command_and_replayed_after_a_correction(workbench, poisoned) -> None:
    topic, message = poisoned
    command = find_command(message, "skip")
    assert command == ["skip", "poisoned", "--at", f"{topic}:1:0"]
    preview = workbench.run_cli(*command)
    assert (preview.returncode, preview.stderr.count("nothing was changed")) == (1, 1)
    assert "value score: expected INT, got 1.5" in preview.stdout
    assert workbench.run_cli("flush", "poisoned").returncode == 1

    assert workbench.run_cli(*command, "--yes").returncode == 0
    flushed = workbench.run_cli("flush", "poisoned")
    assert flushed.returncode == 0, flushed.stderr
    assert sorted(row["id"] for row in workbench.read_rows("shop.poisoned")) == [1, 3]
    (status,) = json.loads(workbench.run_cli("status", "poisoned", "--json").stdout)["pipelines"]
    assert (status["lag"], status["dead_letters"], status["batches"][0]["dead_lettered"]) == (0, 1, 1)
    assert status["tables"][0]["actions"][0]["action"] == "skip"

    workbench.produce(topic, ({"id": 4}, {**POOR, "id": 4}, SECOND))
    process = workbench.run_cli("flush", "poisoned")
    assert (process.returncode, f"the first: topic={topic} partition=1 offset=2" in process.stderr) == (1, True)

    corrected = {"schema": "id BIGINT, joined TIMESTAMP, tags ARRAY<STRING>, note STRING"}
    workbench.pipeline("poisoned", [topic], key=KEY, value=corrected)
    assert workbench.run_cli("flush", "poisoned").returncode == 0
    replayed = workbench.run_cli("dead-letters", "poisoned", "--replay")
    assert (replayed.returncode, "tried=1 replayed=1 still_bad=0" in replayed.stdout) == (0, True), replayed.stderr
    assert sorted(row["id"] for row in workbench.read_rows("shop.poisoned")) == [1, 2, 3, 4]


@pytest.mark.repeats(
    "unit/scenarios/test_chosen_letters.py::test_only_the_chosen_letters_are_replayed_also_those_that_lie_between_others"
)
def test_dead_letters_are_chosen_exported_replayed_and_discarded(workbench, tmp_path) -> None:
    topic = workbench.topic(2)
    errors = {"errors": {"tolerance": "all"}}
    workbench.pipeline("chosen", [topic], key=KEY, value={"schema": "id BIGINT, score INT"}, source=errors)
    bad = [({"id": n}, {"id": n, "score": n + 0.5}, {"partition": n % 2}) for n in range(4)]
    workbench.produce(topic, *bad, ({"id": 9}, {"id": 9, "score": 9}), ({"id": 5}, "no object", SECOND))
    workbench.flush("chosen")
    letters = ["dead-letters", "chosen"]

    listed = json.loads(workbench.run_cli(*letters, "--reason", "SCORE", "--topic", topic, "--json").stdout)
    assert (listed["waiting"], listed["chosen"], len(listed["dead_letters"])) == (5, 4, 4)
    file = tmp_path / "letters.jsonl"
    assert workbench.run_cli(*letters, "--offsets", f"{topic}:1:2", "--export", str(file)).returncode == 0
    (line,) = file.read_text().splitlines()
    assert (json.loads(line)["value"], json.loads(line)["offset"]) == ("no object", 2)
    process = workbench.run_cli(*letters, "--export", str(file))
    assert (process.returncode, "name a new file" in process.stderr) == (1, True)

    discard = [*letters, "--offsets", f"{topic}:1:2", "--discard", "--because", "it's a test"]
    preview = workbench.run_cli(*discard)
    assert (preview.returncode, "1 dead letter would be discarded" in preview.stdout) == (1, True)
    assert workbench.run_cli(*discard, "--yes").returncode == 0
    output = workbench.run_cli(*letters).stdout
    assert "4 dead letters wait, 0 were replayed, 1 were discarded" in output
    assert "discard by" in workbench.run_cli("status", "chosen").stdout

    workbench.pipeline("chosen", [topic], key=KEY, value={"schema": "id BIGINT"}, source=errors)
    replayed = workbench.run_cli(*letters, "--offsets", f"{topic}:0:0", f"{topic}:1:1", "--replay")
    assert (replayed.returncode, "tried=2 replayed=2 still_bad=0" in replayed.stdout) == (0, True), replayed.stderr
    assert sorted(row["id"] for row in workbench.read_rows("shop.chosen")) == [0, 3, 9]
    assert "2 dead letters wait, 2 were replayed, 1 were discarded" in workbench.run_cli(*letters).stdout


@pytest.mark.repeats(
    "unit/scenarios/test_record.py::test_what_becomes_of_records_is_said_for_each_place_and_table_and_without_their_content_to_airflow"
)
def test_records_of_a_partition_are_shown_beside_what_becomes_of_each_in_every_table(workbench) -> None:
    """Rows, a delete, one that a condition leaves out and a bad one; of the last 20, and of those around a place."""
    topic = workbench.topic(2)
    tables = [{"name": "lake.shop.Seen"}, {"name": "lake.shop.seen_low", "when": "score < 5 OR score IS NULL"}]
    value = {"schema": "id BIGINT, score INT"}
    workbench.pipeline("seen", [topic], key=KEY, value=value, tables=tables)
    early = [({"id": n}, {"id": n, "score": 1}) for n in range(18)]
    bad = ({"id": 2}, {"id": 2, "score": "many"})
    workbench.produce(topic, *early, ({"id": 1}, {"id": 1, "score": 9}), bad, ({"id": 1}, None))
    workbench.produce(topic, (*({"id": 7}, {"id": 7, "score": 2}), SECOND))
    process = workbench.run_cli("record", "seen", "--around", f"{topic}:0", "--json")
    assert process.returncode == 0, process.stderr
    shown = json.loads(process.stdout)["records"]
    assert [record["offset"] for record in shown] == list(range(1, 21))
    becomes = [[(part["table"], part["becomes"]) for part in record["tables"]] for record in shown[-4:]]
    assert becomes == [
        [("lake.shop.Seen", "row"), ("lake.shop.seen_low", "row")],
        [("lake.shop.Seen", "row"), ("lake.shop.seen_low", "filtered")],
        [("lake.shop.Seen", "bad"), ("lake.shop.seen_low", "bad")],
        [("lake.shop.Seen", "delete"), ("lake.shop.seen_low", "delete")],
    ]
    assert json.loads(shown[-3]["tables"][0]["row"])["value"] == {"id": 1, "score": 9}
    assert "score" in shown[-2]["tables"][0]["reason"]
    assert "many" not in shown[-2]["tables"][0]["reason"]
    text = workbench.run_cli("record", "seen", "--around", f"{topic}:1:0", "--table", "lake.shop.Seen").stdout
    assert f'{topic}:1:0 lake.shop.Seen row {{"key"' in text
    assert "seen_low" not in text
    assert not workbench.exists("shop.Seen"), "nothing is changed"
    refused = workbench.run_cli("record", "seen", "--around", f"{topic}:5")
    assert (refused.returncode, "no such partition" in refused.stderr) == (1, True)
