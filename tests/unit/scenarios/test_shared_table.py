"""Two pipelines write one table: what they share is kept for the slower one, and neither takes what is the other's."""

import pytest
from fakes import World, build_pipeline, build_table
from fakes.broker import MemoryBroker
from fakes.spark import MemoryEngine
from tidegate.errors import NothingToDo
from tidegate.flush.clean_up import CleanUpReport, clean_up
from tidegate.flush.flush import flush
from tidegate.model import resource_names
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import History

NAME, DAY = "lake.shop.orders", 86_400_000
COLUMNS = tuple(Column(name, "INT") for name in ("id", "lsn"))
MEMORIES = {"deletes": {"sequence_by": ("lsn",)}, "changes": {"history": History("a", "b", "c")}}


def build_memory_pipeline(name: str, memory: str) -> Pipeline:
    table = build_table(NAME, columns=COLUMNS, topics=(name,), **MEMORIES[memory])
    return build_pipeline(table, name=name)


class Shop:
    """Pipelines `fast` and `slow`, each with a topic of two partitions of its own."""

    def __init__(self, memory: str) -> None:
        self.world, self.memory = World(), memory
        for name in ("fast", "slow"):
            self.world.broker.create(name, 2)

    def change(self, name: str, key: int, lsn: int | None, at: int) -> None:
        """A row, or a delete where `lsn` is None, in both partitions of a pipeline's topic, and its flush."""
        self.world.clock.ms = max(self.world.clock.ms, at)
        for partition in (0, 1):
            value = None if lsn is None else {"id": key + partition, "lsn": lsn}
            self.world.broker.produce(name, {"id": key + partition}, value, partition, timestamp=at)
        self.flush(name)

    def flush(self, name: str) -> None:
        try:
            flush(self.world.open_session(build_memory_pipeline(name, self.memory)))
        except NothingToDo:
            return

    def clean(self, name: str) -> CleanUpReport:
        (report,) = clean_up(self.world.open_session(build_memory_pipeline(name, self.memory)))
        return report

    @property
    def remembered(self) -> list[int]:
        return sorted({row["timestamp"] for row in self.world.read_rows(f"{NAME}_{self.memory}")})


@pytest.fixture(params=MEMORIES)
def shop(request: pytest.FixtureRequest) -> Shop:
    shop = Shop(request.param)
    shop.change("slow", 10, 1, at=1 * DAY)
    shop.change("slow", 10, None, at=2 * DAY)
    shop.change("fast", 20, 1, at=30 * DAY)
    return shop


@pytest.mark.guard(
    "remembered deletes are kept for the slowest pipeline of the table",
    file="plugins/tidegate/flush/clean_up.py",
    text="min(*known_times, session.now_ms())",
    off="min(max(known_times), session.now_ms())",
    case="deletes",
)
def test_faster_pipeline_forgets_nothing_that_the_slower_one_may_still_need(shop: Shop) -> None:
    before = shop.remembered
    assert 2 * DAY in before
    assert shop.clean("fast").forgotten_deletes == 0
    assert shop.remembered == before
    shop.change("slow", 12, 1, at=29 * DAY)
    shop.clean("fast")
    assert all(at >= 20 * DAY for at in shop.remembered)


def test_late_row_of_the_slower_pipeline_does_not_come_back(shop: Shop) -> None:
    shop.clean("fast")
    shop.change("slow", 10, 0, at=DAY + 1)
    assert [row for row in shop.world.read_rows(NAME) if row["id"] in (10, 11) and row.get("c", True)] == []


def test_pipeline_whose_partition_has_shown_no_record_keeps_all(shop: Shop) -> None:
    shop.change("slow", 12, 1, at=29 * DAY)
    state = shop.world.destination.tables[NAME].properties
    state[resource_names.name_pipeline_property("slow", "timestamps")] = "{}"
    before, report = shop.remembered, shop.clean("fast")
    assert (report.forgotten_deletes, report.unknown_valid_through) == (0, ["slow"])
    assert shop.remembered == before


@pytest.mark.guard(
    "a record from a wrong clock lets no remembered delete be forgotten",
    file="plugins/tidegate/flush/clean_up.py",
    text="min(*known_times, session.now_ms())",
    off="min(known_times)",
    case="deletes",
)
def test_record_from_a_wrong_clock_lets_no_delete_be_forgotten(shop: Shop) -> None:
    """Its time is the greatest of its partition for good."""
    shop.change("slow", 12, 1, at=28 * DAY)
    shop.change("slow", 12, None, at=29 * DAY)
    for name in ("slow", "fast"):
        for partition in (0, 1):
            key = {"id": 30 + partition}
            shop.world.broker.produce(name, key, {**key, "lsn": 1}, partition, timestamp=400 * DAY)
        shop.flush(name)
    shop.clean("fast")
    assert 29 * DAY in shop.remembered
    shop.world.clock.ms = 37 * DAY
    shop.clean("fast")
    assert 29 * DAY not in shop.remembered


@pytest.mark.parametrize("asks", ["fast", "slow"])
def test_nothing_is_forgotten_while_the_table_is_rolled_back(shop: Shop, asks: str) -> None:
    """What the answer to the rollback reads again is older than what was reached."""
    shop.change("slow", 12, 1, at=29 * DAY)
    shop.change("fast", 22, 1, at=31 * DAY)
    table = shop.world.destination.tables[NAME]
    shop.world.destination.rollback(NAME, table.ancestors()[-2].id)
    before, report = shop.remembered, shop.clean(asks)
    assert (report.forgotten_deletes, shop.remembered) == (0, before)
    assert asks in report.unknown_valid_through


def test_tag_of_another_user_is_no_pipeline_to_wait_for(shop: Shop) -> None:
    table = shop.world.destination.tables[NAME]
    table.refs["tidegate_before_the_migration"] = table.refs["main"]
    table.tags.add("tidegate_before_the_migration")
    shop.change("slow", 12, 1, at=29 * DAY)
    assert shop.clean("fast").unknown_valid_through is None


def test_clean_up_leaves_the_tag_of_a_pipeline_whose_name_reads_like_a_batch() -> None:
    world = World()
    world.broker.create("orders")
    for name in ("sales", "sales_1_q1"):
        world.broker.produce("orders", {"id": name}, {"id": name, "name": "x"})
        flush(world.open_session(build_pipeline(name=name)))
    (report,) = clean_up(world.open_session(build_pipeline(name="sales")))
    assert report.branches == 0
    assert world.destination.tables[NAME].refs.keys() == {"main", "tidegate_sales", "tidegate_sales_1_q1"}
    assert world.destination.read_state(NAME, "sales_1_q1").is_rolled_back is False


def test_delete_ends_its_row_though_a_pipeline_of_another_cluster_remembers_one_of_the_same_place() -> None:
    """A delete without a sequence is known again by its topic, partition and offset, which two clusters may share."""
    world = World()
    broker = MemoryBroker(world.clock)
    broker.cluster_id = "other"
    clusters = {
        "east": {"broker": world.broker, "engine": world.engine},
        "west": {"broker": broker, "engine": MemoryEngine(broker, world.destination)},
    }
    options = {"sequence_by": ("lsn",), "history": History()}
    for key, (name, ports) in enumerate(clusters.items()):
        ports["broker"].create("orders", 1)
        ports["broker"].produce("orders", {"id": key}, {"id": key, "lsn": 1})
        ports["broker"].produce("orders", {"id": key}, None)
        pipeline = build_pipeline(build_table(NAME, columns=COLUMNS, **options), name=name)
        flush(world.open_session(pipeline, **ports))
    assert [(row["id"], row["is_current"]) for row in world.read_rows(NAME)] == [(0, False), (1, False)]
