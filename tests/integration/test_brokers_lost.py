"""Three brokers of which one goes: a log that is cut by it, partitions that go with it, and flushes that go on."""

import json
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import shared_servers
from broker_cluster import NUMBERS, BrokerCluster, run_brokers
from confluent_kafka import Producer
from conftest import Workbench, wait_until
from round_trip import Way
from tidegate.errors import NothingToDo, RetryLater, SomeTablesDelayed, SomeTablesFailed
from tidegate.monitoring.status import read_status

from local.kafka.cluster import CONNECTION

pytestmark = pytest.mark.real
KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
APPEND = {"upsert": False, "delete": False}  # shows a record that is read twice or never
ONE_IS_ENOUGH = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
EVERYWHERE = ([1, 2, 3], [2, 3, 1])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    with run_brokers(tmp_path_factory.mktemp("brokers")) as running:
        yield running


@pytest.fixture
def bench(cluster: BrokerCluster, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Workbench:
    cluster.start_missing()
    stack = shared_servers.start_spark(cluster, shared_servers.find_folder(tmp_path_factory), shared_servers.SHARED)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "log_level": 0})
    return Workbench(stack, cluster.open_admin(), producer, tmp_path)


def make_pipeline(bench: Workbench, name: str, *topics: str) -> None:
    tables = [{"name": f"lake.shop.{name}_{n}", "topics": [topic], **APPEND} for n, topic in enumerate(topics)]
    bench.pipeline(name, list(topics), key=KEY, value=VALUE, tables=tables)


def produce(bench: Workbench, topic: str, partition: int, *ids: int) -> None:
    bench.produce(topic, *(({"id": i}, {"id": i, "name": f"name {i}"}, {"partition": partition}) for i in ids))


def read_ids(bench: Workbench, table: str) -> list[int]:
    rows = bench.read_rows(f"shop.{table}")
    assert [row["name"] for row in rows] == [f"name {row['id']}" for row in rows]
    return sorted(row["id"] for row in rows)


def flush_in_time(bench: Workbench, name: str) -> None:
    """Flush, again where a broker went, as a scheduler would."""

    def is_through() -> bool:
        try:
            bench.flush(name)
        except RetryLater:
            return False
        except NothingToDo:
            return True
        return True

    wait_until(is_through, f"a flush of {name}", seconds=300)


# what a leader answers whose log ends before the position; how the log comes to that, and what a flush then does
@pytest.mark.repeats(
    "contract/test_broker.py::test_log_that_ends_before_an_offset_under_the_epoch_of_that_offset_was_cut_there"
)
def test_log_that_a_leader_without_the_newest_records_has_cut_is_told_also_when_it_has_grown_again(
    cluster: BrokerCluster, bench: Workbench
) -> None:
    cut, intact = cluster.topic([1, 2, 3], [1, 2, 3], **ONE_IS_ENOUGH), cluster.topic(*EVERYWHERE, **ONE_IS_ENOUGH)
    make_pipeline(bench, "cut", cut, intact)
    produce(bench, cut, 0, 1, 2)
    produce(bench, cut, 1, 11)
    produce(bench, intact, 1, 21)
    bench.flush("cut")
    cluster.configure("__consumer_offsets", **ONE_IS_ENOUGH)  # made by that flush
    for follower in (3, 2):
        cluster.stop(follower)
    wait_until(lambda: cluster.list_in_sync(cut) == [[1], [1]], "the leader is alone")
    produce(bench, cut, 0, 3, 4, 5)
    flush_in_time(bench, "cut")
    assert read_ids(bench, "cut_0") == [1, 2, 3, 4, 5, 11]

    cluster.kill(1)
    for follower in (2, 3):
        cluster.start(follower)
    wait_until(lambda: {*cluster.list_leaders(cut), *cluster.list_leaders(intact)} <= {2, 3}, "a follower leads")
    assert cluster.read_ends(cut) == [2, 1]
    produce(bench, intact, 0, 22)
    assert read_command(flush_and_be_told(bench, cut)) == {cut: {"0": 2}}
    assert read_ids(bench, "cut_1") == [21, 22]
    produce(bench, cut, 0, 6)
    assert read_command(flush_and_be_told(bench, cut)) == {cut: {"0": 2}}, "not where the log ends by now"
    produce(bench, cut, 0, 7, 8, 9)
    produce(bench, intact, 1, 23)
    assert cluster.read_ends(cut) == [6, 1], "longer than the position again"
    message = flush_and_be_told(bench, cut)
    assert (read_ids(bench, "cut_0"), read_ids(bench, "cut_1")) == ([1, 2, 3, 4, 5, 11], [21, 22, 23])
    (table_status, _) = read_status(bench.open_session("cut"))["tables"]
    assert table_status["problem"] in message

    words = shlex.split(message.splitlines()[1].partition("read these with: tidegate ")[2])
    process = bench.run_cli(*words, "--yes")
    assert process.returncode == 0, process.stderr
    bench.drain("cut")
    assert read_ids(bench, "cut_0") == [1, 2, 3, 4, 5, 6, 7, 8, 9, 11]
    cluster.start(1)
    wait_until(lambda: cluster.list_in_sync(cut) == [[1, 2, 3]] * 2, "all have everything")
    cluster.stop(2)  # whoever leads now has all of it
    produce(bench, cut, 0, 10)
    flush_in_time(bench, "cut")
    cluster.start(2)
    assert read_ids(bench, "cut_0") == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]


def flush_and_be_told(bench: Workbench, topic: str) -> str:
    with pytest.raises(SomeTablesFailed) as error_info:
        bench.flush("cut")
    message = str(error_info.value)
    assert f"table=lake.shop.cut_0: topic={topic} partition=0 position=5: the log was cut at offset=2" in message
    return message


def read_command(message: str) -> Any:
    match = re.search(r"tidegate rebase cut --table lake\.shop\.cut_0 --to '(.*)'", message)
    assert match is not None
    return json.loads(match.group(1))


@pytest.mark.repeats(
    "unit/tidegate/flush/test_plan_after_elections.py::test_topic_without_a_leader_delays_its_own_table_alone_and_loses_nothing"
)
def test_partition_whose_only_replica_is_away_holds_up_its_own_table_alone_and_loses_nothing(
    cluster: BrokerCluster, bench: Workbench
) -> None:
    single, replicated = cluster.topic([1], [3]), cluster.topic(*EVERYWHERE)
    make_pipeline(bench, "single", single, replicated)
    make_pipeline(bench, "other", replicated)
    for number, topic in enumerate((single, replicated)):
        produce(bench, topic, 0, 10 * number + 1)
        produce(bench, topic, 1, 10 * number + 2)
    bench.flush("single")
    for number, topic in enumerate((single, replicated)):
        produce(bench, topic, 0, 10 * number + 3)
        produce(bench, topic, 1, 10 * number + 4)
    cluster.kill(3)
    wait_until(lambda: 3 not in cluster.list_leaders(replicated), "the others lead")
    with pytest.raises(SomeTablesDelayed) as error_info:
        bench.flush("single")
    assert f"no offset is known now of topic={single} partition=1: it has no leader that answers" in str(
        error_info.value
    )
    assert read_ids(bench, "single_1") == [11, 12, 13, 14], "the other table went on"
    assert read_ids(bench, "single_0") == [1, 2]
    bench.drain("other")
    assert read_ids(bench, "other_0") == [11, 12, 13, 14]
    cluster.start(3)
    flush_in_time(bench, "single")
    assert read_ids(bench, "single_0") == [1, 2, 3, 4]
    assert read_ids(bench, "single_1") == [11, 12, 13, 14]


# every fault at every point, with the steps that are run everywhere over parts in memory; three are walked for real
@pytest.mark.repeats("unit/test_failpoints.py::test_fault_at_any_point_is_recovered_by_the_next_runs")
def test_broker_that_is_lost_for_good_is_missed_by_no_flush_no_group_and_no_transaction(
    cluster: BrokerCluster, bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [cluster.topic([1, 2, 3], [1, 3, 2]), cluster.topic(*EVERYWHERE)]
    connection = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": cluster.name_first(1)}})
    environment = {**bench.build_environment(), CONNECTION: connection}
    monkeypatch.setattr(bench, "build_environment", lambda: environment)
    make_pipeline(bench, "lost", *topics)
    for topic in topics:
        produce(bench, topic, 0, 1)
        bench.transaction(topic, ({"id": 2}, {"id": 2, "name": "name 2"}, {"partition": 1}))
    bench.flush("lost")
    way = Way(bench, "way", delivery="exactly-once", create={"partitions": 3}, parallelism=2)
    way.flush(k1="a", k2="b")
    way.publish()

    cluster.lose(1)
    for number in (3, 5):
        for topic in topics:
            produce(bench, topic, 0, number)
            bench.transaction(topic, ({"id": number + 1}, {"id": number + 1, "name": f"name {number + 1}"}))
            bench.transaction(topic, ({"id": 99}, {"id": 99, "name": "aborted"}), commit=False)
        flush_in_time(bench, "lost")
        for table in ("lost_0", "lost_1"):
            assert read_ids(bench, table) == list(range(1, number + 2))
        assert bench.committed("lost") == bench.read_ends(*topics)
    way.flush(k1="a2", k3="c")
    way.publish()
    assert way.read_latest() == way.read_table()
    process = bench.run_process("flush", "lost")
    assert process.returncode == 0, process.stderr

    cluster.replace(1)
    wait_until(
        lambda: all(cluster.list_in_sync(topic) == [[1, 2, 3]] * 2 for topic in topics), "the new one has everything"
    )
    for topic in topics:
        produce(bench, topic, 1, 7)
    flush_in_time(bench, "lost")
    for table in ("lost_0", "lost_1"):
        assert read_ids(bench, table) == list(range(1, 8))


# every fault at every point, with the steps that are run everywhere over parts in memory; three are walked for real
@pytest.mark.repeats("unit/test_failpoints.py::test_fault_at_any_point_is_recovered_by_the_next_runs")
def test_flushes_go_on_while_brokers_are_restarted_one_after_another(
    cluster: BrokerCluster, bench: Workbench, record_property: Any
) -> None:
    topics = [cluster.topic(*EVERYWHERE), cluster.topic([3, 1, 2], [1, 2, 3])]
    make_pipeline(bench, "rolling", *topics)
    seconds: dict[str, list[float]] = {"quiet": [], "election": [], "restart": [], "kill": []}
    sent = 0

    def flush_some(moment: str) -> None:
        """From the moment on until records that are sent then are rows."""
        nonlocal sent
        started = time.monotonic()
        for topic in topics:
            produce(bench, topic, 0, sent)
            produce(bench, topic, 1, sent + 1)
        sent += 2
        flush_in_time(bench, "rolling")
        seconds[moment].append(time.monotonic() - started)

    for _ in range(3):
        flush_some("quiet")
    for number in NUMBERS:
        cluster.stop(number)
        flush_some("election")
        cluster.start(number)
        flush_some("restart")
        wait_until(lambda: all(cluster.list_in_sync(t) == [[1, 2, 3]] * 2 for t in topics), "all have everything")
    for number in NUMBERS:
        cluster.kill(number)
        flush_some("kill")
        cluster.start(number)
        wait_until(lambda: all(cluster.list_in_sync(t) == [[1, 2, 3]] * 2 for t in topics), "all have everything")
    for table in ("rolling_0", "rolling_1"):
        assert read_ids(bench, table) == list(range(sent))
    rounded_durations = {
        moment: [round(duration, 1) for duration in durations] for moment, durations in seconds.items()
    }
    record_property("seconds of a flush", rounded_durations)
    print(f"seconds of a flush: {rounded_durations}")
