"""The remedies that messages print, followed to the letter: the printed command, as it stands there, is what is run."""

import json
import re
import shlex
from typing import Any

import pytest

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}


def upsert(number: int, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"id": number}, {"id": number, "name": name}


def find_command(message: str, word: str) -> list[str]:
    """The words of the printed command that begins so, up to what ends a clause."""
    (found,) = re.findall(rf"tidegate ({word} .*?)(?=; | \(|$)", message)
    return shlex.split(found)


@pytest.fixture
def rolled_back(workbench) -> str:
    """Two flushes over two partitions, of which somebody took the second back; the message of the next flush."""
    topic = workbench.topic(2)
    workbench.pipeline("undone", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, upsert(1, "a"), upsert(2, "b"))
    first = workbench.flush("undone").published[0].snapshot_id
    workbench.produce(topic, upsert(1, "changed"), upsert(3, "c"), ({"id": 2}, None))
    workbench.flush("undone")
    workbench.spark_sql(f"CALL lake.system.rollback_to_snapshot('shop.undone', {first})")
    failed = workbench.cli("flush", "undone")
    assert failed.returncode == 1
    return failed.stderr.strip()


def names(workbench) -> dict[int, str]:
    return {row["id"]: row["name"] for row in workbench.rows("shop.undone")}


AFTER = {1: "changed", 3: "c"}


def test_rollback_is_undone_by_the_printed_command(workbench, rolled_back) -> None:
    command = find_command(rolled_back, "undo-rollback")
    asked = workbench.cli(*command)
    assert (asked.returncode, asked.stderr.count("nothing was changed")) == (1, 1)
    assert "rows=2 -> rows=2" in asked.stdout
    assert len(re.findall(r"comes back: snapshot=\d+ of .*pipeline=undone batch=2, changed rows=3", asked.stdout)) == 1
    assert names(workbench) == {1: "a", 2: "b"}

    done = workbench.cli(*command, "--yes", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["done"], told["tables"][0]["rows_after"]) == (0, True, 2)
    assert names(workbench) == AFTER
    again = workbench.cli("flush", "undone")
    assert (again.returncode, "every table stands at the end" in again.stdout) == (0, True)
    (status,) = json.loads(workbench.cli("status", "undone", "--json").stdout)["pipelines"]
    (action,) = status["tables"][0]["actions"]
    assert (action["action"], status["tables"][0]["problem"]) == ("undo-rollback", None)
    assert action["by"]
    assert f"undo-rollback by {action['by']}" in workbench.cli("status", "undone").stdout
    second = workbench.cli(*command, "--yes")
    assert (second.returncode, "none was rolled back" in second.stdout) == (0, True)


def test_rollback_is_not_undone_over_another_writers_rows_but_by_the_printed_command(workbench, rolled_back) -> None:
    workbench.spark_sql("INSERT INTO lake.shop.undone VALUES (9, 'theirs')")
    refused = workbench.cli(*find_command(rolled_back, "undo-rollback"), "--yes")
    assert (refused.returncode, "with up to rows=1" in refused.stderr) == (1, True)
    assert names(workbench) == {1: "a", 2: "b", 9: "theirs"}
    assert workbench.cli(*find_command(refused.stderr.strip(), "undo-rollback"), "--yes").returncode == 0
    assert names(workbench) == AFTER


@pytest.mark.parametrize(("answer", "expected"), [("--rewind", AFTER), ("--keep", {1: "a", 2: "b"})])
def test_rollback_is_answered_once_by_the_printed_command(workbench, rolled_back, answer, expected) -> None:
    pattern = rf"tidegate (answer-rollback \S+ --table \S+ {answer})"
    done = workbench.cli(*shlex.split(re.findall(pattern, rolled_back)[0]), "--yes")
    assert (done.returncode, done.stdout.count("offsets [")) == (0, 2)
    workbench.cli("flush", "undone")
    assert names(workbench) == expected
    (status,) = json.loads(workbench.cli("status", "undone", "--json").stdout)["pipelines"]
    assert [one["action"] for one in status["tables"][0]["actions"]] == [answer.removeprefix("--")]
