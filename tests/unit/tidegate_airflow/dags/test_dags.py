"""The DAGs as Airflow reads them: nothing is opened, everything is explained, and one file is one pipeline."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dag_reading.process import read
from fakes import build_pipeline
from tidegate.config import pipeline_file, publication_file
from tidegate.reprocess.request import ACTION_PARAM_NAMES, ActionKind
from tidegate_airflow.dag_files import build_all_dags, build_fleet_dags, build_own_dags
from tidegate_airflow.dags.flush import build_flush_dag

PIPELINE = """
source:
  topics: [{name}]
  key: {{format: json, fields: [id], schema: id BIGINT}}
  value: {{format: json, schema: "id BIGINT, name STRING"}}
tables:
  - name: lake.shop.{name}
merge: {merge}
spark: {spark}
maintenance: {maintenance}
freshness_target: 15m
tags: [team-{name}, gold]
on_failure:
  - {{notifier: a.module.that.is.not.There, kwargs: {{conn_id: somewhere}}}}
"""
LAKE = {"type": "sql", "uri": "postgresql://nowhere.invalid:1/c", "warehouse": "s3://nowhere/w"}
PIPELINES = 13
PUBLICATION = "{{table: lake.shop.p0, topic: {name}, key: {{fields: [id]}}, {more}}}"
PUBLICATIONS = {
    "asset": "delivery: exactly-once",
    "timed": "interval: 5m, spark: {mode: submit}",
    "by_hand": "on_table_change: false",
}


def write(folder: Path, name: str, merge: str = "{interval: 60s}", spark: str = "{}", maintenance: str = "{}") -> None:
    text = PIPELINE.format(name=name, merge=merge, spark=spark, maintenance=maintenance)
    (folder / "pipelines" / f"{name}.yaml").write_text(text)


@pytest.fixture(scope="module")
def include(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("include")
    (folder / "pipelines").mkdir()
    (folder / "catalogs.yaml").write_text(json.dumps({"lake": {"type": "iceberg", "properties": LAKE}}))
    for number in range(PIPELINES - 4):
        write(folder, f"p{number}")
    write(folder, "counted", "{interval: -1, records_threshold: 1000}")
    write(folder, "nightly", "{interval: '30 2 * * *', records_threshold: 5}", maintenance="{compact_every: -1}")
    write(folder, "submitted", "{interval: 1h}", "{mode: submit}")
    clocks = "stage: {interval: 10s}\nheartbeat: {interval: 5m}\nverify: {interval: 2d}"
    write(folder, "clocks", f"{{interval: 1d, records_threshold: 5000}}\n{clocks}")
    (folder / "publications").mkdir()
    for name, options in PUBLICATIONS.items():
        (folder / "publications" / f"{name}.yaml").write_text(PUBLICATION.format(name=name, more=options))
    return folder


@pytest.fixture(scope="module")
def dag_reading(include: Path) -> dict[str, Any]:
    return read(include)


def test_expression_that_is_longer_than_a_tag_is_cut_in_the_tag_alone() -> None:
    times = f"{','.join(str(minute) for minute in range(0, 60, 2))} {','.join(map(str, range(24)))} * * *"
    pipeline = build_pipeline()
    dag = build_flush_dag(replace(pipeline, merge=replace(pipeline.merge, cron=times)))
    assert f"cron {times}"[:99] + "…" in dag.tags
    assert f"expression='{times}'" in repr(dag.timetable.timetable)


def test_task_reads_the_file_of_its_own_pipeline_alone(include: Path, dag_reading: dict[str, Any]) -> None:
    dag = "tidegate_p1_backfill"
    own = read(include, _AIRFLOW_PARSING_CONTEXT_DAG_ID=dag)["dags"]
    flushes = [name for name in own if name.startswith("tidegate_") and not name.startswith("tidegate_publish_")]
    assert sorted(flushes) == [
        f"tidegate_p1{kind}" for kind in ("", "_actions", "_backfill", "_maintenance", "_replay")
    ]
    assert own[dag]["serialized"] == dag_reading["dags"][dag]["serialized"]


@pytest.mark.parametrize("kind", ["stage", "verify", "backfill"])
def test_refused_file_that_is_named_as_another_one_s_dag_takes_no_task_from_it(
    include: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(include))
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", f"tidegate_clocks_{kind}")
    write(include, f"clocks_{kind}")
    try:
        dags = build_all_dags()
    finally:
        (include / "pipelines" / f"clocks_{kind}.yaml").unlink()
    assert f"tidegate_clocks_{kind}" in dags


def test_task_of_a_publication_reads_its_own_file_alone(
    include: Path, dag_reading: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(include))
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "tidegate_publish_timed")
    paths, read_document = list[str](), publication_file.read_document
    for module in (pipeline_file, publication_file):
        monkeypatch.setattr(module, "read_document", lambda path: paths.append(path.stem) or read_document(path))
    assert build_all_dags().keys() - {"tidegate-janitor"} == {"tidegate_publish_timed"}
    assert paths == ["timed"]
    assert "tidegate_publish_asset" in dag_reading["dags"]


def test_reading_the_dag_files_opens_no_connection_and_imports_nothing_that_is_slow(
    dag_reading: dict[str, Any],
) -> None:
    assert dag_reading["opened"] == []
    assert dag_reading["imported"] == []


def test_every_pipeline_has_its_dags_and_no_other(dag_reading: dict[str, Any], include: Path) -> None:
    names = [file.stem for file in (include / "pipelines").glob("*.yaml")]
    assert {
        f"tidegate_{name}{suffix}"
        for name in names
        for suffix in ("", "_actions", "_backfill", "_maintenance", "_replay")
    } <= set(dag_reading["dags"])


def test_dead_letters_can_be_replayed_by_a_dag_unless_records_name_the_tables(include: Path) -> None:
    """Also where every bad record stops the pipeline: one that a person skipped is a dead letter."""
    plain = pipeline_file.load_pipeline(include / "pipelines" / "p1.yaml")
    text = PIPELINE.format(name="{name}", merge="{interval: 60s}", spark="{}", maintenance="{}")
    path = include / "pipelines" / "named.yaml"
    path.write_text(text.replace("topics: [{name}]", "topics: [events]").replace("team-{name}", "team"))
    try:
        named = pipeline_file.load_pipeline(path)
    finally:
        path.unlink()
    assert {table.errors.max_dead_letters for table in plain.tables} == {None}
    assert "tidegate_p1_replay" in build_own_dags(plain)
    assert named.template is not None
    assert sorted(build_own_dags(named)) == [f"tidegate_named{kind}" for kind in ("", "_actions", "_backfill")]


def test_every_dag_and_task_is_explained_and_has_an_owner(dag_reading: dict[str, Any]) -> None:
    for name, dag in dag_reading["dags"].items():
        assert dag["doc"], name
        assert dag["description"], name
        assert "tidegate" in dag["tags"], name
        for task, task_info in dag["tasks"].items():
            assert task_info["doc"], f"{name}.{task}"
            assert task_info["owner"] == "tidegate", f"{name}.{task}"


def test_every_dag_of_a_pipeline_has_the_tags_of_its_file_beside_those_of_the_product(
    dag_reading: dict[str, Any],
) -> None:
    kinds = {"tidegate_p1": "flush", "tidegate_p1_backfill": "backfill", "tidegate_p1_maintenance": "maintenance"}
    for name, kind in kinds.items():
        interval = ["every 1m"] if kind == "flush" else []
        assert dag_reading["dags"][name]["tags"] == sorted(["tidegate", kind, "lake", "team-p1", "gold", *interval])
    assert dag_reading["dags"]["tidegate_p2"]["tags"] == sorted(
        ["tidegate", "flush", "lake", "team-p2", "gold", "every 1m"]
    )


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ("p0", "every 1m"),
        ("submitted", "every 1h"),
        ("counted", "at 1000 records"),
        ("nightly", "cron 30 2 * * * or at 5 records"),
    ],
)
def test_tag_of_a_flush_says_when_it_runs(dag_reading: dict[str, Any], pipeline: str, expected: str) -> None:
    assert expected in dag_reading["dags"][f"tidegate_{pipeline}"]["tags"]


def test_every_word_of_a_form_is_described(dag_reading: dict[str, Any]) -> None:
    for name, dag in dag_reading["dags"].items():
        for word, schema in dag["params"].items():
            assert schema["title"], f"{name}.{word}"
            assert schema["description"], f"{name}.{word}"
    assert set(dag_reading["dags"]["tidegate_p0"]["params"]) == {"max_records", "until_current", "dry_run"}


def test_form_of_the_actions_asks_for_every_word_that_an_action_takes(dag_reading: dict[str, Any]) -> None:
    for name in ("p0", "submitted"):
        dag = dag_reading["dags"][f"tidegate_{name}_actions"]
        assert list(dag["tasks"]) == ["act"]
        assert set(dag["params"]) == {*ACTION_PARAM_NAMES, "action", "preview", "previewed"}
        assert dag["params"]["action"]["enum"] == list(ActionKind)
        assert set(dag["params"]["action"]["values_display"]) == set(ActionKind)


def test_the_tasks_of_a_flush_are_named_by_its_verbs(dag_reading: dict[str, Any]) -> None:
    tasks = ["plan", "stage", "merge", "commit_offsets", "clean_up", "compact", "heartbeat", "freshness"]
    task_group = dag_reading["dags"]["tidegate_p0"]["tasks"]
    assert sorted(task_group) == sorted(tasks)
    assert {task for task in tasks if task_group[task]["group"] == "rows"} == {"stage", "merge"}
    assert {task for task in tasks if task_group[task]["group"] == "progress"} == {
        "commit_offsets",
        "clean_up",
        "compact",
    }


def test_pipeline_with_two_clocks_has_a_dag_for_each(dag_reading: dict[str, Any]) -> None:
    stage, merge = (dag_reading["dags"][f"tidegate_clocks{kind}"] for kind in ("_stage", ""))
    assert sorted(stage["tasks"]) == ["finish", "plan", "stage"]
    assert sorted(merge["tasks"]) == sorted(
        ["plan", "merge", "commit_offsets", "clean_up", "compact", "heartbeat", "freshness"]
    )
    assert set(stage["params"]) == {"max_records", "until_current", "dry_run"}
    assert set(merge["params"]) == {"dry_run"}, "merges read no records"
    assert {"stage", "every 10s"} <= set(stage["tags"])
    assert {"flush", "every 1d or at 5000 staged records"} <= set(merge["tags"])
    assert '"delta": 10.0' in stage["serialized"]
    assert '"delta": 86400.0' in merge["serialized"]
    assert "BacklogTrigger" not in stage["serialized"] + merge["serialized"], "records in the log start no merge"
    assert find_mentions(json.loads(stage["serialized"]), "tidegate_clocks_stage_backlog")
    assert "tidegate_p0_stage" not in dag_reading["dags"]


def test_pipeline_that_is_verified_by_the_clock_has_a_dag_whose_form_names_a_table(dag_reading: dict[str, Any]) -> None:
    verify = dag_reading["dags"]["tidegate_clocks_verify"]
    assert (list(verify["tasks"]), list(verify["params"])) == (["verify"], ["table"])
    assert '"delta": 172800.0' in verify["serialized"]
    assert [name for name in dag_reading["dags"] if name.endswith("_verify")] == ["tidegate_clocks_verify"]


def test_staging_waits_for_no_slot_of_the_merges_and_calls_for_them(
    include: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(include))
    monkeypatch.delenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", raising=False)
    dags = build_all_dags()
    stage = dags["tidegate_clocks_stage"].get_task("stage")
    assert (stage.pool, dags["tidegate_clocks"].get_task("merge").pool) == ("tidegate_lake_stage", "tidegate_lake")
    assert [outlet.name for outlet in stage.outlets] == ["tidegate_clocks_backlog"]
    assert dags["tidegate_clocks"].get_task("merge").upstream_task_ids == {"plan"}


def test_flushes_are_followed_by_compaction_unless_it_is_left_to_the_clock(dag_reading: dict[str, Any]) -> None:
    assert "compact" not in dag_reading["dags"]["tidegate_nightly"]["tasks"]
    assert "compact" in dag_reading["dags"]["tidegate_submitted"]["tasks"]


def test_heartbeats_have_a_clock_of_their_own_where_a_pipeline_flushes_seldom(
    include: Path, dag_reading: dict[str, Any]
) -> None:
    dag = dag_reading["dags"]["tidegate-heartbeats"]
    assert list(dag["tasks"]) == ["heartbeat"]
    assert '"delta": 300.0' in dag["serialized"], "as that of the pipeline with two clocks, which merges once a day"
    own = read(include, _AIRFLOW_PARSING_CONTEXT_DAG_ID="tidegate-heartbeats")["dags"]
    assert own["tidegate-heartbeats"]["tasks"] == dag["tasks"]


def test_tasks_that_send_jobs_to_bigquery_link_to_them(dag_reading: dict[str, Any]) -> None:
    for dag in ("tidegate_p0", "tidegate_submitted"):
        tasks = dag_reading["dags"][dag]["tasks"]
        assert {task for task, task_info in tasks.items() if task_info["links"]} >= {"stage", "merge"}
        assert "BigQuery job" in tasks["merge"]["links"]


def test_time_and_records_start_a_flush_as_the_file_says(dag_reading: dict[str, Any]) -> None:
    p0, counted_dag, nightly = (
        dag_reading["dags"][f"tidegate_{name}"]["serialized"] for name in ("p0", "counted", "nightly")
    )
    assert "BacklogTrigger" not in p0
    assert '"delta": 60.0' in p0
    assert "BacklogTrigger" in counted_dag
    assert '"delta": 600.0' in counted_dag  # the heartbeat's
    assert "BacklogTrigger" in nightly
    assert "30 2 * * *" in nightly


def test_publication_runs_when_its_table_was_published_or_on_its_interval_or_by_hand(
    dag_reading: dict[str, Any],
) -> None:
    dags = {name: dag_reading["dags"][f"tidegate_publish_{name}"] for name in PUBLICATIONS}
    assert all(list(dag["tasks"]) == ["publish"] for dag in dags.values())
    assert "lake.shop.p0" in dags["asset"]["serialized"]
    assert '"delta": 300.0' in dags["timed"]["serialized"]
    assert "NullTimetable" in dags["by_hand"]["serialized"]


def test_changing_one_file_changes_the_dags_of_that_pipeline_alone(include: Path, dag_reading: dict[str, Any]) -> None:
    write(include, "p3", "{interval: 90s}")
    (include / "pipelines" / "p4.yaml").unlink()
    try:
        now = read(include)["dags"]
    finally:
        write(include, "p3")
        write(include, "p4")
    removed_dags = {f"tidegate_p4{kind}" for kind in ("", "_actions", "_backfill", "_maintenance", "_replay")}
    assert set(dag_reading["dags"]) - set(now) == removed_dags
    changed = {name for name, dag in now.items() if dag["serialized"] != dag_reading["dags"][name]["serialized"]}
    assert changed == {"tidegate_p3"}


def find_mentions(node: Any, asset: str) -> list[dict[str, Any]]:
    """Every place of a DAG that names an asset: its schedule, and its tasks' inlets and outlets."""
    if isinstance(node, list):
        return [mention for node_value in node for mention in find_mentions(node_value, asset)]
    if not isinstance(node, dict):
        return []
    own_mentions = [node] if node.get("name") == asset and "uri" in node else []
    return own_mentions + [mention for value in node.values() for mention in find_mentions(value, asset)]


@pytest.mark.parametrize(("pipeline", "watchers"), [("counted", 1), ("nightly", 1), ("p0", 0)])
def test_backlog_has_its_watchers_in_every_place_because_airflow_takes_those_of_the_last(
    dag_reading: dict[str, Any], pipeline: str, watchers: int
) -> None:
    serialized = json.loads(dag_reading["dags"][f"tidegate_{pipeline}"]["serialized"])
    mentions = find_mentions(serialized, f"tidegate_{pipeline}_backlog")
    assert len(mentions) >= 3, "the schedule, and the tasks that keep what they tell later runs"
    assert [len(mention.get("watchers", [])) for mention in mentions] == [watchers] * len(mentions)


def test_task_with_real_work_is_not_ended_by_a_clock_on_every_try(
    include: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first load, or the first maintenance of a large table, takes hours; the next try would begin it again."""
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(include))
    monkeypatch.delenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", raising=False)
    dags = build_all_dags() | build_fleet_dags({"shop": [build_pipeline()]})
    limits = {f"{dag.dag_id}.{task.task_id}": task.execution_timeout for dag in dags.values() for task in dag.tasks}
    quick = {
        "plan", "commit_offsets", "heartbeat", "finish", "freshness", "complete", "tables", "beat",
    }  # fmt: skip
    work = {
        name: limit
        for name, limit in limits.items()
        if name.rpartition(".")[2] not in quick and not name.endswith("_backfill.clean_up")
    }
    attending = (  # with limits for each pipeline
        "tidegate_fleet_shop.commit_offsets",
        "tidegate_fleet_shop.heartbeat",
        "tidegate-heartbeats.heartbeat",
    )
    work |= {name: limits[name] for name in attending}
    kinds = {name.rpartition(".")[2] for name in work.keys() - {*attending}}
    assert kinds == {
        "stage",
        "merge",
        "clean_up",
        "compact",
        "maintain",
        "batch",
        "act",
        "replay",
        "publish",
        "leftovers",
        "verify",
    }
    assert {name: limit for name, limit in work.items() if limit is not None} == {}
    assert all(limit for name, limit in limits.items() if name not in work)
