"""The commands: exit codes, and output that programs can rely on. One command per exit code runs in its own process."""

import json

import pytest

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}


def build_upsert(id, name):
    return {"id": id}, {"id": id, "name": name}


def test_plan_flush_and_status_tell_the_same_story(workbench) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("told", [topic], key=KEY, value=VALUE, description="what it is", merge={"max_records": 2})
    workbench.produce(topic, build_upsert(1, "a"), build_upsert(2, "b"), build_upsert(3, "c"))

    planned = workbench.run_cli("plan", "told", "--json")
    (table,) = json.loads(planned.stdout)["tables"]
    assert (planned.returncode, table["batch"], table["offsets"]) == (0, 1, 2)
    assert not workbench.exists("shop.told")

    flushed = workbench.run_process("flush", "told", "--until-current", "--json")
    batches = [json.loads(line) for line in flushed.stdout.splitlines()]
    assert (flushed.returncode, [b["batch"] for b in batches]) == (0, [1, 2])
    assert [b["inserted"] for b in batches] == [2, 1]
    assert all(isinstance(b["snapshot_id"], str) for b in batches)

    process = workbench.run_cli("status", "told", "--json")
    (status,) = json.loads(process.stdout)["pipelines"]
    assert process.returncode == 0
    assert set(status) == {
        "pipeline", "description", "group", "freshness", "lag", "lag_known", "tables", "partitions", "batches",
        "backfills", "warnings", "dead_letters", "dead_letters_replayed", "newest_dead_letter",
    }  # fmt: skip
    assert (status["lag"], status["lag_known"]) == (0, True)
    assert (status["group"], status["dead_letters"]) == ("tidegate-told", 0)
    (table,) = status["tables"]
    assert (table["table"], table["batch"], table["rows"]) == ("lake.shop.told", 2, 3)
    assert table["position"] == {topic: {"0": 3, "1": 0}}
    assert table["snapshot_id"] == batches[-1]["snapshot_id"]
    first, second = status["partitions"]
    assert (first["published"], first["committed"], first["end"], first["lag"], first["lag_seconds"]) == (3, 3, 3, 0, 0)
    assert (second["committed"], second["end"]) == (0, 0)
    assert [b["batch"] for b in status["batches"]] == [2, 1]
    assert set(status["batches"][0]) == {
        "batch", "table", "span", "gaps", "read", "staged", "superseded", "filtered", "ignored", "dead_lettered",
        "inserted", "updated", "deleted", "seconds", "stage_seconds", "published_at", "valid_through", "backfill",
        "bytes_scanned", "bytes_billed", "bytes_written", "unknown_fields",
    }  # fmt: skip

    second_process = workbench.run_cli("flush", "told")
    assert (second_process.returncode, second_process.stdout.count("\n")) == (0, 1)
    assert "every table stands at the end of the log" in second_process.stdout


@pytest.mark.repeats(
    "unit/tidegate/reprocess/test_rebase.py::test_preview_counts_what_is_skipped_or_read_again_and_changes_nothing"
)
def test_rebase_shows_what_it_would_read_again_and_moves_only_after_a_yes(workbench) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("moved", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, build_upsert(1, "a"), build_upsert(2, "b"))
    workbench.flush("moved")

    preview = workbench.run_cli("rebase", "moved", "--to", json.dumps({topic: {"0": 1}}))
    assert (preview.returncode, preview.stderr.strip()) == (1, "Move the position? Type yes: nothing was changed")
    assert f"lake.shop.moved  {topic} 0: 2 -> 1, reads again 1 offset" in preview.stdout
    process = workbench.run_cli("rebase", "moved", "--to", json.dumps({topic: {"0": 1}}), "--yes", "--json")
    assert (process.returncode, json.loads(process.stdout)["done"]) == (0, True)
    (table,) = json.loads(process.stdout)["tables"]
    moved = {"topic": topic, "partition": 0, "before": 2, "after": 1, "skipped": 0, "read_again": 1}
    assert table == {"table": "lake.shop.moved", "partitions": [moved], "old_topics": []}
    assert json.loads(workbench.run_cli("plan", "moved", "--json").stdout)["tables"][0]["ranges"] == {
        topic: {"0": [1, 2]}
    }


@pytest.mark.repeats("test_plan_flush_and_status_tell_the_same_story")
def test_status_of_a_pipeline_that_never_ran_shows_its_lag(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("fresh", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, build_upsert(1, "a"))
    process = workbench.run_cli("status", "--json")
    (status,) = json.loads(process.stdout)["pipelines"]
    (table,) = status["tables"]
    assert (process.returncode, status["lag"], table["exists"], table["rows"]) == (0, 1, False, None)
    assert status["partitions"][0]["committed"] is None
    assert status["partitions"][0]["lag_seconds"] >= 0


@pytest.mark.repeats(
    "unit/tidegate/cli/test_main.py::test_status_of_all_names_what_holds_up_the_right_one_of_two_files_of_a_name"
)
def test_status_of_one_broken_pipeline_does_not_hide_the_others(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("sound", [topic], key=KEY, value=VALUE)
    workbench.pipeline("broken", ["no-such-topic"], key=KEY, value=VALUE)
    process = workbench.run_cli("status", "--json")
    statuses = {status["pipeline"]: status for status in json.loads(process.stdout)["pipelines"]}
    assert process.returncode == 1
    assert "topic=no-such-topic does not exist" in statuses["broken"]["error"]
    assert statuses["sound"]["lag"] == 0


@pytest.mark.repeats("unit/tidegate/cli/test_main.py::test_pipeline_that_has_no_file_exits_with_1_and_names_it")
def test_refused_and_failed_commands_exit_with_one_and_a_message(workbench) -> None:
    workbench.pipeline("gone", ["no-such-topic"], key=KEY, value=VALUE)
    for words, message in {
        ("flush", "gone"): "topic=no-such-topic does not exist",
        ("plan", "gone"): "topic=no-such-topic does not exist",
        ("status", "gone"): "topic=no-such-topic does not exist",
        ("flush", "nobody"): "no such pipeline; there are: gone",
        ("status", "nobody"): "no such pipeline; there are: gone",
    }.items():
        process = workbench.run_cli(*words)
        assert (process.returncode, message in process.stderr) == (1, True), (words, process.stderr)
    process = workbench.run_process("flush", "gone")
    assert (process.returncode, process.stdout) == (1, "")
    assert "topic=no-such-topic does not exist" in process.stderr
    assert "Traceback" not in process.stderr


@pytest.mark.repeats("unit/tidegate/cli/test_main.py::test_wrong_usage_exits_with_2_and_says_how_to_call_it")
def test_wrong_usage_exits_with_two(workbench) -> None:
    for words in ((), ("fly",), ("flush",), ("flush", "a", "b"), ("status", "--yaml")):
        assert workbench.run_cli(*words).returncode == 2, words
    assert workbench.run_process("fly").returncode == 2


@pytest.mark.repeats(
    "unit/tidegate/cli/test_main.py::test_validate_tells_programs_each_file_with_its_problems_and_warnings"
)
def test_validate_names_every_problem_and_exits_with_one(workbench) -> None:
    path = workbench.include / "pipelines" / "wrong.yaml"
    path.write_text(
        "source: {topics: [t], isolaton: x}\ntables: [{name: lake.a, upsert: 3}]\nmerge: {max_records: 0}\n"
    )
    process = workbench.run_cli("validate")
    assert process.returncode == 1
    for part in ("isolaton", "upsert", "max_records"):
        assert part in process.stdout + process.stderr
    path.unlink()
    workbench.pipeline("right", ["t"], key=KEY, value=VALUE)
    assert workbench.run_cli("validate").returncode == 0


@pytest.mark.repeats(
    "unit/tidegate/config/test_pipeline_file.py::test_schema_for_editors_refuses_unknown_keys_and_requires_what_has_no_default"
)
def test_schema_is_json_schema(workbench) -> None:
    process = workbench.run_cli("schema")
    assert (process.returncode, json.loads(process.stdout)["type"]) == (0, "object")
