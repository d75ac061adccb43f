"""explain on real Kafka, Spark and Iceberg: each key is told its cause, and none a wrong one."""

import json
import os
import random
from dataclasses import replace
from typing import Any

import decoding
import pytest
from fakes import build_table
from random_pipelines import LIMIT, PARTITIONS, Placed, Shape
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.model.offsets import Ranges
from tidegate.reprocess.row_key import parse_row_key, render_of_row
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat

WALK_SEED = int(os.environ.get("WALK_SEED", "1"))
KEY = {"fields": ["Id", "part"], "schema": "Id BIGINT, part STRING"}
VALUE = {"schema": "Id BIGINT, part STRING, note STRING, n INT, lsn BIGINT"}
TOLERANT = {"errors": {"tolerance": "all"}}
STORY_TABLES = [
    {"name": "lake.shop.Orders", "when": "n < 100", "when_false": "ignore"},
    {"name": "lake.shop.kept", "delete": False, "when": "n >= 0"},
]


def make_record(number: int, part: str | None = "a", **values: Any) -> tuple[Any, Any]:
    key = {"Id": number, "part": part}
    return key, {**key, "note": f"note {number}", "n": number, "lsn": 1, **values}


def make_delete(number: int, part: str | None = "a") -> tuple[Any, None]:
    return {"Id": number, "part": part}, None


def explain(
    workbench: Any, name: str, number: int, part: str | None = "a", table: str = ""
) -> dict[str, dict[str, Any]]:
    """The answers by table, or that of one table."""
    words = ["--table", f"lake.shop.{table}"] if table else []
    done = workbench.run_cli("explain", name, json.dumps({"Id": number, "part": part}), "--json", *words)
    assert done.returncode == 0, done.stderr
    answers = {entry["table"].rsplit(".", 1)[1]: entry for entry in json.loads(done.stdout)["tables"]}
    return answers[table] if table else answers


def tell(answer: dict[str, Any]) -> tuple[str, int, list[str]]:
    """The cause, how many rows there are, and what each record did, in the order of the log."""
    return answer["cause"], answer["row_count"], [record["effect"] for record in answer["records"]]


def test_each_key_of_two_tables_is_told_its_cause(workbench: Any) -> None:
    topic = workbench.topic()
    workbench.pipeline("story", [topic], key=KEY, value=VALUE, tables=STORY_TABLES, source=TOLERANT)
    bad = (make_record(1)[0], {**make_record(1)[1], "n": 3_000_000_000})
    workbench.produce(topic, make_record(1), make_record(1, None), make_record(2), make_record(1, n=500), bad)
    workbench.flush("story")
    workbench.produce(topic, make_record(1, note="newer"), make_delete(2))
    workbench.flush("story")
    workbench.produce(topic, make_record(1, note="not flushed"))

    orders = explain(workbench, "story", 1, "a", "Orders")
    assert tell(orders) == ("record", 1, ["superseded", "filtered", "bad", "wrote the row", "not flushed"])
    first, filtered, bad_one, second, _ = orders["records"]
    assert orders["decided_by"] == f"{topic}:{second['partition']}:{second['offset']}"
    assert json.loads(orders["rows"][0])["note"] == json.loads(second["value"])["note"] == "newer"
    snapshots = {
        int(snapshot.summary["tidegate.story.batch"]): str(snapshot.snapshot_id)
        for snapshot in workbench.load_iceberg("shop.Orders").metadata.snapshots
        if snapshot.summary["tidegate.story.staged-attempt"]
    }
    assert [passed["snapshot_id"] for passed in (*first["passed"], *second["passed"])] == [snapshots[1], snapshots[2]]
    assert [passed["how"] for passed in (*first["passed"], *second["passed"])] == ["published"] * 2
    assert orders["limits"] == []
    assert (bad_one["letter"]["state"], "n" in bad_one["reason"], filtered["letter"]) == ("waiting", True, None)
    shown = workbench.run_cli("explain", "story", '{"id": 2, "PART": "a"}', "--table", "lake.shop.Orders")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0] == 'lake.shop.Orders: no row of key={"Id": 2, "part": "a"}'
    assert lines[1].startswith("  deleted: the delete ")
    assert " row superseded: {" in shown.stdout
    assert " delete deleted it" in shown.stdout
    assert "another table has it: lake.shop.kept" in shown.stdout
    assert not workbench.exists("lake.shop.Orders_story_backfill_explain_tmp")
    # another writer's change is no record's; the same number with another part is another key
    workbench.run_spark_sql("UPDATE lake.shop.Orders SET note = 'wrong' WHERE Id = 1 AND part IS NULL")
    changed = explain(workbench, "story", 1, None, "Orders")
    assert (changed["cause"], [(d["column"], d["table"], d["log"]) for d in changed["differences"]]) == (
        "other_writer", [("note", "wrong", "note 1")]
    )  # fmt: skip
    assert len(changed["records"]) == 1


@pytest.mark.repeats("test_each_key_of_two_tables_is_told_its_cause")
def test_row_of_nobody_and_a_table_that_ignores_deletes_are_told(workbench: Any) -> None:
    topic = workbench.topic()
    workbench.pipeline("story", [topic], key=KEY, value=VALUE, tables=STORY_TABLES)
    workbench.produce(topic, make_record(1), make_record(1, None), make_record(2))
    workbench.flush("story")
    workbench.produce(topic, make_delete(2))
    workbench.flush("story")
    assert tell(explain(workbench, "story", 2, "a", "kept")) == ("record", 1, ["wrote the row", "ignored"])
    workbench.run_spark_sql("INSERT INTO lake.shop.Orders (Id, part) VALUES (98, 'a')")
    both = explain(workbench, "story", 98)
    assert (tell(both["Orders"]), both["kept"]["row_count"]) == (("other_writer", 1, []), 0)


@pytest.mark.repeats("test_each_key_of_two_tables_is_told_its_cause")
def test_dead_letter_is_told_before_and_after_its_replay(workbench: Any) -> None:
    topic = workbench.topic()
    workbench.pipeline("letters", [topic], key=KEY, value=VALUE, source=TOLERANT)
    workbench.produce(topic, make_record(1), make_record(1, n=3_000_000_000), make_record(2, n=3_000_000_000))
    workbench.drain("letters")
    assert tell(explain(workbench, "letters", 1)["letters"]) == ("record", 1, ["wrote the row", "bad"])
    wider = {"schema": VALUE["schema"].replace("n INT", "n BIGINT")}
    workbench.pipeline("letters", [topic], key=KEY, value=wider, source=TOLERANT)
    unknown = explain(workbench, "letters", 1)["letters"]
    assert (unknown["cause"], "has changed since the last merge" in unknown["because"]) == ("unknown", True)
    workbench.produce(topic, make_record(3))
    workbench.drain("letters")
    assert tell(explain(workbench, "letters", 1)["letters"]) == ("unknown", 1, ["", "dead letter"])
    assert tell(explain(workbench, "letters", 2)["letters"]) == ("bad", 0, ["dead letter"])
    assert workbench.run_cli("dead-letters", "letters", "--replay").returncode == 0
    for number, effects in ((1, ["superseded", "wrote the row"]), (2, ["wrote the row"])):
        replayed = explain(workbench, "letters", number)["letters"]
        assert tell(replayed) == ("record", 1, effects)
        assert replayed["records"][-1]["letter"]["state"] == "replayed"
        assert "replayed in attempt=" in replayed["because"]


@pytest.mark.repeats("unit/tidegate/reprocess/test_explained_key.py::test_each_record_shows_what_it_did")
def test_skipped_rolled_back_and_backfilled_records_are_told(workbench: Any) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("moved", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, make_record(1), make_record(2))
    workbench.drain("moved")
    first = workbench.load_iceberg("shop.moved").metadata.current_snapshot_id
    workbench.produce(topic, make_record(3), make_record(1, note="rolled back"))
    workbench.drain("moved")
    workbench.run_spark_sql(f"CALL lake.system.rollback_to_snapshot('shop.moved', {first})")
    assert workbench.run_cli("explain", "moved", '{"Id": 3, "part": "a"}').returncode == 1, "the rollback has no answer"
    assert workbench.run_cli("answer-rollback", "moved", "--keep", "--yes").returncode == 0
    workbench.produce(topic, make_record(4))
    workbench.drain("moved")
    lost = explain(workbench, "moved", 3)["moved"]
    assert tell(lost) == ("rolled_back", 0, ["rolled back"]), lost
    assert lost["records"][0]["passed"][0]["how"] == "rolled_back"
    # a person moves the position past a record
    workbench.produce(topic, make_record(7))
    assert workbench.run_cli("rebase", "moved", "--to", "latest", "--yes").returncode == 0
    workbench.produce(topic, make_record(8))
    workbench.drain("moved")
    assert tell(explain(workbench, "moved", 7)["moved"]) == ("skipped", 0, ["skipped"])
    assert workbench.run_cli("backfill", "moved", "--range", json.dumps({topic: {"0": [2, 6]}})).returncode == 0
    back = explain(workbench, "moved", 3)["moved"]
    assert tell(back) == ("record", 1, ["wrote the row"]), back
    assert [bool(passed["backfill"]) for passed in back["records"][0]["passed"]][-1]
    # retention takes what was there
    workbench.retain_from(topic, 3)
    gone = explain(workbench, "moved", 2)["moved"]
    assert tell(gone) == ("unknown", 1, [])
    assert any("the log begins at offset=3" in limit for limit in gone["limits"])


# by the same fold of each mode
@pytest.mark.repeats("integration/test_verify.py::test_table_of_every_mode_equals_the_log_and_none_is_called_wrong")
def test_fold_decides_where_the_last_record_does_not(workbench: Any) -> None:
    topic = workbench.topic()
    tables = [
        {"name": "lake.shop.ordered", "sequence_by": ["lsn"]},
        {"name": "lake.shop.soft", "deletes": "soft", "deleted_column": "Gone"},
        {"name": "lake.shop.partial", "partial_updates": True},
        {"name": "lake.shop.history", "history": "scd2"},
    ]
    workbench.pipeline("folds", [topic], key=KEY, value=VALUE, tables=tables)
    workbench.produce(topic, make_record(1, lsn=5), make_record(1, lsn=3, note="late"), make_record(2), make_delete(2))
    workbench.drain("folds")
    answers = explain(workbench, "folds", 1)
    assert tell(answers["ordered"]) == ("record", 1, ["wrote the row", "superseded"])
    assert tell(answers["soft"]) == ("record", 1, ["superseded", "wrote the row"])
    assert tell(answers["partial"]) == ("folded", 1, ["folded", "wrote last"])
    assert (answers["history"]["cause"], len(answers["history"]["records"])) == ("unknown", 2)
    ended = explain(workbench, "folds", 2)
    assert tell(ended["ordered"]) == ("deleted", 0, ["superseded", "deleted it"])
    assert tell(ended["soft"]) == ("deleted", 1, ["superseded", "deleted it"])
    assert tell(ended["partial"]) == ("deleted", 0, ["folded", "deleted it"])


@pytest.mark.repeats("unit/tidegate/reprocess/test_explain.py::test_log_is_read_up_to_the_position_and_behind_it")
def test_range_reads_no_other_record_and_says_so(workbench: Any) -> None:
    topic = workbench.topic(1)
    key = {"fields": ["id"], "schema": "id STRING"}
    value = {"schema": "id STRING, n INT"}
    workbench.pipeline("narrow", [topic], key=key, value=value)
    workbench.produce(topic, *[({"id": name}, {"id": name, "n": n}) for n, name in enumerate(["007", "b", "007", "b"])])
    workbench.drain("narrow")
    for words, cause, count in (((), "record", 2), (("--range", json.dumps({topic: {"0": [2, 4]}})), "record", 1)):
        done = workbench.run_cli("explain", "narrow", "007", "--json", *words)
        (answer,) = json.loads(done.stdout)["tables"]
        assert (answer["cause"], answer["record_count"], bool(answer["limits"])) == (cause, count, bool(words)), answer
    outside = workbench.run_cli("explain", "narrow", "b", "--json", "--range", json.dumps({topic: {"0": [0, 1]}}))
    assert json.loads(outside.stdout)["tables"][0]["cause"] == "unknown"
    refused = workbench.run_cli("explain", "narrow", '{"other": 1}')
    assert (refused.returncode, "the fields are id" in refused.stderr) == (1, True), refused.stderr


@pytest.mark.repeats(
    "unit/tidegate/reprocess/test_explained_key.py::test_cause_is_told_only_where_no_other_is_possible"
)
def test_record_that_was_merged_and_cannot_be_read_today_accuses_nobody(workbench: Any) -> None:
    topic = workbench.topic(1)
    key = {"fields": ["id"], "schema": "id BIGINT"}
    value = {"schema": "id BIGINT, n INT"}
    workbench.pipeline("lost", [topic], key=key, value=value, source=TOLERANT)
    merged = [({"id": n}, {"id": n, "n": n, **more}) for n, more in ((1, {"other": 1}), (2, {}), (2, {"other": 1}))]
    workbench.produce(topic, *merged)
    workbench.drain("lost")
    workbench.pipeline("lost", [topic], key=key, value={**value, "unknown_fields": "refuse"}, source=TOLERANT)
    workbench.produce(topic, ({"id": 3}, {"id": 3, "n": 3}), ({"id": 4}, {"id": 4, "n": 4, "other": 1}))
    workbench.drain("lost")
    for number, cause, rows in ((1, "unknown", 1), (2, "unknown", 1), (3, "record", 1), (4, "bad", 0)):
        done = workbench.run_cli("explain", "lost", str(number), "--json")
        (answer,) = json.loads(done.stdout)["tables"]
        assert (answer["cause"], answer["row_count"]) == (cause, rows), answer


def test_value_that_holds_the_key_and_cannot_be_read_may_be_of_any_key(spark: Any) -> None:
    from tidegate_spark.stage.one_key import ROWLESS_CONDITION, ROWLESS_STRUCT, build_key_pass
    from tidegate_spark.stage.record_pass import add_bad_column

    columns = (Column("id", "BIGINT"), Column("n", "INT"))
    table = decoding.build_stage_table(ValueFormat("json", columns), columns, columns[:1])
    of_key = "`key`.`id` <=> 7L"
    table = replace(table, key=KeyFormat(fields=("id",), from_value=True), set_aside=9, of_key=of_key)
    values = [b"{", b'{"id": 7, "n": "x"}', b'{"id": 8, "n": "x"}']
    records = spark.createDataFrame(
        [(None, value, "t", 0, n, None) for n, value in enumerate(values)],
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, headers ARRAY<STRUCT<key: STRING, "
        "value: BINARY>>",
    ).selectExpr("*", "current_timestamp() AS timestamp", "0 AS timestampType")
    _, kept = build_key_pass(Ranges({"t": {0: (0, 3)}}), table, records, is_plain=False)
    columns = add_bad_column(["op"], ROWLESS_CONDITION, ROWLESS_STRUCT)
    rows = kept.selectExpr("offset", *columns).selectExpr("offset", "bad.stage").orderBy("offset")
    assert [tuple(row) for row in rows.collect()] == [(0, "key"), (1, "value")]


def test_fraction_that_is_no_number_or_has_no_end_is_found_as_verify_shows_it(spark: Any) -> None:
    table = build_table(keys=("n",), columns=(Column("n", "DOUBLE"),))
    rows = ", ".join(f"(DOUBLE('{number}'))" for number in ("NaN", "Infinity", "-Infinity", "0.5", "0.0"))
    for text, expected in {
        '"NaN"': "NaN", "NaN": "NaN", '"Infinity"': "Infinity", '"-Infinity"': "-Infinity", "0.5": "0.5", "-0.0": "0.0",
    }.items():  # fmt: skip
        of_row = render_of_row(SqlFiles("iceberg"), table, parse_row_key(table, text))
        found = spark.sql(f"SELECT CAST(n AS STRING) FROM VALUES {rows} AS t(n) WHERE {of_row}").collect()
        assert [row[0] for row in found] == [expected]


@pytest.mark.parametrize("name", ["maxwell-json", "canal-json"])
def test_bad_message_of_one_row_is_of_the_key_that_its_row_has(spark: Any, name: str) -> None:
    from tidegate_spark.stage.one_key import ROWLESS_CONDITION, ROWLESS_STRUCT, build_key_pass
    from tidegate_spark.stage.record_pass import add_bad_column

    def write(*rows: dict[str, Any], kind: str = "update") -> bytes:
        data: Any = list(rows) if name == "canal-json" else rows[0]
        return json.dumps({"type": kind.upper() if name == "canal-json" else kind, "data": data}).encode()

    columns = (Column("Id", "BIGINT"), Column("part", "STRING"), Column("n", "INT"))
    table = decoding.build_stage_table(ValueFormat(name, columns), columns, columns[:2])
    key = KeyFormat(fields=("Id", "part"), from_value=True)
    table = replace(table, key=key, set_aside=9, of_key="`key`.`Id` <=> 7L AND `key`.`part` <=> 'a'")
    mine = {"Id": 7, "part": "a", "n": "x"}
    # of one's own key; of another; with a key that cannot be read, or lacks a field; two rows, of which one is not seen
    values = [
        write(mine), write({**mine, "part": "b"}), write({**mine, "Id": "y"}), write({"Id": 7, "n": "x"}),
        write(mine, kind="delete"), write({**mine, "n": 1}),
    ]  # fmt: skip
    values += [write({**mine, "Id": 8}, mine)] if name == "canal-json" else []
    records = spark.createDataFrame(
        [(None, value, "t", 0, n, None) for n, value in enumerate(values)],
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, headers ARRAY<STRUCT<key: STRING, "
        "value: BINARY>>",
    ).selectExpr("*", "current_timestamp() AS timestamp", "0 AS timestampType")
    _, kept = build_key_pass(Ranges({"t": {0: (0, 9)}}), table, records, is_plain=False)
    rows = kept.selectExpr("offset", *add_bad_column(["op"], ROWLESS_CONDITION, ROWLESS_STRUCT))
    found = {row["offset"]: row["bad"] and row["bad"]["stage"] for row in rows.collect()}
    several = {6: "key"} if name == "canal-json" else {}
    assert found == {0: "value", 2: "key", 3: "key", 4: "value", 5: None, **several}


def expect_causes(shape: Shape, table: str, changes: list[Placed]) -> tuple[str, int | None]:
    """The cause and the deciding offset for one key, by its changes in the order of the log."""
    rowless: dict[str, int] = {}
    ended: tuple[str, int | None] | None = None
    highest = -1
    for placed in changes:
        change = placed.change
        is_tombstone = change.kind == "tombstone"
        if is_tombstone and shape.fmt == "maxwell-json":
            continue  # such a message has the key in its row, and this one has none
        deletes = change.kind in ("tombstone", "event", "flagged")
        over = shape.when_false is not None and (change.row["n"] or 0) >= LIMIT and not deletes and change.kind != "bad"
        has_row = not is_tombstone and change.kind != "event"  # the row of a delete decides about no table
        if shape.routed and has_row and not table.endswith(change.row["type"]):
            rowless["filtered"] = placed.offset
        elif change.kind == "bad":
            rowless["bad"] = placed.offset
        elif over and shape.when_false == "ignore":
            rowless["filtered"] = placed.offset
        elif (deletes or over) and (not shape.delete or (is_tombstone and not shape.takes_tombstones)):
            rowless["ignored"] = placed.offset
        elif shape.sequence and change.row["seq"] < highest:
            continue
        else:
            highest = change.row["seq"] if shape.sequence else -1
            is_folded = shape.partial or shape.keeps_first
            ended = ("deleted" if deletes or over else "folded" if is_folded else "record", placed.offset)
    if ended is not None:
        return ended
    if "bad" in rowless:
        return "bad", rowless["bad"]
    return next(iter(rowless.items()), ("never", None)) if len(rowless) < 2 else ("unknown", None)


ROWLESS = ("never", "filtered", "ignored", "bad", "unknown")  # the last one: for several reasons


def choose_explained_shapes(count: int, first: int) -> list[int]:
    """Seeds of shapes that explain compares."""
    shapes = ((seed, Shape.choose(random.Random(seed))) for seed in range(first, first + 100 * count))
    fit = [seed for seed, shape in shapes if shape.is_verifiable and not shape.history]
    return fit[:count]


@pytest.mark.repeats("test_each_key_of_two_tables_is_told_its_cause")
@pytest.mark.parametrize("seed", choose_explained_shapes(int(os.environ.get("WALKS", "1")), first=WALK_SEED))
def test_any_key_of_any_pipeline_is_told_what_the_log_says(workbench: Any, seed: int) -> None:
    chance = random.Random(seed)
    shape = Shape.choose(chance)
    topic = workbench.topic(PARTITIONS)
    workbench.pipeline("walk", [topic], **shape.list_sections(lambda name: f"lake.shop.{name}"))
    by_key: dict[str, list[Placed]] = {}
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for _ in range(2):
        changes = [shape.choose_change(chance) for _ in range(10)]
        workbench.produce(topic, *map(shape.encode, changes))
        for change in changes:
            by_key.setdefault(json.dumps(change.key), []).append(Placed(change, ends[change.partition]))
            ends[change.partition] += 1
        workbench.drain("walk")
    prefix = "k_" if shape.key_place == "prefix" else ""
    never = json.dumps({"id": 77, **({"part": "p"} if "part" in shape.key_fields else {})})
    tables = 0
    for text, changes_of_key in {**by_key, never: []}.items():
        key = {prefix + name: value for name, value in json.loads(text).items()}
        key = {"whole_key": json.loads(text)} if shape.key_place == "into" else key
        done = workbench.run_cli("explain", "walk", json.dumps(key), "--json")
        assert done.returncode == 0, (done.stderr, shape)
        for answer in json.loads(done.stdout)["tables"]:
            # batches without rows are staged behind the position
            reached = {int(partition): end for partition, end in answer["position"][topic].items()}
            flushed = [placed for placed in changes_of_key if placed.offset < reached[placed.change.partition]]
            cause, offset = expect_causes(shape, answer["table"], flushed)
            place = None if offset is None else f"{topic}:{flushed[0].change.partition}:{offset}"
            waiting = [placed for placed in changes_of_key if placed not in flushed]
            assert expect_causes(shape, answer["table"], waiting)[0] in ROWLESS, (waiting, answer, shape)
            assert (answer["cause"], answer["decided_by"]) == (cause, place), (text, answer, shape)
            tables += 1
    assert tables
