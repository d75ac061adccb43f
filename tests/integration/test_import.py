"""A sink is switched off and a pipeline goes on from where it stopped, while producers go on: nothing lost or twice."""

import json
import threading
from typing import Any

import pytest
from conftest import wait_until
from control_events import GROUP, TABLE
from iceberg_sink import EVENTS, PLACE, IcebergSink
from tidegate.config.pipeline_file import load_pipeline
from unique_names import make_unique_name


@pytest.fixture
def sink(workbench: Any) -> IcebergSink:
    return IcebergSink(workbench)


def import_sink(workbench: Any, *words: str, code: int = 0) -> Any:
    process = workbench.run_cli("import", *words, "--json")
    assert process.returncode == code, process.stderr
    return json.loads(process.stdout) if code == 0 else process.stderr


def test_iceberg_sink_is_switched_under_live_data(workbench: Any, sink: IcebergSink) -> None:
    """Two topics with two partitions each; records come before, during and after the switch."""
    sink.produce(5)
    sink.take_over(dict.fromkeys(sink.sent, 3))
    sink.take_over(dict.fromkeys(sink.sent, 4), since=dict.fromkeys(sink.sent, 3))
    workbench.run_spark_sql("SELECT 1")  # the server is warm: the producer then writes during the flushes
    stop = threading.Event()

    def produce_on() -> None:
        while not stop.is_set() and max(sink.sent.values()) < 200:
            sink.produce(1)

    live = threading.Thread(target=produce_on)
    live.start()
    try:
        answer = import_sink(workbench, sink.config(), "--write")
        assert answer["position"]["state"] == "exact"
        assert answer["position"]["offsets"] == {t: {"0": 4, "1": 4} for t in sink.topics}
        assert answer["position"]["valid_through"] == {f"lake.{TABLE}": "2026-01-01T00:00:00Z"}
        assert (answer["problems"], answer["to_fill_in"], answer["catalog"]["declared"]) == ([], [], True)
        assert workbench.run_cli("validate").returncode == 0
        workbench.flush("events")
    finally:
        stop.set()
        live.join()
    workbench.drain("events")
    assert sink.read_places() == sorted((t, p, n) for (t, p), end in sink.sent.items() for n in range(end))
    assert workbench.committed("events") == {t: {p: sink.sent[t, p] for p in (0, 1)} for t in sink.topics}
    newest = workbench.read_rows(TABLE)[-1]
    assert newest["_kafka_metadata_timestamp"] is not None
    assert newest["name"] == f"{newest['_kafka_metadata_topic']}-{newest['_kafka_metadata_partition']}"


class EvolvingSink(IcebergSink):
    """One that adds columns for what is new in its records, which no transform reads."""

    def settings(self) -> dict[str, str]:
        unchanged = {name: value for name, value in super().settings().items() if "transforms" not in name}
        return {**unchanged, "iceberg.tables.evolve-schema-enabled": "true"}


@pytest.mark.repeats("unit/tidegate/migration/test_translate.py::test_new_fields_of_plain_json_become_columns")
def test_new_field_behind_an_iceberg_sink_is_a_column(workbench: Any) -> None:
    sink = EvolvingSink(workbench)
    sink.produce(2)
    sink.take_over(dict.fromkeys(sink.sent, 1))
    assert import_sink(workbench, sink.config(), "--write")["problems"] == []
    rows = [{"id": 7, "name": "new", "Late": {"n": 1.5}}, {"id": 8, "Late": {"at": ["x"]}, "empty": []}]
    for partition, row in enumerate(rows):
        workbench.produce(sink.topics[0], (None, row, {"partition": partition}))
    workbench.drain("events")
    found = {row["id"]: row for row in workbench.read_rows(TABLE)}
    assert found[7]["Late"] == {"at": None, "n": 1.5}
    assert (found[8]["Late"], found[1]["Late"]) == ({"at": ["x"], "n": None}, None)
    assert "empty" not in found[8]


@pytest.mark.repeats("integration/test_added_columns.py::test_table_is_made_of_its_records_and_grows_with_them")
def test_new_field_behind_a_bigquery_sink_is_a_column(workbench: Any, dwh: Any) -> None:
    """In a table that the sink's configuration lets be made, too."""
    topic = workbench.topic(2)
    workbench.produce(topic, *((None, {"id": n, "Name": f"n{n}"}, {"partition": n % 2}) for n in range(3)))
    name = f"kcbq{topic.replace('-', '')}"
    IcebergSink.commit_group(_Bench(workbench), f"connect-{name}", {topic: {0: 0, 1: 0}})
    path = workbench.folder / "kcbq.properties"
    path.write_text(
        f"name={name}\nconnector.class=com.wepay.kafka.connect.bigquery.BigQuerySinkConnector\ntopics={topic}\n"
        f"project=p\ndefaultDataset={dwh.dataset}\ntopic2TableMap={topic}:made\ntimePartitioningType=NONE\n"
        "autoCreateTables=true\nallowNewBigQueryFields=true\n"
        "value.converter=org.apache.kafka.connect.json.JsonConverter\nvalue.converter.schemas.enable=false\n"
    )
    assert import_sink(workbench, str(path), "--write", "--catalog", "dwh")["problems"] == []
    workbench.drain(name)
    workbench.produce(topic, (None, {"id": 3, "late": {"at": [1, 2]}}, {"partition": 1}))
    workbench.drain(name)
    rows = sorted(dwh.read_rows("made"), key=lambda row: row["id"])
    expected = [{"id": n, "Name": f"n{n}", "late": None} for n in range(3)]
    assert rows == [*expected, {"id": 3, "Name": None, "late": {"at": [1, 2]}}]


@pytest.mark.repeats(
    "unit/tidegate/migration/test_translate.py::test_new_fields_behind_debezium_server_become_columns_of_tables_that_are_there"
)
def test_new_field_behind_debezium_server_is_a_column(workbench: Any) -> None:
    """Its table is there, with a partition; from now on Debezium produces whole events to Kafka."""
    prefix = f"pg{make_unique_name().replace('-', '')}"
    topic = workbench.topic(name=f"{prefix}.shop.customers")
    table = f"shop.{prefix}_shop_customers"
    workbench.run_spark_sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
    workbench.run_spark_sql(
        f"CREATE TABLE lake.{table} (id BIGINT NOT NULL, name STRING, created_at TIMESTAMP, __op STRING) USING iceberg "
        "PARTITIONED BY (days(created_at)) TBLPROPERTIES ('format-version' = '2')"
    )
    workbench.run_spark_sql(f"ALTER TABLE lake.{table} SET IDENTIFIER FIELDS id")
    workbench.run_spark_sql(f"INSERT INTO lake.{table} VALUES (1, 'old', NULL, 'r'), (2, 'gone', NULL, 'r')")
    path = workbench.folder / "application.properties"
    path.write_text(
        "debezium.sink.type=iceberg\ndebezium.sink.iceberg.upsert=true\n"
        "debezium.sink.iceberg.upsert-keep-deletes=false\ndebezium.sink.iceberg.table-namespace=shop\n"
        "debezium.sink.iceberg.catalog-name=lake\ndebezium.sink.iceberg.format-version=2\n"
        "debezium.sink.iceberg.type=rest\ndebezium.sink.iceberg.uri=http://elsewhere\n"
        "debezium.sink.iceberg.partition-by=day(created_at)\ndebezium.sink.iceberg.allow-field-addition=true\n"
        "debezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector\n"
        f"debezium.source.topic.prefix={prefix}\ndebezium.source.table.include.list=shop.customers\n"
        "debezium.transforms=unwrap\ndebezium.transforms.unwrap.type=io.debezium.transforms.ExtractNewRecordState\n"
        "debezium.transforms.unwrap.add.fields=op\n"
    )
    assert import_sink(workbench, str(path), "--write", "--name", "customers")["problems"] == []
    rows = [{"id": 1, "name": "new", "late": {"n": 1}}, {"id": 3, "name": "c", "late": {"n": 2, "at": ["x"]}}]
    workbench.produce(topic, *(({"id": row["id"]}, {"op": "c", "before": None, "after": row}) for row in rows))
    workbench.produce(topic, ({"id": 2}, {"op": "d", "before": {"id": 2, "name": "gone"}, "after": None}))
    workbench.drain("customers")
    none = {"created_at": None}
    assert sorted(workbench.read_rows(table), key=lambda row: row["id"]) == [
        {"id": 1, "name": "new", **none, "__op": "c", "late": {"n": 1, "at": None}},
        {"id": 3, "name": "c", **none, "__op": "c", "late": {"n": 2, "at": ["x"]}},
    ]


@pytest.mark.repeats(
    "unit/tidegate/migration/test_position.py::test_files_wait_that_neither_coordinator_nor_table_has_committed"
)
def test_no_position_is_taken_while_announced_files_are_not_in_the_table(workbench: Any, sink: IcebergSink) -> None:
    """The group's offsets are past records whose files nobody has committed: they would be lost."""
    sink.produce(3)
    sink.take_over(dict.fromkeys(sink.sent, 1))
    workbench.produce(sink.control, (None, EVENTS["start"]), (None, EVENTS["written"]), (None, EVENTS["complete"]))
    sink.commit_group(GROUP, {t: {0: 2, 1: 2} for t in sink.topics})
    refused = import_sink(workbench, sink.config(), "--write", code=1)
    place = f"topic={sink.control} partition=0 offset=1: files=2 are announced, and not committed to table={TABLE}"
    assert place in refused
    assert "nothing was written" in refused
    assert list((workbench.include / "pipelines").iterdir()) == []
    printed = import_sink(workbench, sink.config())
    assert printed["position"]["state"] == "pending"
    rows = [dict(zip(("id", *PLACE), (1, t, p, 1), strict=True)) for t, p in sink.sent]
    sink.commit_table(rows)
    assert import_sink(workbench, sink.config())["position"]["offsets"] == {t: {"0": 2, "1": 2} for t in sink.topics}


@pytest.mark.repeats(
    "unit/tidegate/migration/test_position.py::test_first_group_with_offsets_counts_and_members_of_any"
)
def test_no_position_is_taken_while_the_sink_runs(workbench: Any, sink: IcebergSink) -> None:
    from confluent_kafka import Consumer

    sink.produce(2)
    sink.take_over(dict.fromkeys(sink.sent, 1))
    member = Consumer({"bootstrap.servers": workbench.stack.kafka_bootstrap, "group.id": GROUP, "log_level": 0})
    member.subscribe(sink.topics)
    try:
        wait_until(lambda: bool(member.poll(0.1) or member.assignment()), "the sink's task has joined")
        assert f"group={GROUP} has members=1" in import_sink(workbench, sink.config(), "--write", code=1)
    finally:
        member.close()
    assert import_sink(workbench, sink.config())["position"]["state"] == "exact"


@pytest.mark.repeats(
    "unit/tidegate/migration/test_position.py::test_partitions_without_a_commit_begin_where_the_sink_would"
)
def test_bigquery_sinks_offsets_become_the_start(workbench: Any) -> None:
    """A partition in which the sink has committed nothing begins where the log does."""
    topics = [workbench.topic(2), workbench.topic(2)]
    for topic in topics:
        workbench.produce(topic, *((None, {"id": n}, {"partition": n % 2}) for n in range(8)))
    name = f"kcbq{topics[0].replace('-', '')}"
    IcebergSink.commit_group(_Bench(workbench), f"connect-{name}", {topics[0]: {0: 3, 1: 2}, topics[1]: {1: 4}})
    path = workbench.folder / "kcbq.properties"
    path.write_text(
        f"name={name}\nconnector.class=com.wepay.kafka.connect.bigquery.BigQuerySinkConnector\ntopics={','.join(topics)}\n"
        "project=p\ndefaultDataset=d\nsanitizeTopics=true\nupsertEnabled=true\nkafkaKeyFieldName=k\ngcsBucketName=b\n"
        "key.converter=org.apache.kafka.connect.json.JsonConverter\n"
        "value.converter=org.apache.kafka.connect.json.JsonConverter\n"
    )
    answer = import_sink(workbench, str(path), "--write", "--key", "id")
    assert answer["position"]["offsets"] == {topics[0]: {"0": 3, "1": 2}, topics[1]: {"0": 0, "1": 4}}
    assert f"it had committed nothing in: {topics[1]} 0" in answer["position"]["reason"]
    planned = load_pipeline(workbench.include / "pipelines" / f"{name}.yaml").source.start.offsets
    assert planned == {topics[0]: {0: 3, 1: 2}, topics[1]: {0: 0, 1: 4}}
    refused = import_sink(workbench, str(path), "--write", "--key", "id", code=1)
    assert "it is there already" in refused
    import_sink(workbench, str(path), "--write", "--overwrite", "--key", "id")
    nobody = path.with_name("other.properties")
    nobody.write_text(path.read_text().replace(f"name={name}", "name=nobody"))
    assert "group=connect-nobody has committed no offset" in import_sink(workbench, str(nobody), "--write", code=1)


class _Bench:
    """As much of a sink as `commit_group` needs."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
