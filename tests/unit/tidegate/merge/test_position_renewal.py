"""A quiet pipeline's position is published again, so that the snapshots of other writers can expire."""

from dataclasses import replace

import pytest
from fakes import World, build_pipeline
from tidegate.flush.flush import flush
from tidegate.flush.heartbeat import heartbeat
from tidegate.flush.maintain import maintain
from tidegate.spec.pipeline import Heartbeat
from tidegate.spec.runtime import Maintenance

NAME = "lake.shop.orders"
PIPELINE = build_pipeline(maintenance=Maintenance(keep_snapshots=1))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    for key in "abcdef":
        publish_one_more(world, key)
    return world


def publish_one_more(world: World, key: str = "z") -> None:
    world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"})
    flush(world.open_session(PIPELINE))


@pytest.mark.parametrize(("names", "beat"), [(("shop",), 600), (("shop", "other"), 600), (("shop", "other"), 0)])
def test_snapshots_of_another_writer_expire_while_a_pipeline_has_nothing_to_publish(
    world: World, names: tuple[str, ...], beat: int
) -> None:
    """Its tag would keep all of them for as long as its topic is quiet: each commit writes their list again."""
    quiet = replace(PIPELINE, heartbeat=Heartbeat(beat))
    sources = [replace(PIPELINE.source, group=f"tidegate-{name}") for name in names]
    pipelines = [replace(quiet, name=name, source=source) for name, source in zip(names, sources, strict=True)]
    for pipeline in pipelines[1:]:
        flush(world.open_session(pipeline))
    before = [world.destination.read_state(NAME, name).recorded_position for name in names]
    counts = list[int]()
    for _ in range(40):
        for _ in range(20):
            world.destination.append_foreign_rows(NAME)
        world.clock.ms += 86_400_000
        for pipeline in pipelines:
            heartbeat(world.open_session(pipeline))
            maintain(world.open_session(pipeline), NAME)
        counts.append(len(world.destination.tables[NAME].snapshots))
    assert max(counts[20:]) <= max(counts[:20]) < 20 * 7
    states = [world.destination.read_state(NAME, name) for name in names]
    positions = [(state.recorded_position, state.is_rolled_back) for state in states]
    assert positions == [(position, False) for position in before]
    publish_one_more(world)
    assert world.destination.read_state(NAME, "shop").position.offsets["orders"][0] == 7


def test_position_is_published_again_only_where_it_keeps_snapshots_that_are_old(world: World) -> None:
    def beat_after(days: int, foreign_snapshots: int) -> int:
        for _ in range(foreign_snapshots):
            world.destination.append_foreign_rows(NAME)
        world.clock.ms += days * 86_400_000
        tag = world.destination.tables[NAME].refs["tidegate_shop"]
        heartbeat(world.open_session(replace(PIPELINE, maintenance=Maintenance())))
        return world.destination.tables[NAME].refs["tidegate_shop"] - tag

    assert beat_after(days=30, foreign_snapshots=0) == 0, "it is the newest"
    assert beat_after(days=30, foreign_snapshots=5) == 0, "so few are kept anyway"
    publish_one_more(world)
    assert beat_after(days=4, foreign_snapshots=30) == 0, "nothing may expire yet"
    assert beat_after(days=2, foreign_snapshots=0) > 0
    assert beat_after(days=2, foreign_snapshots=0) == 0


def test_table_that_was_rolled_back_keeps_what_a_person_has_to_answer_for(world: World) -> None:
    first = world.destination.tables[NAME].ancestors()[-1]
    world.destination.rollback(NAME, first.id)
    for _ in range(30):
        world.destination.append_foreign_rows(NAME)
    world.clock.ms += 30 * 86_400_000
    tag = world.destination.tables[NAME].refs["tidegate_shop"]
    heartbeat(world.open_session(PIPELINE))
    assert world.destination.tables[NAME].refs["tidegate_shop"] == tag


def test_run_that_publishes_meanwhile_is_faster(world: World) -> None:
    for _ in range(30):
        world.destination.append_foreign_rows(NAME)
    world.clock.ms += 30 * 86_400_000
    has_published = list[bool]()

    def publish_meanwhile(call: str, when: str) -> None:
        if (call, when) == ("commits.publish", "before") and not has_published:
            has_published.append(True)
            publish_one_more(world)

    heartbeat(world.open_session(PIPELINE, publish_meanwhile))
    state = world.destination.read_state(NAME, "shop")
    assert has_published
    assert (state.position.batch, state.position.offsets["orders"][0], state.is_rolled_back) == (7, 7, False)
    assert not [name for name in world.destination.tables[NAME].refs if name.startswith("tidegate_shop_")]
