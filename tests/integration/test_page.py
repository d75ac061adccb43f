"""What the operator's page reads of a real cluster: one look for all, the age of what waits, and who is not there."""

from typing import TYPE_CHECKING, Any

import pytest
from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.shared_broker import SharedBroker
from tidegate.errors import GiveUp, PositionLost
from tidegate.monitoring.details import read_batch_history
from tidegate.monitoring.overview import read_recent

if TYPE_CHECKING:
    from conftest import Workbench

pytestmark = pytest.mark.real
COMMITTED = "read_committed"


@pytest.fixture
def brokers(workbench: "Workbench") -> tuple[SharedBroker, KafkaBroker]:
    settings = {"bootstrap.servers": workbench.stack.kafka_bootstrap}
    return SharedBroker(settings), KafkaBroker(settings)


@pytest.mark.repeats(
    "unit/tidegate/adapters/kafka/test_shared_broker.py::test_logs_that_were_read_together_are_not_asked_for_again"
)
def test_shared_reading_says_of_every_topic_what_the_brokers_say(
    workbench: "Workbench", brokers: tuple[Any, Any]
) -> None:
    shared, broker = brokers
    left, right = workbench.topic(3), workbench.topic(1)
    workbench.produce(left, *[(n, n) for n in range(30)])
    for topics in ((left,), (right,), (left, right)):
        assert shared.read_log(topics, COMMITTED) == broker.read_log(topics, COMMITTED)
    workbench.produce(right, ("a", "b"))
    assert shared.read_log((right,), COMMITTED).end == {right: {0: 0}}, "it stands until it is read anew"
    shared.forget()
    assert shared.read_log((right,), COMMITTED).end == {right: {0: 1}}


def test_ages_of_all_that_waits_come_in_one_pass_also_of_several_offsets_of_a_partition(
    workbench: "Workbench", brokers: tuple[Any, Any]
) -> None:
    shared, broker = brokers
    topic = workbench.topic(2)
    for partition in (0, 1):
        rows = [(n, "x" * 500, {"partition": partition, "timestamp": 1_000_000 + n}) for n in range(200)]
        workbench.produce(topic, *rows)
    places = [(topic, partition, offset) for partition in (0, 1) for offset in (0, 77, 199)]
    shared.learn([*places, (topic, 0, 200)])
    assert shared.read_timestamps(places) == {place: 1_000_000 + place[2] for place in places}
    assert shared.read_timestamps([(topic, 0, 200)]) == {}, "there is no record yet"
    assert broker.read_timestamps(places) == shared.read_timestamps(places)
    # an onlooker changes nothing
    with pytest.raises(GiveUp, match="commits nothing"):
        shared.commit("group", {})
    with pytest.raises(GiveUp, match="sends nothing"):
        shared.send("topic", [])


@pytest.mark.repeats(
    "unit/tidegate/adapters/kafka/test_shared_broker.py::test_topic_that_cannot_be_read_is_its_own_pipeline_s_failure"
)
def test_topic_that_does_not_exist_is_told_of_by_name_and_hides_no_other(
    workbench: "Workbench", brokers: tuple[Any, Any]
) -> None:
    shared, _ = brokers
    topic = workbench.topic(1)
    with pytest.raises(PositionLost, match="topic=nowhere does not exist"):
        shared.read_log((topic, "nowhere"), COMMITTED)
    assert shared.read_log((topic,), COMMITTED).end == {topic: {0: 0}}


def list_sizes(workbench: "Workbench", table: str) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in workbench.list_data_files(table)}


@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_data_files.py::test_bytes_are_counted_where_the_summary_does_not_tell_them"
)
def test_bytes_written_are_the_sizes_of_the_files_that_a_batch_added_delete_files_too(workbench: "Workbench") -> None:
    left, right = workbench.topic(2), workbench.topic(2)
    tables = [{"name": "lake.shop.left", "topics": [left]}, {"name": "lake.shop.right", "topics": [right]}]
    row = {"key": {"fields": ["id"], "schema": "id BIGINT"}, "value": {"schema": "id BIGINT, name STRING"}}
    workbench.pipeline("sized", [left, right], tables=tables, **row)
    for topic in (left, right):
        rows = [({"id": n}, {"id": n, "name": f"{n} " * 40}, {"partition": n % 2}) for n in range(40)]
        workbench.produce(topic, *rows)
    written: list[tuple[str, int]] = []
    known_sizes: dict[str, int] = {}

    def flush() -> None:
        workbench.flush("sized")
        for name in ("left", "right"):
            sizes = list_sizes(workbench, f"shop.{name}")
            added = sum(size for path, size in sizes.items() if path not in known_sizes)
            known_sizes.update(sizes)
            if added:
                written.append((f"lake.shop.{name}", added))

    flush()
    workbench.produce(left, ({"id": 1}, {"id": 1, "name": "new"}, {"partition": 1}), ({"id": 2}, None))
    flush()
    assert [path for path in known_sizes if "delete" in path], "a merge that leaves delete files was wanted"
    session = workbench.open_session("sized")
    sizes = [(b["table"], b["bytes_written"]) for b in read_batch_history(session, 9)["batches"] if b["staged"]]
    assert sorted(sizes) == sorted(written)
    assert read_recent(session)["last_flush"]["bytes_written"] == written[-1][1]
