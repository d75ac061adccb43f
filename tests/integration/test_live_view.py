"""The live view through real Kafka, Spark and Iceberg: at each moment the table as the next merges will make it."""

import itertools
import json
import random
import re
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from examples import choose_part
from tidegate.errors import RetryLater
from tidegate.flush.clean_up import clean_up
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.batch import StagedBatch
from tidegate.table.session import open_table

Rows = list[dict[str, Any]]
CLOCK = {"interval": "1h"}
KEY = {"fields": ["id", "Part"], "schema": "id BIGINT, Part STRING"}
VALUE = {"schema": "id BIGINT, Part STRING, Name STRING, n INT, lsn INT, Seq INT"}
HELD = "__held"  # to most tables a text like any other
HOLDS = {"value": {**VALUE, "unavailable_value": HELD}}
GROUPS = {"sequence_groups": {"Seq": ["Name"]}}
SOFT = {"deletes": "soft", "deleted_column": "Gone"}  # Spark reads no column _deleted
TABLES: dict[str, dict[str, Any]] = {
    "both": {},
    "kept": {"delete": False},
    "removed": {"upsert": False},
    "appended": {"upsert": False, "delete": False},
    "soft": SOFT,
    "ordered": {"sequence_by": ["lsn"]},
    "ordered_soft": {"sequence_by": ["lsn"], **SOFT},
    "partial": {"partial_updates": True},
    "partial_soft": {"partial_updates": True, **SOFT},
    "updated": {"update_columns": ["Name", "n"]},
    "updated_soft": {"update_columns": ["Name", "n"], **SOFT},
    "held": HOLDS,
    "partial_held": {"partial_updates": True, **HOLDS},
    "grouped_soft": {"partial_updates": GROUPS, **SOFT},
    "grouped": {"partial_updates": GROUPS},
    "updated_held": {"update_columns": ["Name", "n"], **HOLDS},
}


def make_records(seed: int, count: int = 60) -> list[tuple[Any, ...]]:
    """Upserts and deletes of few keys, so that each key has several; NULL is a part of a key too."""
    chance = random.Random(seed)
    records = []
    for n in range(count):
        key = {"id": chance.choice([None, 1, 2, 3, 4]), "Part": chance.choice([None, "a", "A"])}
        value = {**key, "Name": chance.choice([None, HELD, f"n{n}"]), "n": n, "lsn": chance.choice([1, 2, 3, n])}
        value |= {"Seq": chance.choice([None, 1, 2, 3])}
        records.append((key, None if chance.random() < 0.3 else value))
    return records


class View:
    """The live views of a pipeline, by table's full name; `query` runs statements where the tables are."""

    def __init__(self, workbench: Any, name: str, query: Callable[[list[str]], list[Rows]]) -> None:
        self._query = query
        self._texts = {}
        for table in workbench.open_session(name).pipeline.tables:
            told = workbench.run_cli("live-view", name, "--table", table.name)
            assert told.returncode == 0, told.stderr
            self._texts[table.name] = told.stdout

    def read(self) -> dict[str, Rows]:
        found = self._query([*self._texts.values()])
        return {table: sort_rows(rows) for table, rows in zip(self._texts, found, strict=True)}


def sort_rows(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: json.dumps(row, default=repr, sort_keys=True))


class LakeView(View):
    """In Spark."""

    def __init__(self, workbench: Any, name: str) -> None:
        super().__init__(workbench, name, self._run)
        self._workbench = workbench

    def _run(self, texts: list[str]) -> list[Rows]:
        with self._workbench.open_spark() as spark:
            return [[row.asDict() for row in spark.sql(text).collect()] for text in texts]

    def read_tables(self) -> dict[str, Rows]:
        return {table: sort_rows(self._workbench.read_rows(table)) for table in self._texts}

    def list_tables(self) -> list[str]:
        return list(self._texts)

    def render_between(self, table: str, looks: int, earlier: "Moment", later: "Moment") -> str:
        """The query with its first looks at the table in one moment, and all others in a later one."""
        pattern = ".".join(f"`{word}`" for word in table.split(".")) + r"(\.\w+)?"
        in_turn = list(dict.fromkeys(re.findall(pattern, self._texts[table])))
        assert len(in_turn) > looks

        def replace_name(match: re.Match[str]) -> str:
            suffix = match[1] or ""
            return (earlier if in_turn.index(suffix) < looks else later).tables[table] + suffix

        return re.sub(pattern, replace_name, self._texts[table])


class Moment:
    """The tables of a view as they are now, under names of their own."""

    def __init__(self, workbench: Any, view: LakeView, number: int) -> None:
        self.tables = {table: f"{table}_{number}" for table in view.list_tables()}
        for table, copy in self.tables.items():
            original = workbench.load_iceberg(table.partition(".")[2])
            original.catalog.register_table(copy.partition(".")[2], original.metadata_location)


def stage_next(workbench: Any, name: str) -> list[StagedBatch]:
    """The queue with one batch more for each table; nothing is merged."""
    session = workbench.open_session(name)
    return stage(session, plan(session))


def merge_batch(workbench: Any, name: str, queue: list[StagedBatch], number: int) -> None:
    """Publish the batch of that number into each table; its rows stay in the intermediate tables."""
    for batch in (batch for batch in queue if batch.batch == number):
        merge(workbench.open_session(name), batch)


def check_every_point(workbench: Any, topic: str, view: Any, flushed: str) -> None:
    """Each point of two batches, of a pipeline that has merged one; `flushed` is its name."""
    at_rest = view.read_tables()
    assert view.read() == at_rest, "nothing is staged"

    workbench.produce(topic, *make_records(2))
    stage_next(workbench, flushed)
    with_one = view.read()
    workbench.produce(topic, *make_records(3))
    queue = stage_next(workbench, flushed)
    with_two = view.read()
    assert view.read_tables() == at_rest, "no merge has run"
    assert all(with_one[table] != at_rest[table] and with_two[table] != with_one[table] for table in at_rest)

    merge_batch(workbench, flushed, queue, 2)
    assert view.read_tables() == with_one
    assert view.read() == with_two, "one is published and not cleaned up, one waits"
    merge_batch(workbench, flushed, queue, 3)
    assert view.read_tables() == with_two
    assert view.read() == with_two, "both are published, and their rows are still staged"
    clean_up(workbench.open_session(flushed))
    assert view.read() == with_two == view.read_tables()


def test_view_is_the_table_after_the_merge_at_every_point(workbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = workbench.topic()
    tables = [{"name": f"lake.shop.{name}", **options} for name, options in choose_part([*TABLES.items()], 14, 16)]
    workbench.pipeline("live", [topic], stage=CLOCK, key=KEY, value=VALUE, tables=tables)
    workbench.produce(topic, *make_records(1))
    workbench.flush("live")
    view = LakeView(workbench, "live")
    check_every_point(workbench, topic, view, "live")
    monkeypatch.setattr("tidegate.adapters.iceberg.staging.KEPT_MS", 0)
    clean_up(workbench.open_session("live"))
    for table in tables:
        staged = workbench.read_rows(f"{table['name']}_live_tmp")
        assert staged == [], "they are kept for readers, and no longer than that"
    assert view.read() == view.read_tables()


@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_staging.py::test_newest_complete_attempt_at_each_batch_has_a_tag_that_sql_can_read"
)
def test_rows_of_an_attempt_that_died_do_not_count_and_those_of_the_next_do(
    workbench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = workbench.topic()
    workbench.pipeline("died", [topic], stage=CLOCK, key=KEY, value=VALUE, table={"upsert": False, "delete": False})
    workbench.produce(topic, *make_records(1, 10))
    workbench.flush("died")
    view = LakeView(workbench, "died")
    at_rest = view.read()
    workbench.produce(topic, *make_records(2, 10))
    session = workbench.open_session("died")

    def die(*_: Any) -> None:
        raise RetryLater("killed")

    with monkeypatch.context() as patch:
        patch.setattr(session.staging, "complete_attempt", die)
        with pytest.raises(RetryLater, match="killed"):
            stage(session, plan(session))
    assert len(workbench.read_rows("shop.died_died_tmp")) > 0
    assert view.read() == at_rest
    (batch,) = stage_next(workbench, "died")
    staged = view.read()
    workbench.produce(topic, *make_records(3, 10))
    stage_next(workbench, "died")
    workbench.run_spark_sql(f"DELETE FROM lake.shop.died_died_tmp WHERE attempt = '{batch.attempt}' AND op <> 'd'")
    assert view.read() == at_rest, "a batch whose rows are gone hides those that follow it"
    merge(workbench.open_session("died"), batch)
    assert view.read_tables() == staged


@pytest.mark.repeats("test_view_is_the_table_after_the_merge_at_every_point")
def test_rolled_back_table_is_shown_as_it_is_until_the_pipeline_goes_on(workbench: Any) -> None:
    topic = workbench.topic()
    workbench.pipeline("back", [topic], stage=CLOCK, key=KEY, value=VALUE, on_rollback="rewind")
    for seed in (1, 2):
        workbench.produce(topic, *make_records(seed, 10))
        workbench.flush("back")
    view = LakeView(workbench, "back")
    both = view.read()
    workbench.produce(topic, *make_records(3, 10))
    stage_next(workbench, "back")
    table = workbench.load_iceberg("shop.back")
    first = table.metadata.snapshot_by_id(table.current_snapshot().parent_snapshot_id)
    workbench.run_spark_sql(f"CALL lake.system.rollback_to_snapshot('shop.back', {first.snapshot_id})")
    assert view.read() == view.read_tables() != both
    stage_next(workbench, "back")
    assert view.read() == view.read_tables(), "the position is the rolled-back one"
    workbench.drain("back")
    assert view.read() == view.read_tables()
    workbench.produce(topic, *make_records(4, 10))
    (batch,) = stage_next(workbench, "back")
    staged = view.read()
    merge(workbench.open_session("back"), batch)
    assert view.read_tables() == staged


@pytest.mark.repeats(
    "unit/tidegate/merge/test_live_view.py::test_columns_are_the_tables_own_whatever_the_file_adds_or_leaves_out"
)
def test_changed_file_shows_what_is_merged_until_the_view_is_made_anew(workbench: Any) -> None:
    """The table's own columns that the pipeline does not write keep their values, as a merge keeps them."""
    topic = workbench.topic()
    workbench.pipeline("wider", [topic], stage=CLOCK, key=KEY, value=VALUE)
    workbench.produce(topic, *make_records(1, 10))
    workbench.flush("wider")
    workbench.run_spark_sql("ALTER TABLE lake.shop.wider ADD COLUMN note STRING")
    workbench.run_spark_sql("UPDATE lake.shop.wider SET note = 'mine'")
    old = LakeView(workbench, "wider")
    workbench.produce(topic, *make_records(2, 10))
    (batch,) = stage_next(workbench, "wider")
    staged = old.read()
    merge(workbench.open_session("wider"), batch)
    assert old.read_tables() == staged
    clean_up(workbench.open_session("wider"))

    workbench.pipeline("wider", [topic], stage=CLOCK, key=KEY, value={"schema": f"{VALUE['schema']}, more STRING"})
    workbench.produce(topic, ({"id": 9, "Part": "a"}, {"id": 9, "Part": "a", "Name": "x", "more": "y"}))
    (batch,) = stage_next(workbench, "wider")
    assert old.read() == staged, "rows of another shape do not count"
    before = LakeView(workbench, "wider").read()
    merge(workbench.open_session("wider"), batch)
    after = LakeView(workbench, "wider")
    assert after.read() == after.read_tables()
    narrow_rows = [{name: row[name] for name in row if name != "more"} for row in after.read()["lake.shop.wider"]]
    assert narrow_rows == before["lake.shop.wider"]


@pytest.mark.repeats("test_view_is_the_table_after_the_merge_at_every_point")
def test_spark_looks_up_tables_in_the_order_in_which_a_query_defines_them(workbench: Any) -> None:
    """Each view relies on it: the position, the table, then what is staged, and last whether the table has moved."""
    workbench.run_spark_sql("CREATE TABLE lake.shop.growing (n INT) USING iceberg")
    growing, is_read = workbench.load_iceberg("shop.growing"), threading.Event()
    row = pa.table({"n": pa.array([1], pa.int32())})

    def write() -> None:
        while not is_read.is_set():
            growing.append(row)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        looks = [
            tuple(
                workbench.run_spark_sql(
                    "WITH first AS (SELECT count(*) AS n FROM lake.shop.growing.snapshots), "
                    "second AS (SELECT count(*) AS n FROM lake.shop.growing), "
                    "third AS (SELECT count(*) AS n FROM lake.shop.growing.history) "
                    "SELECT first.n, second.n, third.n, (SELECT count(*) FROM lake.shop.growing.files) "
                    "FROM third CROSS JOIN second CROSS JOIN first"
                )[0]
            )
            for _ in range(20)
        ]
    finally:
        is_read.set()
        writer.join()
    assert [look for look in looks if look != tuple(sorted(look))] == []
    assert any(look[0] < look[-1] for look in looks), "no look met a commit"


@pytest.mark.repeats("test_view_is_the_table_after_the_merge_at_every_point")
def test_batch_published_between_two_looks_of_a_query_changes_no_row(workbench: Any) -> None:
    """Spark loads each table of a query at a moment of its own: here each look is at the metadata of its moment."""
    topic = workbench.topic()
    hard_kinds = ("both", "ordered", "partial", "appended", "updated_held", "grouped")
    kinds = (*hard_kinds, "soft", "ordered_soft", "grouped_soft")
    tables = [{"name": f"lake.shop.between_{kind}", **TABLES[kind]} for kind in kinds]
    workbench.pipeline("between", [topic], stage=CLOCK, key=KEY, value=VALUE, tables=tables)
    workbench.produce(topic, *make_records(1))
    workbench.flush("between")
    view = LakeView(workbench, "between")
    moments = [Moment(workbench, view, 0)]
    for seed in (2, 3):
        workbench.produce(topic, *make_records(seed))
        queue = stage_next(workbench, "between")
    staged = view.read()
    for number in (2, 3):
        merge_batch(workbench, "between", queue, number)
        moments.append(Moment(workbench, view, number))
    clean_up(workbench.open_session("between"))
    for earlier, later in itertools.combinations(moments, 2):
        for table, looks in [
            *((table, 3) for table in staged),
            ("lake.shop.between_both", 1),
            ("lake.shop.between_both", 2),
        ]:
            text = view.render_between(table, looks, earlier, later)
            if table.endswith("_appended"):
                with pytest.raises(Exception, match="the table has changed while this query was planned: run it again"):
                    workbench.run_spark_sql(text)
            else:
                assert sort_rows([row.asDict() for row in workbench.run_spark_sql(text)]) == staged[table], looks


@pytest.mark.repeats("test_view_is_the_table_after_the_merge_at_every_point")
def test_readers_see_each_batch_once_it_is_staged_while_it_is_merged_and_cleaned_up(workbench: Any) -> None:
    topic = workbench.topic()
    workbench.pipeline(
        "busy",
        [topic],
        stage=CLOCK,
        key={"fields": ["id"], "schema": "id BIGINT"},
        value={"schema": "id BIGINT, n INT"},
    )
    workbench.produce(topic, *(({"id": id}, {"id": id, "n": 0}) for id in range(20)))
    workbench.flush("busy")
    view = LakeView(workbench, "busy")
    staged, failures = [0], list[Exception]()

    def write() -> None:
        try:
            for n in range(1, 7):
                workbench.produce(topic, *(({"id": id}, {"id": id, "n": n}) for id in range(20)))
                queue = stage_next(workbench, "busy")
                staged.append(n)
                if n % 3 == 0:
                    for batch in queue:
                        merge(workbench.open_session("busy"), batch)
                    clean_up(workbench.open_session("busy"))
        except Exception as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    looks = []
    while writer.is_alive():
        before = staged[-1]
        rows = [(row["id"], row["n"]) for row in view.read()["lake.shop.busy"]]
        looks.append((before, rows, staged[-1]))
    writer.join()
    assert failures == []
    for before, rows, after in looks:
        assert [id for id, _ in sorted(rows)] == list(range(20))
        (n,) = {n for _, n in rows}  # a batch is seen whole
        assert before <= n <= after + 1, "its batch may be complete before the writer knows"
    assert view.read() == view.read_tables()
    assert [row["n"] for row in view.read_tables()["lake.shop.busy"]] == [6] * 20


@pytest.mark.repeats("unit/tidegate/merge/test_live_view.py::test_table_without_a_view_is_refused_in_words")
def test_view_is_refused_in_words_where_no_query_gives_its_rows(workbench: Any) -> None:
    topic = workbench.topic()
    tables = [{"name": "lake.shop.versions", "history": "scd2"}, {"name": "lake.shop.none_yet"}]
    workbench.pipeline("refused", [topic], stage=CLOCK, key=KEY, value=VALUE, tables=tables)
    told = workbench.run_cli("live-view", "refused")
    assert (told.returncode, told.stdout) == (1, "")
    assert (
        "tables=lake.shop.versions, lake.shop.none_yet: a live view is of one table; name it with --table"
        in told.stderr
    )
    told = workbench.run_cli("live-view", "refused", "--table", "lake.shop.versions")
    assert "a live view cannot show history: versions are laid out from remembered changes" in told.stderr
    told = workbench.run_cli("live-view", "refused", "--table", "lake.shop.none_yet")
    assert (
        "nothing was merged into the table yet, so there is nothing to view; run: tidegate flush refused" in told.stderr
    )


def test_view_is_made_in_a_catalog_that_holds_views(workbench: Any) -> None:
    topic = workbench.topic()
    workbench.pipeline("made", [topic], stage=CLOCK, key=KEY, value=VALUE)
    workbench.produce(topic, *make_records(1, 10))
    workbench.flush("made")
    told = workbench.run_cli("live-view", "made", "--create")
    assert (told.returncode, told.stdout) == (0, "lake.shop.made_made_live\n"), told.stderr
    workbench.produce(topic, *make_records(2, 10))
    (batch,) = stage_next(workbench, "made")
    assert workbench.run_cli("live-view", "made", "--create").returncode == 0, "made anew"
    rows = [row.asDict() for row in workbench.run_spark_sql("SELECT * FROM lake.shop.made_made_live")]
    merge(workbench.open_session("made"), batch)
    assert sorted(rows, key=repr) == sorted(workbench.read_rows("shop.made"), key=repr)
    workbench.drain("made")
    assert open_table(workbench.open_session("made"), "lake.shop.made").refresh().state is not None
