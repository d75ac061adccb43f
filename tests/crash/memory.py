"""Pipelines in memory, in every situation in which a run can begin, and what remains after their runs."""

import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from fakes import Crash, FailsToMerge, World, build_pipeline, build_table
from fakes.queueing import stage_behind
from tidegate.errors import NothingToDo, RetryLater, SomeTables
from tidegate.flush.flush import flush, merge_staged_batches, stage_new_batches
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.offsets import Offsets
from tidegate.model.resource_names import name_memory_table
from tidegate.ports.session import Session
from tidegate.reprocess.approve import list_held_tables, propose_decision
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline, Stage
from tidegate.table.approval import DecisionKind
from tidegate.table.session import expand_template

from crash.points import Journey, Point, build_fault

TABLES = ("lake.shop.orders", "lake.shop.copy")
TOPIC, BEATS, GROUP, AUDIT = "orders", "beats", "tidegate-shop", "id IS NOT NULL"
PARTITIONS = 2  # of both topics; a key has one of its own
COUNTS = ("tidegate.counted.", "tidegate.staged.", "tidegate.audit.")
HEARTBEAT = replace(build_pipeline().heartbeat, ignore_topics=(BEATS,))


def die() -> None:
    """End the process, as far as memory has one."""
    raise Crash


def build_crash_pipeline(mode: str, tables: int, columns: tuple[str, ...] = ("id", "name", "more")) -> Pipeline:
    sequence_options = {"sequence_by": ("name",)} if mode == "sequenced" else {}
    mode = "upsert_delete" if mode == "sequenced" else mode
    table_options = {"columns": tuple(Column(c, "STRING") for c in columns), "audits": (AUDIT,), **sequence_options}
    if mode == "named":
        template = build_table("lake.shop.v{name}", namespaces=("shop",), **table_options)
        pipeline = build_pipeline(template, source={"topics": (TOPIC, BEATS)}, heartbeat=HEARTBEAT)
        return replace(pipeline, tables=(), template=template)
    crash_tables = [build_table(name, mode, **table_options) for name in TABLES[:tables]]
    return build_pipeline(*crash_tables, source={"topics": (TOPIC, BEATS)}, heartbeat=HEARTBEAT)


def produce(world: World, *records: tuple[str, str | None]) -> None:
    for key, name in records:
        value = None if name is None else {"id": key, "name": name, "more": f"{name}!"}
        world.broker.produce(TOPIC, {"id": key}, value, ord(key[0]) % PARTITIONS)
    world.broker.produce(BEATS, None, {"ts": 1})


def arrange_first_batch(world: World, pipeline: Pipeline) -> None:
    """Nothing is there: the tables are created and get their first snapshot."""
    produce(world, ("a", "1"), ("b", "1"), ("a", "2"))


def arrange_later_batch(world: World, pipeline: Pipeline) -> None:
    arrange_first_batch(world, pipeline)
    # nobody had to approve the first batch
    flush(world.open_session(replace(pipeline, tables=tuple(replace(t, approve=None) for t in pipeline.tables))))
    produce(world, ("a", "3"), ("b", None), ("c", "1"))


def arrange_new_column(world: World, pipeline: Pipeline) -> None:
    """The tables lack a column that the pipeline has by now, and the intermediate tables have another shape."""
    arrange_first_batch(world, pipeline)
    narrow = replace(pipeline.tables[0].value, columns=(Column("id", "STRING"), Column("name", "STRING")))
    flush(
        world.open_session(replace(pipeline, tables=tuple(replace(table, value=narrow) for table in pipeline.tables)))
    )
    produce(world, ("a", "3"), ("b", None), ("c", "1"))


def arrange_staged_batch(world: World, pipeline: Pipeline) -> None:
    """A run died after its stage: the batch is resumed."""
    arrange_later_batch(world, pipeline)
    session = world.open_session(pipeline)
    stage(session, plan(session))


def arrange_published_batch(world: World, pipeline: Pipeline) -> None:
    """A run died after its publish: the offsets are not committed and nothing is cleaned up."""
    arrange_later_batch(world, pipeline)
    meet = build_fault("killed", Point("commit_offsets/broker.commit", "before"), die)
    with suppress(Crash):
        flush(Journey(meet).open_session(world.open_session(pipeline)))


def arrange_left_branch(world: World, pipeline: Pipeline) -> None:
    """A run died between the merge and the publish: its branch still exists."""
    arrange_later_batch(world, pipeline)
    meet = build_fault("killed", Point("merge/commits.publish", "before"), die)
    with suppress(Crash):
        flush(Journey(meet).open_session(world.open_session(pipeline)))


def arrange_queue(world: World, pipeline: Pipeline) -> None:
    """Three batches of the last table wait in its queue, because its merges failed, or another run stages ahead."""
    arrange_first_batch(world, pipeline)
    flush(world.open_session(pipeline))
    engine = FailsToMerge(world.engine, pipeline.tables[-1].name)
    for name in ("3", "4", "5"):
        produce(world, ("a", name), ("b", None), ("c", name))
        if not pipeline.has_several:
            stage_behind(world, pipeline)
            continue
        with suppress(RetryLater, SomeTables):
            flush(world.open_session(pipeline, engine=engine))


def arrange_batch_without_rows(world: World, pipeline: Pipeline) -> None:
    """Records that change no row: the position moves all the same."""
    arrange_later_batch(world, pipeline)
    flush(world.open_session(pipeline))
    produce(world, ("never seen", None))


def arrange_staged_ahead(world: World, pipeline: Pipeline) -> None:
    """Two batches of each table were staged behind the published ones, and the log has more."""
    arrange_first_batch(world, pipeline)
    flush(world.open_session(pipeline))
    for name in ("3", "4"):
        produce(world, ("a", name), ("b", None), ("c", name))
        stage_new_batches(world.open_session(pipeline))
    produce(world, ("b", "5"), ("c", None), ("d", "5"))


def arrange_changed_file_ahead(world: World, pipeline: Pipeline) -> None:
    """What was staged ahead has the columns of a former pipeline file."""
    narrow = replace(pipeline.tables[0].value, columns=(Column("id", "STRING"), Column("name", "STRING")))
    tables = tuple(replace(table, value=narrow) for table in pipeline.tables)
    arrange_staged_ahead(world, replace(pipeline, tables=tables))


def arrange_rollback_ahead(world: World, pipeline: Pipeline) -> None:
    """Each table was rolled back by a batch behind which two others were staged."""
    arrange_later_batch(world, pipeline)
    heads = {table.name: world.destination.tables[table.name].refs["main"] for table in pipeline.tables}
    flush(world.open_session(pipeline))
    for name in ("4", "5"):
        produce(world, ("a", name), ("c", None), ("d", name))
        stage_new_batches(world.open_session(pipeline))
    for table, head in heads.items():
        world.destination.rollback(table, head)


def arrange_held_batch(world: World, pipeline: Pipeline) -> None:
    """A batch waits for an approval, and more records have come."""
    arrange_later_batch(world, pipeline)
    rest(world, pipeline)
    produce(world, ("b", "2"), ("d", "1"))


def arrange_approved_batch(world: World, pipeline: Pipeline) -> None:
    """A batch was approved, and no run has published it yet."""
    arrange_held_batch(world, pipeline)
    propose_decision(world.open_session(pipeline), DecisionKind.APPROVE).perform("ann")


def set_two_clocks(pipeline: Pipeline) -> Pipeline:
    """The pipeline, staged on a clock of its own."""
    return replace(pipeline, stage=Stage(10))


Run = Callable[[Session], object]


def run_both_clocks(session: Session) -> None:
    """A run of staging, and one of merging behind it; NothingToDo where neither had work."""
    reasons = list[NothingToDo]()
    for run in (stage_new_batches, merge_staged_batches):
        try:
            run(session)
        except NothingToDo as reason:
            reasons.append(reason)
    if len(reasons) == 2:
        raise reasons[-1]


Situation = Callable[[World, Pipeline], None]
SITUATIONS: list[Situation] = [
    arrange_first_batch,
    arrange_later_batch,
    arrange_new_column,
    arrange_staged_batch,
    arrange_published_batch,
    arrange_left_branch,
    arrange_queue,
    arrange_batch_without_rows,
]
# Those that say nothing of a table's name, for a pipeline whose tables records name.
NAMED: list[Situation] = [
    arrange_first_batch,
    arrange_later_batch,
    arrange_staged_batch,
    arrange_published_batch,
    arrange_left_branch,
    arrange_batch_without_rows,
]


SHAPES = [
    ("upsert_delete", 1), ("upsert_delete", 2), ("append", 1), ("append", 2), ("delete", 1), ("sequenced", 1),
]  # fmt: skip


_last: list[tuple[Situation, Pipeline, bytes]] = []


def build_world(situation: Situation, pipeline: Pipeline) -> World:
    """The world of a situation. Walks ask for the same one a hundred times: it is made once, and each gets a copy.

    A pickled world is copied in a fifth of the time of a deep copy.
    """
    if not _last or _last[0][:2] != (situation, pipeline):
        _last[:] = [(situation, pipeline, pickle.dumps(_make(situation, pipeline)))]
    world: World = pickle.loads(_last[0][2])
    return world


def accept_row(row: object) -> bool:
    """The audit's condition, which every row meets."""
    return True


def _make(situation: Situation, pipeline: Pipeline) -> World:
    world = World()
    world.engine.conditions[AUDIT] = accept_row
    world.broker.create(TOPIC, PARTITIONS)
    world.broker.create(BEATS, PARTITIONS)
    situation(world, pipeline)
    return world


def drain(world: World, pipeline: Pipeline, run: Run = flush) -> None:
    for _ in range(6):
        world.clock.tick(600_000)  # a heartbeat is always due: a batch without rows advances the position too
        try:
            run(world.open_session(pipeline))
        except NothingToDo:
            return
        except RetryLater:
            continue
    raise AssertionError("the pipeline never came to rest")


def rest(world: World, pipeline: Pipeline, run: Run = flush) -> None:
    """Run until nothing is left to do but what waits for an approval."""
    for _ in range(6):
        world.clock.tick(600_000)
        with suppress(RetryLater):
            try:
                run(world.open_session(pipeline))
            except NothingToDo:
                check_held_branches(world, pipeline)
                return


def check_held_branches(world: World, pipeline: Pipeline) -> None:
    """What a person is to decide about can be read."""
    with suppress(NothingToDo):
        for held in list_held_tables(world.open_session(pipeline)):
            assert held.hold.branch in world.destination.tables[held.table.name].refs


def approve_until_current(world: World, pipeline: Pipeline, run: Run = flush) -> None:
    """Approve whatever waits, and run, until nothing does."""
    for _ in range(6):
        rest(world, pipeline, run)
        try:
            propose_decision(world.open_session(pipeline), DecisionKind.APPROVE).perform("ann")
        except NothingToDo:
            return
    raise AssertionError("batches are held without an end")


def read_outcome(world: World, pipeline: Pipeline) -> tuple[list[list[dict]], list[Offsets], Offsets]:
    """Rows and position of each table, also of tables that records name, and the group's offsets."""
    tables = expand_template(world.open_session(pipeline)).pipeline.tables
    states = [world.destination.read_state(table.name, "shop") for table in tables]
    positions = [state.position.offsets for state in states if state and state.position]
    return [world.read_rows(table.name) for table in tables], positions, world.broker.groups[GROUP]


def list_leftovers(world: World, pipeline: Pipeline) -> list[str]:
    """Branches, and staged rows, snapshots and counts."""
    leftovers = []
    for table in expand_template(world.open_session(pipeline)).pipeline.tables:
        for name in (table.name, name_memory_table(table)):
            refs = world.destination.tables[name].refs if name in world.destination.tables else ()
            leftovers += [f"{name} {ref}" for ref in refs if ref not in ("main", "tidegate_shop")]
        if table.discovers_names:
            continue  # it has no intermediate table
        staged = world.destination.tables[f"{table.name}_shop_tmp"]
        leftovers += [str(row) for row in staged.read_rows()] + [
            name for name in staged.properties if name.startswith(COUNTS)
        ]
        leftovers += [str(snapshot.summary) for snapshot in list(staged.snapshots.values())[:-1]]
    return leftovers


def list_passed_points(situation: Situation, pipeline: Pipeline, run: Run = flush) -> list[Point]:
    """The points of one uninterrupted flush, or of another run."""
    world = build_world(situation, pipeline)
    with Journey().inside() as journey, suppress(NothingToDo):
        run(journey.open_session(world.open_session(pipeline)))
    return journey.passed
