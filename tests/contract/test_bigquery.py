"""What a destination without branches does beside what all do, on the local BigQuery server."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from bigquery_hands import BigQueryHands, render_labels
from contract_words import FIRST, PIPELINE, SECOND, STAGED, START, TABLE, build_summary, render_outcome
from tidegate.adapters.bigquery import history
from tidegate.adapters.bigquery.history import COLUMN_TYPES
from tidegate.adapters.bigquery.leftovers import find_leftovers
from tidegate.errors import AuditFailed, CommitRefused, GiveUp, RetryLater
from tidegate.failpoints import install_visitor
from tidegate.model import resource_names
from tidegate.model.batch import StagedPart
from tidegate.model.ownership import Ownership, TableKind
from tidegate.model.table_state import StagedSource, TableCommit
from tidegate.schema.data_types import Column

pytestmark = pytest.mark.real


@pytest.fixture
def hands(bigquery: str, tmp_path: Path) -> BigQueryHands:
    warehouse_hands = BigQueryHands(bigquery, tmp_path, TABLE, STAGED)
    warehouse_hands.create()
    warehouse_hands.port.commits.seed(TABLE, PIPELINE, START)
    return warehouse_hands


def merge_rows(hands: BigQueryHands, attempt: str = "m1", **more: Any) -> TableCommit:
    state = hands.port.tables.read_state(TABLE, PIPELINE)
    table_commit = TableCommit(
        TABLE, state.uuid, 0, state.snapshot_id, "", state.snapshot_id + 1, FIRST.to_properties(PIPELINE),
        tag=resource_names.name_tag(PIPELINE), pipeline=PIPELINE, attempt=attempt,
        statements=(hands.insert([{"id": attempt, "n": 1}]),),
    )  # fmt: skip
    return replace(table_commit, **more)


def read_ids(hands: BigQueryHands) -> list[str]:
    return sorted(row["id"] for row in hands.read_rows(TABLE))


@pytest.mark.guard(
    "BigQuery: a publish has a name of its own and runs once",
    file="plugins/tidegate/adapters/bigquery/commit.py",
    text='name_job("publish", table_commit.table, table_commit.uuid, table_commit.attempt)',
    off='name_job("publish", object())',
)
def test_publish_that_is_sent_twice_runs_once(hands: BigQueryHands) -> None:
    table_commit = merge_rows(hands)
    hands.port.commits.publish(table_commit)
    before = hands.port.tables.read_state(TABLE, PIPELINE)
    hands.port.commits.publish(table_commit)
    assert hands.port.tables.read_state(TABLE, PIPELINE) == before
    assert read_ids(hands) == ["m1"]


def test_publish_whose_answer_is_lost_is_found_by_its_name(hands: BigQueryHands) -> None:
    table_commit = merge_rows(hands)

    def lose_answer(point: str) -> None:
        if point == "bigquery.sent":
            raise ConnectionError("the connection was lost")

    with install_visitor(lose_answer), pytest.raises(RetryLater, match="no answer"):
        hands.port.commits.publish(table_commit)
    hands.port.commits.publish(table_commit)
    assert hands.port.tables.read_state(TABLE, PIPELINE).position == FIRST
    assert read_ids(hands) == ["m1"]


class Gone(BaseException):
    """The process was killed, or its task put aside."""


@pytest.mark.repeats(
    "unit/tidegate/adapters/bigquery/test_named_jobs.py::test_whoever_goes_away_while_a_job_runs_finds_it_again_and_sends_no_second"
)
def test_publish_of_a_run_that_went_away_is_not_made_twice_by_the_next(hands: BigQueryHands) -> None:
    """The job is found by its name while it runs. After its end the position has moved."""
    hands.stage(1, "a1", 3, build_summary(1, "a1"), render_outcome(3))
    source = StagedSource(STAGED, (StagedPart(1, "a1"),))
    first, second = merge_rows(hands, "m1", source=source), merge_rows(hands, "m2", source=source)

    def go(point: str) -> None:
        if point == "bigquery.sent":
            raise Gone

    with install_visitor(go), pytest.raises(Gone):
        hands.port.commits.publish(first)
    with suppress(CommitRefused):
        hands.port.commits.publish(second)
    assert hands.port.tables.read_state(TABLE, PIPELINE).position == FIRST
    assert read_ids(hands) == ["m1"]


@pytest.mark.guard(
    "BigQuery: a publish that has moved the position is not sent again",
    file="plugins/tidegate/adapters/bigquery/commit.py",
    text="    if row is not None and table_commit.source is not None and row.version != table_commit.cut:\n",
    off="    if False:\n",
)
def test_publish_that_is_tried_again_when_its_job_has_just_ended_appends_its_rows_once(hands: BigQueryHands) -> None:
    """Its answer was lost. The job commits behind the look that found the position as it was, before the second try."""
    hands.stage(1, "a1", 3, build_summary(1, "a1"), render_outcome(3))
    table_commit = merge_rows(hands, source=StagedSource(STAGED, (StagedPart(1, "a1"),)))
    hands.port.commits.publish(table_commit)
    with suppress(CommitRefused):
        hands.port.commits.publish(table_commit)
    assert hands.port.tables.read_state(TABLE, PIPELINE).position == FIRST
    assert read_ids(hands) == ["m1"]


@pytest.mark.repeats(
    "unit/tidegate_airflow/operators/test_step.py::test_trigger_waits_a_while_before_its_first_look_and_fires_when_the_job_has_ended"
)
def test_trigger_wakes_the_task_when_the_job_it_waits_for_has_ended(
    hands: BigQueryHands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether well or not: the task reads that itself."""
    from tidegate_airflow.triggers import bigquery_job
    from tidegate_airflow.triggers.bigquery_job import JobTrigger

    monkeypatch.setattr(bigquery_job, "FIRST_POLL_SECONDS", 0.0)
    catalog = hands.warehouse._catalog
    for statement, status in (("SELECT 1", "success"), ("SELECT ERROR('no')", "error")):
        job = hands.client.query(statement, job_id_prefix="waited_for_", job_retry=None)
        path, arguments = JobTrigger(asdict(catalog), job.project, job.location, job.job_id).serialize()
        assert json.loads(json.dumps(arguments)) == arguments
        trigger = getattr(import_module(path.rpartition(".")[0]), path.rpartition(".")[2])(**arguments)
        event = asyncio.run(anext(trigger.run()))
        assert event.payload["status"] == status


def test_rows_of_a_publish_that_fails_are_not_in_the_table(hands: BigQueryHands) -> None:
    """By a statement, or by an audit that does not hold."""
    good = merge_rows(hands)
    with pytest.raises(GiveUp):
        hands.port.commits.publish(replace(good, statements=(*good.statements, "SELECT ERROR('no')")))
    assert (read_ids(hands), hands.port.tables.read_state(TABLE, PIPELINE).position) == ([], START)
    audits = {text: f"SELECT COUNTIF(NOT ({text})) FROM {hands.name(TABLE)}" for text in ("n <= 0", "n >= 0")}
    with pytest.raises(AuditFailed, match=r"0: n <= 0.* does not hold; nothing was published"):
        hands.port.commits.publish(replace(good, attempt="m2", audits=((audits["n <= 0"], "n <= 0"),)))
    assert (read_ids(hands), hands.port.tables.read_state(TABLE, PIPELINE).position) == ([], START)
    hands.port.commits.publish(replace(good, attempt="m3", audits=((audits["n >= 0"], "n >= 0"),)))
    assert read_ids(hands) == ["m1"]


# a real flush tells the same counts
@pytest.mark.repeats(
    "integration/test_bigquery.py::test_values_of_every_type_and_null_keys_end_as_the_last_record_says_and_clean_up_leaves_nothing"
)
def test_publish_tells_how_many_rows_it_changed(hands: BigQueryHands) -> None:
    hands.port.commits.publish(merge_rows(hands))
    summary = hands.port.commits.read_head(TABLE, resource_names.name_tag(PIPELINE)).summary
    assert [summary[f"tidegate.{name}"] for name in ("inserted", "updated", "deleted")] == ["1", "0", "0"]
    assert summary["tidegate.attempt"] == "m1"


@pytest.mark.repeats(
    "unit/tidegate/adapters/bigquery/test_query_cost.py::test_a_job_tells_where_it_is_found_and_what_was_billed"
)
def test_publish_tells_its_job_and_no_bytes_where_the_server_counts_none(hands: BigQueryHands) -> None:
    hands.port.commits.publish(merge_rows(hands))
    summary = hands.port.commits.read_head(TABLE, resource_names.name_tag(PIPELINE)).summary
    project, _, place = summary["tidegate.job"].partition(":")
    job = hands.client.get_job(place.partition(".")[2])
    assert (project, job.state) == (hands.warehouse.project, "DONE")
    has_bytes = [f"tidegate.bytes-{name}" in summary for name in ("scanned", "billed")]
    assert has_bytes == [bool(job.total_bytes_billed)] * 2


def test_history_keeps_its_newest_rows(hands: BigQueryHands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at it is billed for every row."""
    monkeypatch.setattr(history, "MAX_ROWS", 3)
    monkeypatch.setattr(history, "KEPT_ROWS", 2)
    control, none = "lake.shop.tidegate_shop_batches", dict.fromkeys(COLUMN_TYPES)
    for number in range(1, 5):
        row = {"batch": number, "published_at_ms": number * 1000, "bytes_billed": 5}
        hands.port.history.append_history(control, {**none, **row})
    assert [
        (row["batch"], row["bytes_scanned"], row["bytes_billed"]) for row in hands.port.history.read_history(control, 9)
    ] == [(4, None, 5), (3, None, 5)]


def test_publish_without_a_position_keeps_the_one_that_stands(hands: BigQueryHands) -> None:
    hands.port.commits.publish(merge_rows(hands))
    mark = resource_names.name_backfill_property(PIPELINE, "1")
    hands.port.commits.publish(merge_rows(hands, "m2", properties={mark: "x"}, tag=None))
    state = hands.port.tables.read_state(TABLE, PIPELINE)
    assert (state.position, state.marks[mark]) == (FIRST, "x")
    hands.port.history.forget_backfill(TABLE, PIPELINE, "1")
    assert hands.port.tables.read_state(TABLE, PIPELINE).marks == FIRST.to_properties(PIPELINE)
    hands.port.history.forget_backfill(TABLE, PIPELINE, "1")


@pytest.mark.guard(
    "BigQuery: staged rows are counted before they are merged",
    file="plugins/tidegate/adapters/bigquery/commit.py",
    text=" = {rows} ",
    off=" >= 0 ",
)
def test_staged_rows_that_went_by_themselves_are_not_published_as_nothing(hands: BigQueryHands) -> None:
    hands.stage(1, "a1", 3, build_summary(1, "a1"), render_outcome(3))
    hands.client.delete_table(f"{hands.warehouse.project}.shop.orders_shop_tmp$1")
    with pytest.raises(RetryLater, match="staged rows are gone"):
        hands.port.commits.publish(merge_rows(hands, source=StagedSource(STAGED, (StagedPart(1, "a1"),))))
    assert hands.port.staging.read_staged_outcome(STAGED, "a1") is None
    assert read_ids(hands) == []


def test_of_several_batches_only_that_is_staged_again_whose_rows_went(hands: BigQueryHands) -> None:
    for number in (1, 2, 3):
        hands.stage(number, f"a{number}", number, build_summary(number, f"a{number}"), render_outcome(number))
    source = StagedSource(STAGED, tuple(StagedPart(number, f"a{number}") for number in (1, 2, 3)))
    hands.client.delete_table(f"{hands.warehouse.project}.shop.orders_shop_tmp$2")
    with pytest.raises(RetryLater, match="staged rows are gone"):
        hands.port.commits.publish(merge_rows(hands, source=source))
    assert [staged.batch for staged in hands.port.staging.list_staged(STAGED, TABLE)] == [1, 3]
    assert read_ids(hands) == []
    hands.stage(2, "b2", 2, build_summary(2, "b2"), render_outcome(2))
    again = replace(source, parts=(source.parts[0], StagedPart(2, "b2"), source.parts[2]))
    hands.port.commits.publish(merge_rows(hands, source=again))
    assert hands.port.tables.read_state(TABLE, PIPELINE).position == FIRST


def test_staged_rows_of_a_table_that_was_made_again_do_not_count(hands: BigQueryHands) -> None:
    hands.stage(1, "a1", 3, build_summary(1, "a1"), render_outcome(3))
    hands.sql(f"DROP TABLE {hands.name(STAGED)}")
    assert hands.port.staging.list_staged(STAGED, TABLE) == []
    hands.stage(2, "a2", 1, build_summary(2, "a2"), render_outcome(1))
    assert [staged.batch for staged in hands.port.staging.list_staged(STAGED, TABLE)] == [2]
    assert hands.port.staging.find_highest_batch(STAGED) == 2


def test_rows_of_two_attempts_at_a_batch_lie_side_by_side(hands: BigQueryHands) -> None:
    hands.stage(1, "a1", 3, build_summary(1, "a1"), None)
    hands.stage(1, "a2", 2, build_summary(1, "a2"), render_outcome(2))
    hands.finish("a1", render_outcome(3))
    hands.port.commits.publish(merge_rows(hands, source=StagedSource(STAGED, (StagedPart(1, "a2"),))))
    assert sorted(row["attempt"] for row in hands.read_rows(STAGED)) == ["a1"] * 3 + ["a2"] * 2
    hands.port.staging.clean_up(STAGED, 1)
    assert (hands.read_rows(STAGED), hands.bytes_on_disk()) == ([], [])


def test_columns_are_added_and_relaxed_once_and_a_change_that_bigquery_cannot_make_changes_nothing(
    hands: BigQueryHands,
) -> None:
    hands.sql(f"CREATE TABLE {hands.name('lake.shop.strict')} (id STRING NOT NULL, s STRUCT<a INT64>)")
    wanted = (Column("id", "STRING"), Column("s", "STRUCT<a: INT>"), Column("more", "DECIMAL(12,2)"))
    changes = hands.port.tables.evolve("lake.shop.strict", wanted, add=True, widen=True, relax=True)
    assert sorted(changes) == ["added more DECIMAL(12,2)", "relaxed id"]
    assert hands.port.tables.evolve("lake.shop.strict", wanted, add=True, widen=True, relax=True) == []
    for column in (Column("more", "STRING"), Column("id", "BIGINT")):
        with pytest.raises(GiveUp):
            hands.port.tables.evolve("lake.shop.strict", (column,), add=True, widen=True, relax=True)
    columns = (*wanted, Column("newer", "INT"))
    with pytest.raises(GiveUp):
        hands.port.tables.evolve("lake.shop.strict", columns, add=False, widen=True, relax=True)
    state = hands.port.tables.read_state("lake.shop.strict", PIPELINE)
    assert [(c.name, c.type, c.nullable) for c in state.columns] == [
        ("id", "STRING", True), ("s", "STRUCT<`a`: BIGINT>", True), ("more", "DECIMAL(12,2)", True),
    ]  # fmt: skip


def test_fields_are_added_inside_of_columns_and_rows_keep_what_they_have(hands: BigQueryHands) -> None:
    table = "lake.shop.deep"
    hands.sql(f"CREATE TABLE {hands.name(table)} (id STRING, s STRUCT<a INT64>, l ARRAY<STRUCT<x INT64>>)")
    hands.sql(f"INSERT INTO {hands.name(table)} VALUES ('1', STRUCT(1), [STRUCT(1), STRUCT(2)]), ('2', NULL, [])")
    wanted = (
        Column("id", "STRING"),
        Column("s", "STRUCT<a: BIGINT, in: STRUCT<b: STRING>, tags: ARRAY<STRING>>"),
        Column("l", "ARRAY<STRUCT<x: BIGINT, y: STRING>>"),
    )
    changes = hands.port.tables.evolve(table, wanted, add=True, widen=True, relax=True)
    assert sorted(changes) == [
        "added l.element.y STRING", "added s.in STRUCT<`b`: STRING>", "added s.tags ARRAY<STRING>",
    ]  # fmt: skip
    assert hands.port.tables.evolve(table, wanted, add=True, widen=True, relax=True) == []
    hands.sql(f"INSERT INTO {hands.name(table)} VALUES ('3', STRUCT(3, STRUCT('b'), ['t']), [STRUCT(4, 'y')])")
    rows = sorted(hands.read_rows(table), key=lambda row: row["id"])
    assert [row["s"] and row["s"]["a"] for row in rows] == [1, None, 3]
    assert [row["l"] for row in rows] == [[{"x": 1, "y": None}, {"x": 2, "y": None}], [], [{"x": 4, "y": "y"}]]
    assert (rows[0]["s"]["in"], rows[2]["s"]["in"], rows[2]["s"]["tags"]) == (None, {"b": "b"}, ["t"])


@pytest.mark.repeats(
    "contract/test_destination.py::test_publish_is_refused_when_another_publish_moved_the_position_or_the_table_was_replaced[bigquery]"
)
def test_position_of_a_table_that_was_replaced_is_begun_anew(hands: BigQueryHands) -> None:
    hands.port.commits.publish(merge_rows(hands))
    hands.replace_table()
    assert hands.port.tables.read_state(TABLE, PIPELINE).snapshot_id is None
    hands.port.commits.seed(TABLE, PIPELINE, SECOND)
    assert hands.port.tables.read_state(TABLE, PIPELINE).position == SECOND


def test_position_that_is_gone_from_beside_a_table_with_rows_is_not_begun_anew(hands: BigQueryHands) -> None:
    """It was dropped, or has expired: reading everything again would append it twice."""
    hands.port.commits.publish(merge_rows(hands))
    positions = resource_names.name_positions_table(TABLE)
    for statement in (f"DELETE FROM {hands.name(positions)} WHERE TRUE", f"DROP TABLE {hands.name(positions)}"):
        hands.sql(statement)
        state = hands.port.tables.read_state(TABLE, PIPELINE)
        assert (state.is_position_lost, state.snapshot_id, state.position) == (True, None, None)
        assert not hands.port.tables.read_state(TABLE, "another").is_position_lost
        hands.port.commits.seed(TABLE, PIPELINE, SECOND)
        assert hands.port.tables.read_state(TABLE, PIPELINE).position == SECOND
        with pytest.raises(CommitRefused, match="has a position already"):
            hands.port.commits.seed(TABLE, PIPELINE, FIRST)


@pytest.mark.repeats(
    "unit/tidegate/adapters/bigquery/test_position.py::test_mark_of_another_table_of_that_name_is_none"
)
def test_table_of_that_name_that_was_made_again_is_nobodys(hands: BigQueryHands) -> None:
    hands.port.commits.publish(merge_rows(hands))
    hands.replace_table()
    hands.sql(hands.insert([{"id": "x", "n": 1}]))
    assert not hands.port.tables.read_state(TABLE, PIPELINE).is_position_lost


def test_tables_that_must_stay_lose_the_day_on_which_they_would_expire(hands: BigQueryHands) -> None:
    """A dataset's default gives one to each table that is made in it, ours too."""
    changes, positions = f"{TABLE}_changes", resource_names.name_positions_table(TABLE)
    create_changes = f"CREATE TABLE IF NOT EXISTS {hands.name(changes)} (n INT64)"
    hands.sql(create_changes)
    for name in (positions, changes):
        table = hands.warehouse.find_table(name)
        table.expires = datetime.now(UTC) + timedelta(days=1)
        hands.warehouse.update_table(table, "expires")
        assert hands.warehouse.find_table(name).expires is not None
    table_commit = merge_rows(hands)
    hands.port.commits.publish(replace(table_commit, statements=(create_changes, *table_commit.statements)))
    assert [hands.warehouse.find_table(name).expires for name in (positions, changes)] == [None, None]
    assert read_ids(hands) == ["m1"]


def test_two_runners_that_publish_at_once_publish_one_batch(hands: BigQueryHands) -> None:
    """The second sends its transaction while the first one's answer is on its way."""
    ours, theirs = merge_rows(hands, "m1"), merge_rows(hands, "m2")
    refused: list[CommitRefused] = []

    def build_visitor(publish: Callable[[], None]) -> Callable[[str], None]:
        points: list[str] = []

        def visit(point: str) -> None:
            if point == "bigquery.sent" and not points:
                points.append(point)
                with pytest.raises(CommitRefused) as error_info:
                    publish()
                refused.append(error_info.value)

        return visit

    def publish_theirs() -> None:
        hands.port.commits.publish(theirs)

    with install_visitor(build_visitor(publish_theirs)):
        try:
            hands.port.commits.publish(ours)
        except CommitRefused as error:
            refused.append(error)
    assert len(refused) == 1
    assert read_ids(hands) in (["m1"], ["m2"])
    assert hands.port.tables.read_state(TABLE, PIPELINE).position == FIRST


@pytest.mark.parametrize("last", [2, 40], ids=["named", "joined"])
def test_statement_about_letters_of_others_keeps_to_its_ranges_however_many_it_names(
    hands: BigQueryHands, last: int
) -> None:
    """Of two topics, one without a known id; letters lie in, before and behind the range of each partition."""
    letters, sql = "lake.shop.tidegate_shop_dead_letters", hands.port.tables._sql
    hands.sql(sql.render("create_dead_letters", table=letters, own=Ownership(TableKind.DEAD_LETTERS, PIPELINE)))
    rows = [
        f"('{topic}', {partition}, {offset}, '{TABLE}', 'other', {batch}, {topic_id})"
        for topic, topic_id in (("orders", "'o-1'"), ("orders", "'o-0'"), ("users", "NULL"))
        for partition in (1, last)
        for offset in (9, 10, 19, 20)
        for batch in (6, 7)
    ]
    columns = "topic, `partition`, `offset`, `table`, attempt, batch, topic_id"
    hands.sql(f"INSERT INTO {hands.name(letters)} ({columns}) VALUES {', '.join(rows)}")
    values = {
        "table": letters,
        "target": TABLE,
        "attempt": "mine",
        "attempts": ["mine"],
        "published": 6,
        "ids": {"orders": "o-1"},
    }
    parts = {topic: [(topic, partition, 10, 20) for partition in range(last + 1)] for topic in ("orders", "users")}
    hands.sql(sql.render("forget_dead_letters", ranges=[*parts["orders"], *parts["users"]], **values))
    hands.sql(sql.render("reread_dead_letters", ranges=parts["orders"], **values))
    remaining_rows = hands.read_rows(letters)
    assert len(rows) - len(remaining_rows) == 8, "two offsets of two partitions of orders o-1 and of users, of batch 7"
    assert not [
        row for row in remaining_rows if row["batch"] == 7 and row["offset"] in (10, 19) and row["topic_id"] != "o-0"
    ]
    marked = {
        (row["partition"], row["offset"], row["batch"], row["topic_id"]) for row in remaining_rows if row["replayed_at"]
    }
    assert marked == {(partition, offset, 6, "o-1") for partition in (1, last) for offset in (10, 19)}


def test_dead_letters_that_wait_are_copied_for_spark_with_their_bytes(hands: BigQueryHands) -> None:
    """Headers that were NULL come back as NULL, and an earlier copy is gone."""
    import pyarrow.parquet as pq

    letters, copy = "lake.shop.tidegate_shop_dead_letters", "lake.shop.orders_shop_backfill_replay_tmp"
    hands.sql(
        hands.port.tables._sql.render(
            "create_dead_letters", table=letters, own=Ownership(TableKind.DEAD_LETTERS, PIPELINE)
        )
    )
    rows = [
        (0, "NULL", "[STRUCT('trace' AS key, b'\\xff' AS value)]", "orders"),
        (1, "NULL", "[]", "orders"),
        (2, "CURRENT_TIMESTAMP()", "[]", "orders"),
        (3, "NULL", "[]", "others"),
    ]
    for offset, replayed, headers, table in rows:
        hands.sql(
            f"INSERT INTO {hands.name(letters)} (topic, `partition`, `offset`, `timestamp`, key, value, headers, "
            f"`table`, replayed_at) VALUES ('orders', 0, {offset}, TIMESTAMP '2026-01-02 03:04:05.678901+00', NULL, "
            f"b'\\x00{{', {headers}, 'lake.shop.{table}', {replayed})"
        )
    for _ in range(2):
        folder = hands.port.dead_letters.copy_dead_letters(letters, TABLE, copy)
        copied_rows = pq.read_table(urlsplit(folder).path).sort_by("offset").to_pylist()
        assert [(row["offset"], row["key"], row["value"], row["headers"]) for row in copied_rows] == [
            (0, None, b"\x00{", [{"key": "trace", "value": b"\xff"}]),
            (1, None, b"\x00{", None),
        ]
    assert copied_rows[0]["timestamp"] == datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    hands.port.staging.drop(copy)
    assert hands.bytes_on_disk() == []


def test_letters_of_one_table_are_no_other_tables_whatever_is_asked(hands: BigQueryHands) -> None:
    """A pipeline has one table of letters for all of its tables: a replay would take the others' too."""
    letters, other, store = "lake.shop.tidegate_shop_dead_letters", "lake.shop.Other", hands.port.dead_letters
    own = Ownership(TableKind.DEAD_LETTERS, PIPELINE)
    hands.sql(hands.port.tables._sql.render("create_dead_letters", table=letters, own=own))
    columns = "topic, `partition`, `offset`, message, written_at, attempt, `table`, replayed_at, replayed_by"
    rows = [
        f"('{topic}', {partition}, {offset}, 'bad', CURRENT_TIMESTAMP(), '{attempt}', '{table}', {replayed})"
        for (table, attempt), topic in (((TABLE, "a1"), "orders"), ((other, "a1"), "Others"))
        for partition in (0, 1)
        for offset, replayed in ((1, "NULL, NULL"), (2, "CURRENT_TIMESTAMP(), 'r1'"), (3, "NULL, NULL"))
    ]
    hands.sql(f"INSERT INTO {hands.name(letters)} ({columns}) VALUES {', '.join(rows)}")
    for table, topic in ((TABLE, "orders"), (other, "Others")):
        waiting = store.list_waiting_letters(letters, table)
        assert sorted((letter.topic, letter.partition, letter.offset) for letter in waiting) == [
            (topic, partition, offset) for partition in (0, 1) for offset in (1, 3)
        ]
        replayed = store.list_replayed_letters(letters, table, {"r1", "r2"})
        assert sorted((letter.topic, letter.partition, letter.offset) for letter in replayed) == [
            (topic, 0, 2),
            (topic, 1, 2),
        ]
        assert {letter.topic for letter in store.read_letters_of_attempt(letters, table, "a1")} == {topic}
    assert store.list_waiting_letters(letters, "lake.shop.other") == []


def test_what_a_pipeline_without_a_file_left_is_named_with_what_removes_it(hands: BigQueryHands) -> None:
    hands.stage(1, "a1", 3, build_summary(1, "a1"), render_outcome(3))
    hands.port.commits.publish(merge_rows(hands))
    marked_tables = {
        "tidegate_shop_batches": Ownership(TableKind.BATCHES, PIPELINE),
        "tidegate_shop_dead_letters": Ownership(TableKind.DEAD_LETTERS, PIPELINE),
        "orders_shop_backfill_0a1b_tmp": Ownership(TableKind.INTERMEDIATE, PIPELINE, "shop.orders"),
        "orders_shopping_tmp": Ownership(TableKind.INTERMEDIATE, "shopping", "shop.orders"),
        "orders_deletes": Ownership(TableKind.DELETES, "", "shop.orders"),
        "tidegate_there_batches": Ownership(TableKind.BATCHES, "there"),
    }
    for name, owner in marked_tables.items():
        hands.sql(f"CREATE TABLE {hands.name(f'.{name}')} (id STRING) OPTIONS (labels = {render_labels(owner)})")
    for name in ("tidegate_theirs_batches", "lines_shop_tmp"):  # somebody else's
        hands.sql(f"CREATE TABLE {hands.name(f'.{name}')} (id STRING)")
    (left,), failures = find_leftovers(hands.warehouse, "lake", {"there"})
    own_tables = ("orders_shop_backfill_0a1b_tmp", "orders_shop_tmp", *list(marked_tables)[:2])
    assert (left.pipeline, left.tables) == (PIPELINE, [f"lake.shop.{name}" for name in own_tables])
    assert (left.destinations, failures) == ([TABLE], [])
    project = hands.warehouse.project
    assert left.remove == [
        *(f"DROP TABLE `{project}`.`shop`.`{name}`" for name in own_tables),
        f"bq update --clear_label tidegate_position_shop {project}:shop.orders",
        f"DELETE FROM `{project}`.`shop`.`orders_tidegate_position` WHERE pipeline = 'shop'",
        "kafka-consumer-groups.sh --delete --group tidegate-shop",
    ]
    for statement in left.remove:
        if not statement.startswith(("bq ", "kafka")):
            hands.sql(statement)
    assert find_leftovers(hands.warehouse, "lake", {"there"}) == ([], [])
    assert read_ids(hands) == ["m1"]
