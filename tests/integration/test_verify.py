"""verify on real Kafka, Spark and Iceberg: planted faults are named, and nothing that the log cannot tell is."""

import itertools
import json
from typing import Any

import pytest
from conftest import wait_until
from examples import choose_part
from tidegate.errors import RetryLater
from tidegate.reprocess.repair import repair_table
from tidegate.reprocess.verify import verify_table

KEY = {"fields": ["Id", "part"], "schema": "Id BIGINT, part STRING"}
VALUE = {
    "schema": "Id BIGINT, part STRING, Amount DECIMAL(12,2), note STRING, At TIMESTAMP, n INT, tags MAP<STRING, INT>, "
    "raw BINARY, lsn BIGINT"
}
SOFT = {"deletes": "soft", "deleted_column": "Gone"}  # Spark reads no column _deleted
TABLES: dict[str, dict[str, Any]] = {
    "both": {},
    "kept": {"delete": False},
    "soft": SOFT,
    "ordered": {"sequence_by": ["lsn"]},
    "ordered_soft": {"sequence_by": ["lsn"], **SOFT},
    "partial": {"partial_updates": True},
    "chosen": {"when": "n % 2 = 0"},
    "selected": {
        "select": "SELECT Id, part, CAST(upper(note) AS STRING) AS loud, CAST(n + 1 AS INT) AS next, Amount FROM record"
    },
}
FAULTS = {
    "a value": (3, "different", "note"),
    "NULL for a value": (4, "different", "Amount"),
    "a decimal's scale": (5, "different", "Amount"),
    "a time's zone": (6, "different", "At"),
    "an entry of a map": (7, "different", "tags"),
    "a missing row": (8, "missing", None),
    "a row of nobody": (999, "surplus", None),
    "a row twice": (9, "surplus", None),
    "NULL in a key": (10, "different", "n"),
}
PLANT_FAULTS = (
    "UPDATE {0} SET note = if(Id = 3, 'wrong', note), At = if(Id = 6, At + INTERVAL 1 HOUR, At), "
    "Amount = CASE Id WHEN 4 THEN NULL WHEN 5 THEN Amount * 10 ELSE Amount END, tags = if(Id = 7, map('x', 9), tags), "
    "n = if(Id = 10, -1, n) WHERE Id BETWEEN 3 AND 7 AND part = 'a' OR Id = 10 AND part IS NULL",
    "DELETE FROM {0} WHERE Id = 8 AND part = 'a'",
    "INSERT INTO {0} SELECT * FROM {0} WHERE Id = 9 AND part = 'a'",
    "INSERT INTO {0} (Id, part, n) VALUES (999, 'a', 1)",
)


def make_record(number: int, part: str | None = "a", **values: Any) -> tuple[Any, Any]:
    key = {"Id": number, "part": part}
    value = {
        **key, "Amount": f"{number}.50", "note": f"note {number}", "At": "2026-01-02T03:04:05.123456Z", "n": number * 2,
        "tags": {"b": 1, "a": number}, "raw": "AAEC", "lsn": number,
    }  # fmt: skip
    return key, {**value, **values}


def make_records(numbers: range, **values: Any) -> list[tuple[Any, Any]]:
    return [make_record(number, part, **values) for number in numbers for part in ("a", None)]


def verify(workbench: Any, name: str, *words: str) -> list[dict[str, Any]]:
    done = workbench.run_cli("verify", name, "--json", *words)
    assert done.stdout, done.stderr
    tables: list[dict[str, Any]] = json.loads(done.stdout)["tables"]
    assert done.returncode == int(any(table[kind] for table in tables for kind in ("missing", "surplus", "different")))
    return tables


def count(table: dict[str, Any]) -> dict[str, int]:
    return {kind: table[kind] for kind in ("equal", "missing", "surplus", "different", "unknowable") if table[kind]}


def test_each_planted_fault_is_named_and_nothing_else(workbench: Any) -> None:
    topic = workbench.topic()
    workbench.pipeline("planted", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, *make_records(range(20)))
    workbench.flush("planted")
    right_rows = sorted(map(str, workbench.read_rows("shop.planted")))
    assert len(right_rows) == 40
    workbench.run_spark_sql(*(statement.format("lake.shop.planted") for statement in PLANT_FAULTS))
    (table,) = verify(workbench, "planted")
    assert count(table) == {"equal": 32, "missing": 1, "surplus": 2, "different": 6}
    found = {(json.loads(entry["key"]).get("Id"), entry["kind"], entry["column"]) for entry in table["differences"]}
    assert found == set(FAULTS.values())
    by_column = {entry["column"]: entry for entry in table["differences"]}
    assert (by_column["note"]["table"], by_column["note"]["log"]) == ("wrong", "note 3")
    # a key that stands twice is a person's to correct; then the repair writes the other eight, and nothing else
    refused = workbench.run_cli("verify", "planted", "--repair", "--yes")
    assert (refused.returncode, "keys=1 have several rows" in refused.stderr) == (1, True), refused.stderr
    workbench.run_spark_sql("DELETE FROM lake.shop.planted WHERE Id = 9 AND part = 'a'")
    before = workbench.load_iceberg("shop.planted").metadata.current_snapshot_id
    shown = workbench.run_cli("verify", "planted", "--repair")
    assert (shown.returncode, "2 rows would be inserted, 6 changed and 1 deleted" in shown.stdout) == (1, True)
    assert 'different {"Id":3,"part":"a"} note: table=wrong log=note 3' in shown.stdout
    assert workbench.load_iceberg("shop.planted").metadata.current_snapshot_id == before
    repaired = workbench.run_cli("verify", "planted", "--repair", "--yes")
    assert (repaired.returncode, "they were written" in repaired.stdout) == (0, True), repaired.stderr
    assert sorted(map(str, workbench.read_rows("shop.planted"))) == right_rows


@pytest.mark.repeats("test_each_planted_fault_is_named_and_nothing_else")
def test_part_of_the_keys_is_looked_at_and_there_is_nothing_to_repair(workbench: Any) -> None:
    topic = workbench.topic()
    workbench.pipeline("part", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, *make_records(range(20)))
    workbench.flush("part")
    sampled = workbench.run_cli("verify", "part", "--json", "--sample", "50%")
    assert 5 < count(json.loads(sampled.stdout)["tables"][0])["equal"] < 36
    repaired = workbench.run_cli("verify", "part", "--repair", "--yes", "--json")
    assert repaired.returncode == 0, "nothing to repair"
    assert count(json.loads(repaired.stdout)["tables"][0]) == {"equal": 40}


def make_version(number: int, day: int, part: str | None = "a") -> tuple[Any, Any]:
    return make_record(number, part, At=f"2026-01-{day:02}T03:04:05.123456Z", note=f"day {day}")


WRONG_VERSIONS = {
    (
        1,
        "different",
        "Till",
    ): "UPDATE {0} SET Till = Till + INTERVAL 1 MICROSECOND WHERE {1} Id = 1 AND Till IS NOT NULL",
    (2, "missing", None): "DELETE FROM {0} WHERE {1} Id = 2 AND Till IS NULL",
    (3, "different", "note"): "UPDATE {0} SET note = 'wrong' WHERE {1} Id = 3 AND note = 'day 7'",
    (4, "surplus", None): "INSERT INTO {0} (Id, part, Since, Till, Now) "
    "SELECT Id, part, Since + INTERVAL 1 HOUR, Till, Now FROM {0} WHERE {1} Id = 4 AND Till IS NULL",
    (8, "different", "Till"): "UPDATE {0} SET Till = NULL WHERE {1} Id = 8 AND note = 'day 9'",
}


@pytest.mark.repeats("test_each_planted_fault_is_named_and_nothing_else")
def test_wrong_version_is_named_after_later_batches_too(workbench: Any) -> None:
    """Key 3 has a late change: once changes are forgotten, nobody knows whether they were when it came."""
    topic = workbench.topic()
    columns = {"valid_from": "Since", "valid_to": "Till", "is_current": "Now"}
    table = {"history": "scd2", "sequence_by": ["At"], "history_columns": columns}
    workbench.pipeline("versions", [topic], key=KEY, value=VALUE, table=table)
    for batch in (
        [make_version(number, 5, part) for number in range(10) for part in ("a", None)],
        [*[make_version(number, 9) for number in range(10)], make_version(3, 7)],
        [(make_record(number)[0], None) for number in range(7, 10)],
    ):
        workbench.produce(topic, *batch)
        workbench.flush("versions")
    rows = len(workbench.read_rows("shop.versions"))
    assert rows == 31
    places = ("lake.shop.versions", "part = 'a' AND")
    workbench.run_spark_sql(*(statement.format(*places) for statement in WRONG_VERSIONS.values()))
    (table,) = verify(workbench, "versions")
    assert count(table) == {"equal": rows - 4, "missing": 1, "surplus": 1, "different": 3}
    entries = table["differences"]
    assert {(json.loads(e["key"])["Id"], e["kind"], e["column"]) for e in entries} == set(WRONG_VERSIONS)
    (missing,) = [e["key"] for e in entries if e["kind"] == "missing"]
    assert missing == '{"Id":2,"part":"a","Since":"2026-01-09T03:04:05.123456Z"}'
    workbench.produce(topic, *[make_version(number, 20) for number in (1, 5, 30)])
    workbench.flush("versions")
    workbench.run_spark_sql("DELETE FROM lake.shop.versions_changes WHERE note = 'day 9'")
    (table,) = verify(workbench, "versions")
    assert count(table) == {"equal": rows - 1, "missing": 1, "surplus": 1, "different": 2, "unknowable": 1}
    told = {(json.loads(e["key"])["Id"], e["kind"], e["column"]) for e in table["differences"]}
    assert told == {fault for fault in WRONG_VERSIONS if fault[0] != 3}


@pytest.mark.repeats("test_table_of_every_mode_equals_the_log_and_none_is_called_wrong")
def test_stale_partial_update_is_named(workbench: Any) -> None:
    topic = workbench.topic()
    workbench.pipeline("stale", [topic], key=KEY, value=VALUE, table={"partial_updates": True})
    workbench.produce(topic, *make_records(range(5)))
    workbench.drain("stale")
    update = {"Id": 2, "part": "a", "note": "newer"}
    workbench.produce(topic, (make_record(2)[0], update))
    workbench.drain("stale")
    assert count(verify(workbench, "stale")[0]) == {"equal": 10}
    workbench.run_spark_sql("UPDATE lake.shop.stale SET note = 'note 2' WHERE Id = 2 AND part = 'a'")
    (table,) = verify(workbench, "stale")
    assert count(table) == {"equal": 9, "different": 1}
    (entry,) = table["differences"]
    assert (entry["column"], entry["table"], entry["log"]) == ("note", "note 2", "newer")


@pytest.mark.repeats("test_each_planted_fault_is_named_and_nothing_else")
def test_repair_asks_the_audits_and_goes_around_no_other_writer(workbench: Any) -> None:
    topic = workbench.topic()
    audits = ["n < 1000", "SELECT count(*) < 11 FROM {table}"]
    workbench.pipeline("audited", [topic], key=KEY, value=VALUE, table={"audits": audits})
    workbench.produce(topic, *make_records(range(5)))
    workbench.drain("audited")
    workbench.run_spark_sql("DELETE FROM lake.shop.audited WHERE Id = 2 AND part = 'a'")
    workbench.run_spark_sql("INSERT INTO lake.shop.audited (Id, part, n) VALUES (77, 'not in the log', 1)")
    workbench.pipeline(
        "audited", [topic], key=KEY, value=VALUE, table={"audits": ["SELECT count(*) < 10 FROM {table}"]}
    )
    head = workbench.load_iceberg("shop.audited").metadata.current_snapshot_id
    refused = workbench.run_cli("verify", "audited", "--repair", "--yes")
    assert (refused.returncode, "does not hold" in refused.stderr) == (1, True), refused.stderr
    metadata = workbench.load_iceberg("shop.audited").metadata
    assert (metadata.current_snapshot_id, sorted(metadata.refs)) == (head, ["main", "tidegate_audited"])
    workbench.pipeline("audited", [topic], key=KEY, value=VALUE, table={"audits": audits})
    session = workbench.open_session("audited")
    shown = verify_table(session, "lake.shop.audited")
    workbench.run_spark_sql("UPDATE lake.shop.audited SET note = 'by another' WHERE Id = 3 AND part = 'a'")
    with pytest.raises(RetryLater, match="the table has changed since its differences were shown"):
        repair_table(session, shown, "somebody")
    assert count(verify(workbench, "audited")[0]) == {"equal": 8, "missing": 1, "surplus": 1, "different": 1}
    # a condition is asked of the rows that are written, the missing and the changed one, and of no other
    for condition, code in (("n < 6", 1), ("n < 8", 0)):
        workbench.pipeline("audited", [topic], key=KEY, value=VALUE, table={"audits": [condition]})
        done = workbench.run_cli("verify", "audited", "--repair", "--yes")
        assert done.returncode == code, done.stderr
        assert ("audit=n < 6 does not hold: rows=1; nothing was written" in done.stderr) == (code == 1)
    assert set(workbench.load_iceberg("shop.audited").metadata.refs) == {"main", "tidegate_audited"}


def test_what_the_log_cannot_tell_is_never_called_wrong(workbench: Any) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("limits", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, *make_records(range(10)))
    workbench.flush("limits")
    table = workbench.load_iceberg("shop.limits")
    first = table.metadata.current_snapshot_id
    workbench.produce(topic, *make_records(range(5, 15), note="later"), (make_record(0)[0], None))
    workbench.flush("limits")
    # rolled back, read again, and backfilled
    workbench.load_iceberg("shop.limits").manage_snapshots().set_current_snapshot(first).commit()
    assert workbench.run_cli("answer-rollback", "limits", "--rewind", "--yes").returncode == 0
    assert count(verify(workbench, "limits")[0]) == {"equal": 20}
    workbench.flush("limits")
    assert workbench.run_cli("backfill", "limits", "--range", json.dumps({topic: {"0": [0, 20]}})).returncode == 0
    assert count(verify(workbench, "limits")[0]) == {"equal": 29}
    # retention: rows whose records are gone are unknown, a key with a record is not
    workbench.retain_from(topic, 10)
    workbench.run_spark_sql("DELETE FROM lake.shop.limits WHERE Id IN (1, 12)")
    (told,) = verify(workbench, "limits")
    assert count(told) == {"equal": 18, "missing": 2, "unknowable": 7}, told
    # the position was moved back by hand: nothing is said before the records are passed that the table had seen
    assert workbench.run_cli("rebase", "limits", "--to", json.dumps({topic: {"0": 30}}), "--yes").returncode == 0
    refused = workbench.run_cli("verify", "limits")
    assert (refused.returncode, "moved by hand" in refused.stderr) == (1, True)


@pytest.mark.repeats(
    "unit/tidegate/reprocess/test_verify.py::test_keys_behind_the_position_are_read_where_their_deletes_may_be_remembered"
)
def test_key_is_not_called_wrong_before_the_delete_that_is_remembered_is_read_again(workbench: Any) -> None:
    topic = workbench.topic(1)
    options = {"source": {"errors": {"tolerance": "all"}}, "table": {"sequence_by": ["lsn"]}}
    bad = make_record(4, n=3_000_000_000)
    workbench.pipeline("again", [topic], key=KEY, value=VALUE, **options)
    workbench.produce(topic, make_record(1, lsn=1), bad)
    workbench.drain("again")
    first = workbench.load_iceberg("shop.again").metadata.current_snapshot_id
    deleted = (make_record(2)[0], None)
    workbench.produce(topic, make_record(2, lsn=9), make_record(3, lsn=1), make_record(2, lsn=10), deleted)
    workbench.drain("again")
    workbench.run_spark_sql(f"CALL lake.system.rollback_to_snapshot('shop.again', {first})")
    assert workbench.run_cli("answer-rollback", "again", "--rewind", "--yes").returncode == 0
    workbench.pipeline("again", [topic], key=KEY, value=VALUE, merge={"max_records": 2}, **options)
    workbench.flush("again")
    assert [row["Id"] for row in workbench.read_rows("lake.shop.again")] == [1, 3], "the delete of key 2 is remembered"
    workbench.produce(topic, bad)  # no dead letter yet, and none is asked for behind the position
    assert count(verify(workbench, "again")[0]) == {"equal": 2, "unknowable": 1}
    workbench.drain("again")
    assert count(verify(workbench, "again")[0]) == {"equal": 2}


@pytest.mark.repeats("test_what_the_log_cannot_tell_is_never_called_wrong")
def test_key_of_several_partitions_is_not_called_wrong_once_records_of_one_are_gone(workbench: Any) -> None:
    topic = workbench.topic(2)
    # names of the log's own columns, and a part of a value that JSON does not show
    key = {"fields": ["topic", "number", "offset"], "schema": "topic STRING, number BIGINT, offset STRING"}
    value = {"schema": "topic STRING, number BIGINT, offset STRING, nested STRUCT<At: TIMESTAMP>"}
    workbench.pipeline("spread", [topic], key=key, value=value)
    for year, partition, numbers in ((2025, 1, (1, 2, 3)), (2025, 0, (5,)), (2026, 0, (1, 4)), (2027, 1, (4,))):
        for number in numbers:
            row_key = {"topic": "t", "number": number, "offset": None}
            nested = {"nested": {"At": f"{year}-01-02T03:04:05.123456Z"}}
            workbench.produce(topic, (row_key, {**row_key, **nested}, {"partition": partition}))
        workbench.drain("spread")
    assert count(verify(workbench, "spread")[0]) == {"equal": 5}
    later = "named_struct('At', nested.At + INTERVAL 1 MICROSECOND)"
    workbench.run_spark_sql(f"UPDATE lake.shop.spread SET nested = {later} WHERE number = 2")
    (told,) = verify(workbench, "spread")
    assert count(told) == {"equal": 4, "different": 1}
    assert [(json.loads(entry["key"])["number"], entry["column"]) for entry in told["differences"]] == [(2, "nested")]
    # key 1 has a record in partition 1 yet, and its last one is gone; key 4 shows that keys do not stay in one
    workbench.retain_from(topic, 2)
    assert count(verify(workbench, "spread")[0]) == {"equal": 2, "unknowable": 3}


@pytest.mark.repeats(
    "unit/tidegate/reprocess/test_verify.py::test_delete_may_have_expired_where_the_broker_compacts_and_records_are_gone"
)
def test_row_whose_delete_has_expired_under_other_bytes_of_its_key_is_not_called_missing(workbench: Any) -> None:
    """The row's record stays: brokers compact by bytes. A repair would bring the row back."""
    compaction = {"min.cleanable.dirty.ratio": "0.001", "min.compaction.lag.ms": "0", "delete.retention.ms": "0"}
    topic = workbench.topic(1, **{"cleanup.policy": "compact", "segment.ms": "100", **compaction})
    workbench.pipeline("expired", [topic], key=KEY, value=VALUE)
    stamps = itertools.count(1_700_000_000_000, 60_000)  # each record a segment of its own, but the last

    def produce(record: tuple[Any, Any]) -> None:
        workbench.produce(topic, (*record, {"timestamp": next(stamps)}))

    other_bytes = dict(reversed(make_record(1)[0].items()))
    for record in (make_record(1), make_record(2), make_record(3), (other_bytes, None)):
        produce(record)
    workbench.flush("expired")
    broker, place = workbench.open_session("expired").broker, (topic, 0, 3)
    deleted_at = broker.read_timestamps([place])[place]

    def is_expired() -> bool:
        produce(make_record(4))  # each makes the segment before it one that is compacted
        return broker.read_timestamps([place])[place] > deleted_at

    wait_until(is_expired, "the delete has expired")
    workbench.drain("expired")
    workbench.run_spark_sql("UPDATE lake.shop.expired SET note = 'wrong' WHERE Id = 3")
    assert count(verify(workbench, "expired")[0]) == {"equal": 2, "different": 1, "unknowable": 1}
    assert workbench.run_cli("verify", "expired", "--repair", "--yes").returncode == 0
    assert [row["Id"] for row in workbench.read_rows("lake.shop.expired")] == [2, 3, 4]


@pytest.mark.repeats("unit/tidegate/reprocess/test_verify.py::test_changed_file_is_refused_until_a_merge_has_used_it")
def test_dead_letters_and_a_changed_file_are_never_called_wrong(workbench: Any) -> None:
    topic = workbench.topic(1)
    tolerant = {"errors": {"tolerance": "all"}}
    workbench.pipeline("letters", [topic], key=KEY, value=VALUE, source=tolerant)
    good = make_records(range(5))
    workbench.produce(topic, *good, (make_record(2)[0], {**make_record(2)[1], "n": 3_000_000_000}))
    workbench.drain("letters")
    assert count(verify(workbench, "letters")[0]) == {"equal": 10}, "it was bad, and is"
    wider = {"schema": VALUE["schema"].replace("n INT", "n BIGINT")}
    workbench.pipeline("letters", [topic], key=KEY, value=wider, source=tolerant)
    refused = workbench.run_cli("verify", "letters")
    assert (refused.returncode, "has changed since the last merge" in refused.stderr) == (1, True)
    workbench.produce(topic, make_record(7))
    workbench.drain("letters")
    (told,) = verify(workbench, "letters")
    assert count(told) == {"equal": 1, "unknowable": 10}, "rows of records that were read otherwise"
    assert workbench.run_cli("dead-letters", "letters", "--replay").returncode == 0
    assert set(count(verify(workbench, "letters")[0])) == {"equal", "unknowable"}


@pytest.mark.repeats(
    "unit/scenarios/test_dead_letters_of_old_topics.py::test_letter_of_the_old_topic_explains_no_unreadable_record_of_the_new_one"
)
def test_dead_letters_of_a_deleted_topic_tell_nothing_of_the_new_one(workbench: Any) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("again", [topic], key=KEY, value=VALUE, source={"errors": {"tolerance": "all"}})
    bad = [make_record(number, n=3_000_000_000) for number in range(3)]
    workbench.produce(topic, *bad)
    workbench.drain("again")
    letters = "lake.shop.tidegate_again_dead_letters"
    (old,) = {row["topic_id"] for row in workbench.read_rows(letters)}
    workbench.run_spark_sql("DROP TABLE lake.shop.again")
    workbench.recreate(topic)
    workbench.produce(topic, make_record(0), make_record(1), bad[2])
    workbench.drain("again")
    workbench.run_spark_sql("UPDATE lake.shop.again SET note = 'wrong' WHERE Id = 1")
    assert count(verify(workbench, "again")[0]) == {"equal": 1, "different": 1}
    workbench.run_spark_sql(f"DELETE FROM {letters} WHERE topic_id <> '{old}'")
    refused = workbench.run_cli("verify", "again")
    assert (refused.returncode, "no waiting dead letter names them" in refused.stderr) == (1, True)


def test_table_of_every_mode_equals_the_log_and_none_is_called_wrong(workbench: Any) -> None:
    topic = workbench.topic()
    # the random pipelines end with verify, too, in any mode
    names = choose_part([*TABLES], 5, 8)
    tables = [{"name": f"lake.shop.{name}", **TABLES[name]} for name in names]
    workbench.pipeline("modes", [topic], key=KEY, value=VALUE, tables=tables)
    workbench.produce(topic, *make_records(range(20)))
    workbench.flush("modes")
    again = [(*make_record(number)[:1], {"Id": number, "part": "a", "note": None, "lsn": 30}) for number in range(5)]
    workbench.produce(topic, *again, *[(make_record(number)[0], None) for number in range(3, 8)])
    workbench.produce(topic, *[make_record(number, lsn=40, n=number + 1) for number in range(6, 10)])
    workbench.flush("modes")
    right_rows = {table["name"]: sorted(map(str, workbench.read_rows(table["name"]))) for table in tables}
    for table in verify(workbench, "modes"):
        assert count(table) == {"equal": len(right_rows[table["table"]])} != {}, table
    # a foreign writer, and a repair of what it did, where the fold or the columns are other ones than the log's
    for name in (f"lake.shop.{name}" for name in ("ordered_soft", "partial", "selected") if name in names):
        column = "loud" if name.endswith("selected") else "note"
        workbench.run_spark_sql(
            f"UPDATE {name} SET {column} = 'wrong' WHERE Id = 8 AND part = 'a'",
            f"DELETE FROM {name} WHERE Id = 14 AND part IS NULL",
        )
        repaired = workbench.run_cli("verify", "modes", "--table", name, "--repair", "--yes", "--json")
        assert (repaired.returncode, json.loads(repaired.stdout)["done"]) == (0, True), repaired.stderr
        assert [count(table) for table in json.loads(repaired.stdout)["tables"]] == [
            {"equal": len(right_rows[name]) - 2, "missing": 1, "different": 1}
        ]
        assert sorted(map(str, workbench.read_rows(name))) == right_rows[name]
    workbench.produce(topic, make_record(8, lsn=50, note="after the repair"))
    workbench.flush("modes")
    assert [
        row["note"] for row in workbench.read_rows("lake.shop.partial") if (row["Id"], row["part"]) == (8, "a")
    ] == ["after the repair"]


@pytest.mark.repeats("unit/tidegate/reprocess/test_verify.py::test_mode_that_the_log_alone_does_not_give_is_refused")
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"upsert": False, "delete": False}, "tables of mode=append"),
        ({"when": "At < current_timestamp()"}, "conditions or a select with current_timestamp"),
    ],
)
def test_table_that_cannot_be_verified_is_refused_in_a_sentence(workbench: Any, options: Any, reason: str) -> None:
    topic = workbench.topic()
    workbench.pipeline("refused", [topic], key=KEY, value=VALUE, table=options)
    refused = workbench.run_cli("verify", "refused")
    assert (refused.returncode, reason in refused.stderr) == (1, True), refused.stderr
