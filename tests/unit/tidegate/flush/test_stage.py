"""stage: one read per group of tables, one atomic overwrite, and nothing mergeable from a batch that went wrong."""

from collections.abc import Callable

import pytest
from fakes import BAD, Crash, FailsToMerge, ForgetsToFinish, LosesARecord, World, build_pipeline, build_table
from fakes.faults import _Delegating
from tidegate.errors import (
    BadRecord,
    ConfigurationError,
    GiveUp,
    PositionLost,
    PublishedElsewhere,
    RetryLater,
    TidegateError,
)
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.jobs.stage_job import StageJob
from tidegate.model.batch import Counts
from tidegate.ports.session import Job
from tidegate.reprocess.rebase import propose_rebase
from tidegate.schema.data_types import Column

TWO = (build_table(), build_table("lake.shop.copy", mode="upsert"))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"}, timestamp=100)
    world.broker.produce("orders", {"id": "a"}, None, timestamp=90)
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y"}, partition=1, timestamp=70)
    return world


def run(world: World, *tables, engine=None, **options):
    session = world.open_session(build_pipeline(*tables, **options), engine=engine or world.engine)
    return stage(session, plan(session))


def test_tables_with_the_same_ranges_share_one_read(world: World) -> None:
    run(world, *TWO)
    assert [[t.intermediate for t in job.tables] for job in world.engine.stages] == [
        ["lake.shop.orders_shop_tmp", "lake.shop.copy_shop_tmp"]
    ]


def test_tables_with_ranges_of_their_own_are_read_apart(world: World) -> None:
    world.broker.create("lines")
    world.broker.produce("lines", {"id": "l"}, {"id": "l", "name": "x"})
    staged = run(world, build_table(), build_table("lake.shop.lines", topics=("lines",)))
    assert len(world.engine.stages) == 2
    assert [s.table for s in staged] == ["lake.shop.orders", "lake.shop.lines"]


def test_staged_batch_says_where_its_records_went(world: World) -> None:
    plain_batch, upsert = run(world, *TWO)
    assert plain_batch.counts == Counts(span=3, read=3, staged=2, superseded=1)
    assert upsert.counts == Counts(span=3, read=3, staged=2, ignored=1)


def test_staged_batch_is_pinned_by_its_snapshot(world: World) -> None:
    (staged,) = run(world)
    (later_batches,) = world.destination.list_staged("lake.shop.orders_shop_tmp", "lake.shop.orders")
    world.destination.append_foreign_rows("lake.shop.orders_shop_tmp", {"batch_number": 99})
    assert staged == later_batches
    assert len(world.destination.tables["lake.shop.orders_shop_tmp"].snapshots[staged.snapshot_id].rows) == 2


def test_latest_timestamp_of_each_partition_is_kept(world: World) -> None:
    (staged,) = run(world)
    assert staged.timestamps == {"orders": {0: 100, 1: 70}}


def test_batch_remembers_the_log_it_was_read_from(world: World) -> None:
    (staged,) = run(world)
    assert (staged.cluster_id, staged.topic_ids) == ("cluster-1", {"orders": world.broker.ids["orders"]})


def test_batch_remembers_the_ids_of_its_own_topics_alone(world: World) -> None:
    world.broker.create("lines")
    world.broker.produce("lines", {"id": "l"}, {"id": "l", "name": "x"})
    staged = run(world, build_table(), build_table("lake.shop.lines", topics=("lines",)))
    assert [batch.topic_ids for batch in staged] == [
        {"orders": world.broker.ids["orders"]},
        {"lines": world.broker.ids["lines"]},
    ]


def test_staged_batch_is_resumed_without_reading_kafka_again(world: World) -> None:
    (first,) = run(world)
    (result,) = run(world)
    assert (result, len(world.engine.stages)) == (first, 1)


def test_retry_of_stage_leaves_no_second_copy_of_the_batch(world: World) -> None:
    session = world.open_session(build_pipeline())
    planned = plan(session)
    (first,), (second,) = stage(session, planned), stage(session, planned)
    rows = world.destination.tables["lake.shop.orders_shop_tmp"].read_rows()
    assert first.attempt != second.attempt
    assert [r["attempt"] for r in rows] == [second.attempt] * 2


def test_bad_record_fails_with_where_it_lies_and_can_never_be_merged(world: World) -> None:
    world.broker.produce("orders", {"id": "c"}, BAD, partition=1)
    with pytest.raises(BadRecord, match=r"1 record .* topic=orders partition=1 offset=1 reason=not readable"):
        run(world)
    assert world.destination.list_staged("lake.shop.orders_shop_tmp", "lake.shop.orders") == []


@pytest.mark.guard(
    "counts add up",
    file="plugins/tidegate/model/batch.py",
    text="if self.read == sum(getattr(self, name) for name in FATES) and self.gaps >= 0:",
    off="if True:",
)
def test_counts_that_do_not_add_up_fail_the_step(world: World) -> None:
    with pytest.raises(GiveUp, match="do not add up: span=3 read=3 staged=1 superseded=1"):
        run(world, engine=LosesARecord(world.engine))


def test_counts_that_do_not_add_up_are_never_merged_by_the_next_run(world: World) -> None:
    """A batch that lost a record is complete as far as its counts go: a resume would publish the loss."""
    with pytest.raises(GiveUp, match="do not add up"):
        run(world, engine=LosesARecord(world.engine))
    try:
        staged = run(world)
    except GiveUp:
        return
    assert staged[0].counts == Counts(span=3, read=3, staged=2, superseded=1)


def test_stage_job_that_died_before_its_counts_is_staged_again(world: World) -> None:
    with pytest.raises(RetryLater, match="without a result"):
        run(world, engine=ForgetsToFinish(world.engine))
    (staged,) = run(world)
    assert staged.counts.staged == 2


def test_gaps_of_transactions_are_counted_as_gaps(world: World) -> None:
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "z"})], ending="abort")
    (staged,) = run(world)
    assert (staged.counts.span, staged.counts.read, staged.counts.gaps) == (5, 3, 2)


def test_batch_of_gaps_alone_is_staged_as_empty(world: World) -> None:
    world.broker.create("orders")
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "z"})], ending="abort")
    (staged,) = run(world)
    assert staged.counts == Counts(span=2)


def test_intermediate_table_has_the_keys_without_their_prefix(world: World) -> None:
    run(world, build_table(prefix="k_", columns=(Column("id", "BIGINT"), Column("name", "STRING"))))
    (job,) = world.engine.stages
    assert '"keys": [{"name": "id", "type": "BIGINT"' in job.tables[0].create[1]
    assert job.tables[0].key_columns == (Column("k_id", "BIGINT"),)


def test_table_without_a_key_stages_the_raw_one(world: World) -> None:
    run(world, build_table(mode="append", keys=(), columns=(Column("name", "STRING"),)))
    (job,) = world.engine.stages
    assert '"keys": [{"name": "bytes", "type": "BINARY"' in job.tables[0].create[1]


def test_schema_of_the_destination_is_used_where_the_file_has_none(world: World) -> None:
    world.destination.create("lake.shop.orders", (Column("id", "STRING"), Column("name", "STRING")))
    run(world, build_table(columns=None))
    assert world.engine.stages[0].tables[0].value_columns == (Column("id", "STRING"), Column("name", "STRING"))


def test_no_schema_anywhere_names_the_way_out(world: World) -> None:
    with pytest.raises(ConfigurationError, match=r"table=lake.shop.orders .*(add value.schema|in key.schema)"):
        run(world, build_table(columns=None))


def test_key_without_a_type_names_the_way_out(world: World) -> None:
    with pytest.raises(ConfigurationError, match=r"key.fields=\['sku'\] .* key.schema or value.schema"):
        run(world, build_table(keys=("sku",), columns=(Column("id", "STRING"),)))


def test_job_holds_no_settings_of_the_brokers(world: World) -> None:
    run(world, source={"kafka": {"bootstrap.servers": "b:1", "sasl.password": "geheim"}})
    assert "geheim" not in world.engine.stages[0].to_json()


class _FailsToStage:
    """Spark that fails a stage job, after something else has happened."""

    def __init__(self, world: World, meanwhile: Callable[[], object]) -> None:
        self.world, self.meanwhile = world, meanwhile

    def run(self, job: Job) -> None:
        if isinstance(job, StageJob):
            self.meanwhile()
            raise RetryLater("Spark failed in stage")
        self.world.engine.run(job)


def test_job_that_fails_while_another_run_publishes_its_batch_gives_way(world: World) -> None:
    session = world.open_session(build_pipeline(*TWO))
    with pytest.raises(PublishedElsewhere, match="another run published first"):
        run(world, *TWO, engine=_FailsToStage(world, lambda: flush(session)))
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "z"}, partition=1)
    with pytest.raises(RetryLater, match="Spark failed in stage"):
        run(world, *TWO, engine=_FailsToStage(world, lambda: None))


def test_job_behind_a_queue_that_fails_is_tried_again_though_the_table_stands_before_its_start(world: World) -> None:
    flush(world.open_session(build_pipeline(*TWO)))
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "z"}, partition=1)
    with pytest.raises(TidegateError, match=r"lake\.shop\.copy"):
        flush(world.open_session(build_pipeline(*TWO), engine=FailsToMerge(world.engine, "lake.shop.copy")))
    world.broker.produce("orders", {"id": "d"}, {"id": "d", "name": "z"})
    tables = [batch for batch in plan(world.open_session(build_pipeline(*TWO))).tables if batch.follows]
    assert [batch.table for batch in tables] == ["lake.shop.copy"]
    with pytest.raises(RetryLater, match="Spark failed in stage"):
        run(world, *TWO, engine=_FailsToStage(world, lambda: None))


def test_topic_that_is_created_again_before_the_stage_is_not_taken_for_the_old_one(world: World) -> None:
    session = world.open_session(build_pipeline(build_table(mode="append"), build_table("lake.shop.copy")))
    flush(session)
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "z"})
    planned = plan(session)
    recreate_orders(world)
    for _ in range(2):  # a retry of the step, too
        with pytest.raises(PositionLost, match=r"a topic was created again, or .*topic_ids="):
            stage(session, planned)
    with pytest.raises(PositionLost, match="was deleted and created again"):
        flush(session)
    assert read_names(world, "lake.shop.orders") == ["x", "y"]
    propose_rebase(session, "earliest").perform("ann")
    flush(session)
    assert read_names(world, "lake.shop.orders") == [*["new"] * 6, "x", "y"]
    assert read_names(world, "lake.shop.copy") == [*["new"] * 6, "y"]


def test_topic_that_is_created_again_before_the_first_stage_is_read_from_its_begin(world: World) -> None:
    session = world.open_session(build_pipeline(build_table(mode="append"), build_table("lake.shop.copy")))
    planned = plan(session)
    recreate_orders(world)
    with pytest.raises(PositionLost, match="a topic was created again"):
        stage(session, planned)
    flush(session)
    assert read_names(world, "lake.shop.orders") == read_names(world, "lake.shop.copy") == ["new"] * 6


@pytest.mark.guard(
    "the worker drops no staged rows of a topic that was created again since the plan",
    file="plugins/tidegate/flush/stage_request.py",
    text="            check_same_log(session, prefix, planned.ranges, plan, is_read=False)\n",
    off="            pass\n",
)
def test_rows_of_another_shape_stay_where_the_worker_makes_the_table_and_their_topic_was_created_again(
    world: World,
) -> None:
    """As in BigQuery, before there is a job. Kafka has lost the records; a file that is put back still has the rows."""
    world.destination.find_landing_folder = lambda _, __, attempt: f"folder/{attempt}"
    world.destination.sign_attempt = lambda _, __: None
    before = build_pipeline(build_table(mode="append"))
    wider = (Column("id", "STRING"), Column("name", "STRING"), Column("colour", "STRING"))
    after = build_pipeline(build_table(mode="append", columns=wider))
    flush(world.open_session(before))
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "z"})
    stage(world.open_session(before), plan(world.open_session(before)))
    planned = plan(world.open_session(after))
    recreate_orders(world)
    with pytest.raises(PositionLost, match="a topic was created again"):
        stage(world.open_session(after), planned)
    flush(world.open_session(before))
    assert read_names(world, "lake.shop.orders") == ["x", "y", "z"]


class _RecreatesTopic(_Delegating):
    """Spark that has just begun to read when the topic is made again, with more records than the old one had."""

    def __init__(self, world: World) -> None:
        super().__init__(world.engine)
        self.world, self.met = world, list[Job]()

    def run(self, job: Job) -> None:
        if isinstance(job, StageJob) and not self.met:
            self.met.append(job)
            recreate_orders(self.world)
        self._port.run(job)


@pytest.mark.guard(
    "a staged batch is not of a topic that was created again while it was read",
    file="plugins/tidegate/flush/staged.py",
    text="    check(True)  # also of what it read: nothing of the job counts yet\n",
    off="",
)
@pytest.mark.parametrize("flushed", [True, False], ids=["later", "first"])
def test_topic_that_is_created_again_while_it_is_read_leaves_no_batch_of_its_records(
    world: World, flushed: bool
) -> None:
    pipeline = build_pipeline(build_table(mode="append"), build_table("lake.shop.copy"))
    session, engine = world.open_session(pipeline), _RecreatesTopic(world)
    if flushed:
        flush(session)
        world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "z"})
    with pytest.raises(PositionLost, match="a topic was created again"):
        flush(world.open_session(pipeline, engine=engine))
    assert len(engine.met) == 1
    assert read_staged(world) == []
    if flushed:
        with pytest.raises(PositionLost, match="was deleted and created again"):
            flush(session)
        assert (read_names(world, "lake.shop.orders"), read_names(world, "lake.shop.copy")) == (["x", "y"], ["y"])
        propose_rebase(session, "earliest").perform("ann")
    flush(session)
    before = ["x", "y"] if flushed else []
    assert read_names(world, "lake.shop.orders") == [*["new"] * 6, *before]
    assert read_names(world, "lake.shop.copy") == [*["new"] * 6, *before[1:]]
    assert not list_kept_counts(world)


@pytest.mark.guard(
    "a stage job's attempt does not count before its worker has compared the topics",
    file="plugins/tidegate/flush/stage_request.py",
    text="property=resource_names.name_counted_property(attempt),",
    off="property=resource_names.name_staged_property(attempt),",
)
@pytest.mark.parametrize("flushed", [True, False], ids=["later", "first"])
def test_worker_that_dies_before_it_has_compared_the_ids_leaves_no_batch_either(world: World, flushed: bool) -> None:
    pipeline = build_pipeline(build_table(mode="append"), build_table("lake.shop.copy"))
    if flushed:
        flush(world.open_session(pipeline))
        world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "z"})

    def die_behind_the_job(call: str, moment: str) -> None:
        if (call, moment) == ("engine.run", "after"):
            raise Crash

    with pytest.raises(Crash):
        flush(world.open_session(pipeline, die_behind_the_job, engine=_RecreatesTopic(world)))
    assert read_staged(world) == []
    if flushed:
        with pytest.raises(PositionLost, match="was deleted and created again"):
            flush(world.open_session(pipeline))
        propose_rebase(world.open_session(pipeline), "earliest").perform("ann")
    flush(world.open_session(pipeline))
    before = ["x", "y"] if flushed else []
    assert read_names(world, "lake.shop.orders") == [*["new"] * 6, *before]


def test_rows_of_a_topic_that_is_created_again_behind_the_stage_are_good(world: World) -> None:
    """Kafka has lost them: what waits in the queue is published before the table is refused."""
    pipeline = build_pipeline(build_table(mode="append"))
    flush(world.open_session(pipeline))
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "z"})
    with pytest.raises(RetryLater):
        flush(world.open_session(pipeline, engine=FailsToMerge(world.engine, "lake.shop.orders")))
    recreate_orders(world)
    flush(world.open_session(pipeline))
    assert read_names(world, "lake.shop.orders") == ["x", "y", "z"]
    with pytest.raises(PositionLost, match="was deleted and created again"):
        flush(world.open_session(pipeline))


def test_brokers_that_do_not_answer_behind_the_job_leave_a_batch_that_is_read_again(world: World) -> None:
    calls = list[str]()

    def answer_once(call: str, moment: str) -> None:
        if (call, moment) == ("broker.read_log", "before"):
            calls.append(call)
            if len(calls) == 2:
                raise RetryLater("the brokers do not answer")

    session = world.open_session(build_pipeline())
    planned = plan(session)
    with pytest.raises(RetryLater, match="the brokers do not answer"):
        stage(world.open_session(build_pipeline(), answer_once), planned)
    assert read_staged(world) == []
    (staged,) = stage(session, planned)
    assert (staged.counts.staged, len(world.engine.stages)) == (2, 2)


def read_staged(world: World) -> list[int]:
    """The numbers of all batches that can be merged."""
    names = ("lake.shop.orders", "lake.shop.copy")
    return [batch.batch for name in names for batch in world.destination.list_staged(f"{name}_shop_tmp", name)]


def list_kept_counts(world: World) -> list[str]:
    """Counts of attempts, complete or not, that an intermediate table still has."""
    properties = [name for table in world.destination.tables.values() for name in table.properties]
    return [name for name in properties if name.startswith(("tidegate.counted.", "tidegate.staged."))]


def test_batch_of_a_topic_without_records_asks_nothing_of_that_topic(world: World) -> None:
    world.broker.create("lines", 2)
    session = world.open_session(build_pipeline(build_table(topics=("orders", "lines"))))
    planned = plan(session)
    world.broker.create("lines", 2)
    (staged,) = stage(session, planned)
    assert staged.counts.staged == 2


def recreate_orders(world: World) -> None:
    """Another topic of that name, with more records than the old one had."""
    world.broker.create("orders", 2)
    for key in "defghi":
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "new"}, partition=ord(key) % 2)


def read_names(world: World, table: str) -> list[str]:
    return sorted(row["name"] for row in world.read_rows(table))


def test_table_whose_columns_cannot_be_read_is_refused_with_a_way_out_before_anything_is_read(world: World) -> None:
    world.destination.create("lake.shop.orders", (Column("id", "STRING"), Column("doc", "JSON")))
    with pytest.raises(ConfigurationError, match=r"table=lake\.shop\.orders column=doc: .* type=JSON.*value\.schema"):
        run(world, build_table(columns=None))
    assert world.engine.stages == []
