"""A table whose columns follow its records: made and widened before rows are staged, whatever kills the run."""

import json
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from drifting_topics import list_rows, make_topic, normalize_row
from examples import choose_part
from fakes import BAD, World, build_pipeline, build_table
from fakes.clock import Crash
from tidegate.errors import BadRecord, GiveUp, RetryLater
from tidegate.flush.flush import flush, merge_staged_batches, stage_new_batches
from tidegate.flush.merge_queue import merge_queue
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage, stage_tables
from tidegate.flush.staged import StageCheckpoint, wrap_with_checkpoint
from tidegate.jobs.stage_job import StageJob
from tidegate.model.batch import PlanScope, StagedBatch
from tidegate.model.table_state import SignedAttempt
from tidegate.ports.session import Session
from tidegate.reprocess.backfill import apply_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.schema.data_types import Array, Column, Struct, parse_type
from tidegate.schema.inferred_types import Infer
from tidegate.spec.pipeline import Merge, Stage
from tidegate.spec.source import Errors
from tidegate.spec.table import Create

ORDERS = "lake.shop.orders"
KEYS = (Column("id", "STRING"),)
FIRST = [("a", {"Name": "x", "n": 1}), ("b", {"Name": None, "gone": None}), ("c", {"price": 1.5})]
SECOND = [("a", {"Name": "y", "open": True}), ("d", None)]
ROWS = [
    {"id": "a", "Name": "y", "n": None, "price": None, "open": True},
    {"id": "b", "Name": None, "n": None, "price": None, "open": None},
    {"id": "c", "Name": None, "n": None, "price": 1.5, "open": None},
]


def build_growing(**settings: Any) -> Any:
    known = {"columns": None, "key_columns": KEYS, "unknown_fields": "add", **settings}
    return build_pipeline(build_table(ORDERS, **known))


def produce(world: World, records: list[tuple[str, Any]]) -> None:
    for number, (key, fields) in enumerate(records):
        value = None if fields is None else {"id": key, **fields}
        world.broker.produce("orders", {"id": key}, value, number % 2)


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    return world


def read_rows(world: World) -> list[dict[str, Any]]:
    return [{name: row.get(name) for name in ROWS[0]} for row in world.read_rows(ORDERS)]


def list_columns(world: World) -> list[str]:
    state = world.destination.read_state(ORDERS, "shop")
    return sorted(f"{column.name} {column.type}" for column in state.columns)


COLUMNS = ["Name STRING", "id STRING", "n BIGINT", "open BOOLEAN", "price DOUBLE"]


@pytest.mark.parametrize("cuts", [(5,), (3, 2), (1, 1, 1, 1, 1), (2, 3)])
def test_table_is_made_of_its_records_however_batches_are_cut(world: World, cuts: tuple[int, ...]) -> None:
    records = [*FIRST, *SECOND]
    for size in cuts:
        produce(world, records[:size])
        records = records[size:]
        flush(world.open_session(build_growing()))
    assert list_columns(world) == COLUMNS
    assert [row["id"] for row in read_rows(world)] == ["a", "b", "c"]
    if cuts in ((5,), (3, 2)):
        assert read_rows(world) == ROWS


def test_declared_columns_stay_as_they_are_declared(world: World) -> None:
    pipeline = build_growing(columns=(*KEYS, Column("n", "INT")))
    produce(world, [*FIRST])
    flush(world.open_session(pipeline))
    produce(world, [*SECOND])
    flush(world.open_session(pipeline))
    assert list_columns(world) == [*COLUMNS[:2], "n INT", *COLUMNS[3:]]


def test_key_has_the_types_of_a_table_that_is_there(world: World) -> None:
    """Two batches without `key.schema`, the first with a new column; and two queued ones."""
    produce(world, [("a", {"Name": "old"}), ("b", {"Name": "gone"})])
    flush(world.open_session(build_growing()))
    session = world.open_session(build_growing(key_columns=None))
    for records in ([("a", {"Name": "x", "n": 1}), ("b", None)], [("c", {"n": 2})]):
        produce(world, records)
        flush(session)
    queueing = world.open_session(replace(build_growing(key_columns=None), stage=Stage(10)))
    for records in ([("d", {"n": 3})], [("a", {"Name": "y"})]):
        produce(world, records)
        stage_new(queueing)
    merge_staged_batches(queueing)
    rows = [("a", "y", None), ("c", None, 2), ("d", None, 3)]
    assert [(row["id"], row["Name"], row["n"]) for row in read_rows(world)] == rows


def list_calls(world: World) -> list[tuple[str, str]]:
    calls: list[tuple[str, str]] = []
    flush(world.open_session(build_growing(), lambda *call: calls.append(call)))
    return calls


def test_run_that_dies_anywhere_leaves_a_table_that_the_next_run_completes() -> None:
    """At each call of a port, before and after it took effect."""
    untouched = World()
    untouched.broker.create("orders", 2)
    produce(untouched, [*FIRST, *SECOND])
    calls = list_calls(untouched)
    assert len(calls) > 40
    for number in range(len(calls)):
        world = World()
        world.broker.create("orders", 2)
        produce(world, [*FIRST, *SECOND])
        passed: list[Any] = []

        def stop(*call: str, passed: list[Any] = passed, number: int = number) -> None:
            passed.append(call)
            if len(passed) > number:
                raise Crash

        with pytest.raises(Crash):
            flush(world.open_session(build_growing(), stop))
        for _ in range(2):
            flush_if_due(world)
        assert (list_columns(world), world.read_rows(ORDERS)) == (COLUMNS, untouched.read_rows(ORDERS)), calls[number]


def flush_if_due(world: World) -> None:
    from tidegate.errors import NothingToDo

    try:
        flush(world.open_session(build_growing()))
    except NothingToDo:
        return


@pytest.mark.guard(
    "new columns wait for the rows of earlier batches",
    file="plugins/tidegate/flush/stage.py",
    text="if has_waiting_rows(session, planned_batch):",
    off="if False:",
    case="1",
)
@pytest.mark.parametrize("at_once", [1, 2])
def test_columns_wait_until_rows_of_earlier_batches_are_published(world: World, at_once: int) -> None:
    """A new intermediate table would take those rows away. A batch without new fields joins the queue."""
    session = world.open_session(replace(build_growing(), stage=Stage(10)))
    produce(world, FIRST[:1])
    stage_new(session)
    produce(world, [("b", {"Name": None, "n": None}), ("c", {"n": 2})])
    stage_new(session)
    produce(world, [("c", {"price": 1.5}), *SECOND])
    for _ in range(2):
        assert stage_new(session) == ()
        waiting = stage_tables(session, plan(session, scope=PlanScope.STAGED)).batches
        assert [batch.counts.staged for batch in waiting] == [1, 2]
        assert {batch.added for batch in waiting} == {(Column("Name", "STRING"), Column("n", "BIGINT"))}
    assert ORDERS not in world.destination.tables
    for start in range(0, 2, at_once):
        assert merge_queue(session, waiting[start : start + at_once]).failure is None
    assert list_columns(world) == COLUMNS[:3]
    assert [batch.batch for batch in stage_new(session)] == [3]
    flush(session)
    assert (list_columns(world), read_rows(world)) == (COLUMNS, ROWS)


def stage_new(session: Session) -> tuple[StagedBatch, ...]:
    return tuple(stage_tables(session, plan(session, scope=PlanScope.NEW)).batches)


def test_topic_of_made_up_names_adds_nothing(world: World) -> None:
    produce(world, [("a", {f"n{number}": number for number in range(4)})])
    with pytest.raises(GiveUp, match=r"new_fields=4, more than value\.infer\.max_new_columns=3, in n0, n1, n2, n3"):
        flush(world.open_session(build_growing(infer=Infer(max_new_columns=3))))
    assert ORDERS not in world.destination.tables


def test_field_that_the_table_does_not_show_is_not_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a server that takes a new field inside of a column and forgets it."""
    produce(world, [("a", {"at": {"Lines": [{"n": 1}]}})])
    flush(world.open_session(build_growing()))
    produce(world, [("b", {"at": {"Lines": [{"n": 1, "q": 2}]}})])
    with monkeypatch.context() as patch:
        patch.setattr(world.destination, "evolve", lambda *_, **__: ["added at.Lines.element.q BIGINT"])
        with pytest.raises(RetryLater, match=r"column=at\.Lines\.q: the table does not show the column"):
            flush(world.open_session(build_growing()))
    flush(world.open_session(build_growing()))
    found = {row["id"]: row["at"] for row in world.read_rows(ORDERS)}
    assert found == {"a": {"Lines": [{"n": 1}]}, "b": {"Lines": [{"n": 1, "q": 2}]}}


def test_table_that_may_not_be_made_is_not_made(world: World) -> None:
    produce(world, FIRST)
    with pytest.raises(GiveUp, match=r"create\.enabled=false"):
        flush(world.open_session(build_growing(create=Create(enabled=False))))
    assert ORDERS not in world.destination.tables


def read_drifted(world: World) -> tuple[list[dict[str, Any]], dict[str, str]]:
    state = world.destination.read_state(ORDERS, "shop")
    rows = [normalize_row(row) for row in world.read_rows(ORDERS)]
    return sorted(rows, key=lambda row: row["id"]), {c.name.casefold(): c.type for c in state.columns}


@pytest.mark.guard(
    "superseded records make columns too",
    file="plugins/tidegate/flush/key_deduplication.py",
    text="and not table.value.adds_columns",
    off="and True",
    case="0",
)
@pytest.mark.parametrize("seed", choose_part(range(40), 0, 10))
def test_tables_are_equal_however_a_topic_is_cut(seed: int) -> None:
    """In ten ways, of which the first are all at once and each record alone."""
    records = make_topic(seed)
    source = random.Random(seed)
    cuts = [[], list(range(1, len(records))), *(sorted(source.sample(range(1, len(records)), 3)) for _ in range(8))]
    tables = []
    for cut in cuts:
        world = World()
        world.broker.create("orders", 2)
        for start, end in zip([0, *cut], [*cut, len(records)], strict=True):
            for key, row in records[start:end]:
                world.broker.produce("orders", {"id": key}, row, key % 2)
            flush(world.open_session(build_growing(key_columns=(Column("id", "BIGINT"),))))
        tables.append(read_drifted(world))
    assert tables[0][0] == list_rows(records)
    for cut, (rows, columns) in zip(cuts, tables, strict=True):
        assert rows == tables[0][0], cut
        assert sort_parts(columns) == sort_parts(tables[0][1]), cut


def sort_parts(columns: dict[str, str]) -> dict[str, Any]:
    """Types whose structs have their fields in any order."""
    return {name: sort_fields(parse_type(kind)) for name, kind in columns.items()}


def sort_fields(data_type: Any) -> Any:
    match data_type:
        case Struct(fields):
            return {name: sort_fields(inner) for name, inner in fields}
        case Array(element):
            return [sort_fields(element)]
    return data_type.name


def test_value_of_another_kind_is_text_in_one_batch_and_bad_in_a_later_one(world: World) -> None:
    """A column keeps the type that its first batch has given it."""
    produce(world, [("a", {"x": 1, "n": 1}), ("b", {"x": "one", "n": 1.5})])
    flush(world.open_session(build_growing()))
    assert list_columns(world) == ["id STRING", "n DOUBLE", "x STRING"]
    assert [(row["x"], row["n"]) for row in world.read_rows(ORDERS)] == [("1", 1), ("one", 1.5)]
    produce(world, [("a", {"n": "two"})])
    with pytest.raises(BadRecord, match=r"keeps its type: `n` DOUBLE; .* write `n` STRING into value\.schema"):
        flush(world.open_session(build_growing()))


def test_message_of_a_bad_record_names_only_columns_that_do_not_hold_it(world: World) -> None:
    """However the columns are named: these stand as words in the reason."""
    produce(world, [("a", {"value": 1, "n": 1, "fit": 1})])
    flush(world.open_session(build_growing()))
    produce(world, [("a", {"value": 2, "n": "two"})])
    with pytest.raises(BadRecord, match=r"keeps its type: `n` BIGINT; .* write `n` STRING into"):
        flush(world.open_session(build_growing()))


def test_backfill_adds_what_its_records_hold(world: World) -> None:
    produce(world, FIRST)
    flush(world.open_session(build_growing(unknown_fields="warn", columns=KEYS)))
    assert list_columns(world) == ["id STRING"]
    session = world.open_session(build_growing())
    request = parse_request('{"orders": {"0": [0, 2], "1": [0, 1]}}', None, None)
    apply_backfill(session, propose_backfill(session, request).backfill, lambda _: None)
    assert list_columns(world) == [*COLUMNS[:3], COLUMNS[4]]
    assert [row["Name"] for row in world.read_rows(ORDERS)] == ["x", None, None]


def test_replay_adds_what_its_records_hold(world: World) -> None:
    tolerant = build_growing(errors=Errors("all", 10))
    produce(world, FIRST[:1])
    world.broker.produce("orders", {"id": "z"}, BAD, 1)
    flush(world.open_session(tolerant))
    world.engine.fixed_values[0] = {"id": "z", "open": True}
    (result,) = replay_dead_letters(world.open_session(tolerant))
    assert (result.replayed, list_columns(world)) == (1, [*COLUMNS[:4]])
    assert world.read_rows(ORDERS)[-1]["open"] is True


def test_replay_stages_its_letters_again_for_a_column_that_a_flush_adds_meanwhile(world: World) -> None:
    """The second merge read a field that the letters, which were staged before, did not have."""
    tolerant = build_growing(errors=Errors("all", 10))
    produce(world, FIRST[:1])
    world.broker.produce("orders", {"id": "z"}, BAD, 1)
    flush(world.open_session(tolerant))
    world.engine.fixed_values[0] = {"id": "z", "Name": "fixed"}
    flushes = list[str]()

    def flush_meanwhile(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before") and not flushes:
            flushes.append(call)
            produce(world, [("c", {"price": 1.5})])
            flush(world.open_session(tolerant))

    (result,) = replay_dead_letters(world.open_session(tolerant, flush_meanwhile))
    assert (result.replayed, result.inserted) == (1, 1)
    staged = [job.tables[0] for job in world.engine.stages if job.letters is not None]
    assert [[column.name for column in table.value_columns] for table in staged] == [
        ["Name", "n"],
        ["Name", "n", "price"],
    ]
    rows = {row["id"]: (row["Name"], row.get("price")) for row in world.read_rows(ORDERS)}
    assert rows == {"a": ("x", None), "c": (None, 1.5), "z": ("fixed", None)}


def test_column_that_is_declared_later_is_staged_again(world: World) -> None:
    """The way out that the message of a bad record names, before the first merge."""
    produce(world, [("a", {"N": 1, "x": "q"})])
    stage_new(world.open_session(replace(build_growing(), stage=Stage(10))))
    produce(world, [("b", {"N": "two"})])
    declared = world.open_session(replace(build_growing(columns=(Column("n", "STRING"),)), stage=Stage(10)))
    stage_new(declared)
    flush(declared)
    assert list_columns(world) == ["id STRING", "n STRING", "x STRING"]
    assert [(row["id"], row["n"], row["x"]) for row in world.read_rows(ORDERS)] == [("a", "1", "q"), ("b", "two", None)]


def test_backfill_and_replay_stage_once_more_and_not_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a server takes new columns and forgets them."""
    tolerant = build_growing(errors=Errors("all", 10))
    produce(world, FIRST)
    world.broker.produce("orders", {"id": "z"}, BAD, 1)
    flush(world.open_session(build_growing(unknown_fields="warn", columns=KEYS, errors=Errors("all", 10))))
    world.engine.fixed_values[1] = {"id": "z", "open": True}
    monkeypatch.setattr(world.destination, "evolve", lambda *_, **__: ["added open BOOLEAN"])
    session = world.open_session(tolerant)
    request = parse_request('{"orders": {"0": [0, 2], "1": [0, 1]}}', None, None)
    backfill = propose_backfill(session, request).backfill
    for run in (lambda: apply_backfill(session, backfill, lambda _: None), lambda: replay_dead_letters(session)):
        before = len(world.engine.stages)
        with pytest.raises(RetryLater, match="columns were changed meanwhile; it is staged again"):
            run()
        assert [job.batch for job in world.engine.stages[before:]].count(1) == 2


def test_plan_that_was_carried_out_before_takes_no_later_rows_away(world: World) -> None:
    """It does not know the columns that its batch made; alone, the batch is staged anew."""
    session = world.open_session(replace(build_growing(), stage=Stage(10)))
    produce(world, [("a", {"n": 1})])
    flush(session)
    produce(world, [("b", {"n": 2, "M": "x"})])
    early_plan = plan(session, scope=PlanScope.NEW)
    stage_tables(session, early_plan)
    assert [batch.batch for batch in stage_tables(session, early_plan).batches] == [2]
    produce(world, [("c", {"n": 3})])
    stage_new(session)
    assert stage_tables(session, early_plan).batches == []
    flush(session)
    assert {row["id"]: row.get("M") for row in world.read_rows(ORDERS)} == {"a": None, "b": "x", "c": None}


def test_batch_that_waits_for_a_merge_calls_for_it(world: World) -> None:
    """However few rows are ahead of it, and once for each time that it is asked for."""
    clocks = {"stage": Stage(10), "merge": Merge(interval_seconds=-1, records_threshold=100)}
    session = world.open_session(replace(build_growing(), **clocks))
    produce(world, [("a", {"n": 1})])
    assert not stage_new_batches(session).calls_merge
    produce(world, [("b", {"M": "x"}), ("c", {}), ("d", {})])
    session = replace(session, pipeline=replace(session.pipeline, merge=replace(clocks["merge"], max_records=2)))
    for _ in range(2):
        result = stage_new_batches(session)
        assert (result.batches, result.calls_merge, result.offsets_left) == ((), True, 0), "no other run at once"
    merge_staged_batches(session)
    result = stage_new_batches(session)
    assert ([batch.counts.staged for batch in result.batches], result.calls_merge) == ([2], False)
    assert result.offsets_left == 1


class Away(BaseException):
    """The caller went to wait elsewhere."""


def keep_files(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As BigQuery's staging does: counts and requests lie in folders, and no new table takes them away."""
    outcomes, signed = dict[str, Any](), list[SignedAttempt]()
    read = world.destination.read_job_result

    def read_kept(intermediate: str, batch: int, attempt: str, parse: Any) -> Any:
        outcomes[attempt] = outcomes.get(attempt) or read(intermediate, batch, attempt, parse)
        return outcomes[attempt]

    monkeypatch.setattr(world.destination, "find_landing_folder", lambda _, __, attempt: f"folder/{attempt}")
    monkeypatch.setattr(world.destination, "read_job_result", read_kept)
    monkeypatch.setattr(world.destination, "sign_attempt", lambda _, attempt: signed.append(attempt))
    monkeypatch.setattr(world.destination, "list_signed_attempts", lambda _: list(signed))


@pytest.mark.parametrize("has_files", [True, False])
@pytest.mark.parametrize("leaves_at", ["load", "second job"])
def test_stage_that_comes_back_goes_on_with_the_columns_that_it_found(
    world: World, monkeypatch: pytest.MonkeyPatch, leaves_at: str, has_files: bool
) -> None:
    """It went to wait for the second job, or for the load of its files; and came back too early, once."""
    if has_files:
        keep_files(world, monkeypatch)
    produce(world, [*FIRST, *SECOND])
    memory = StageCheckpoint()
    planned = plan(world.open_session(build_growing()))

    def leave(call: str, moment: str) -> None:
        if (call, moment, leaves_at) == ("staging.complete_attempt", "before", "load"):
            raise Away

    def run(job: Any) -> None:
        if isinstance(job, StageJob) and len(memory.jobs) == 1 and leaves_at == "second job":
            raise Away
        world.engine.run(job)

    for _ in range(2):
        memory = StageCheckpoint.from_dict(json.loads(json.dumps(memory.to_dict())))
        session = world.open_session(build_growing(), leave, engine=SimpleNamespace(run=run))
        with pytest.raises(Away):
            stage(wrap_with_checkpoint(session, memory), planned)
    batches = stage(wrap_with_checkpoint(world.open_session(build_growing()), memory), planned)
    assert [job.tables[0].attempt for job in world.engine.stages] == ["attempt1", "attempt2"] == memory.attempts
    assert merge_queue(world.open_session(build_growing()), batches).failure is None
    assert (list_columns(world), read_rows(world)) == (COLUMNS, ROWS)


@pytest.mark.parametrize("clock", [Stage(), Stage(10)])
def test_rows_without_a_column_wait_in_the_log_for_records_that_make_one(world: World, clock: Stage) -> None:
    """Of a table without a key; staged, they would wait for a table, and what makes one for them."""
    table = build_table(ORDERS, mode="append", keys=(), columns=None, unknown_fields="add")
    pipeline = replace(build_pipeline(table), stage=clock)
    world.broker.produce("orders", None, {"A": None}, 0)
    world.broker.produce("orders", None, {"gone": {}}, 1)
    for _ in range(2):
        with pytest.raises(GiveUp, match="no record has a field with a value, so there is no column to make the table"):
            flush(world.open_session(pipeline))
    world.broker.produce("orders", None, {"A": 1, "b": "x"}, 0)
    flush(world.open_session(pipeline))
    assert [(row["A"], row["b"]) for row in world.read_rows(ORDERS)] == [(1, "x"), (None, None), (None, None)]
