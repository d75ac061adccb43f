"""A table's changes back in Kafka: what a plain reader of the topic makes of them is the table."""

import base64
import json
import subprocess
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from protobuf_messages import build_classes
from round_trip import Way, read
from schema_registry import SchemaRegistry
from tidegate.errors import BadRecord, ConfigurationError, GiveUp, NothingToDo
from tidegate.publications.republish import RepublishRequest

ROOT, PATIENCE = Path(__file__).parents[2], 180


def test_reader_of_the_topic_holds_the_table_after_every_kind_of_snapshot(workbench) -> None:
    way = Way(workbench, "roundtrip", delivery="exactly-once", create={"partitions": 3}, parallelism=2)
    way.flush(k1="a", k2="b", k3="c", k4="d")
    first = way.publish()
    assert (first.inserted, first.updated, first.deleted, first.from_snapshot_id) == (4, 0, 0, None)
    assert way.latest() == way.table()
    with pytest.raises(NothingToDo):
        way.publish()
    kept = way.build_ports().snapshots.read_table("lake.shop.roundtrip").snapshot_id

    way.flush(k1="a2", k2=None, k5="e")
    middle = way.build_ports().snapshots.read_table("lake.shop.roundtrip").snapshot_id
    way.flush(k1="a3", k5=None)
    told = way.status()
    assert (told.snapshots_behind, told.rows_behind) == (2, 5)
    second = way.publish()
    assert (second.inserted, second.updated, second.deleted) == (0, 1, 1), "net changes: k5 came and went"
    assert way.latest() == way.table()

    assert (way.status().snapshots_behind, way.status().waiting) == (0, None)
    before = Counter(map(str, way.records()))
    again = way.publish(again=RepublishRequest(str(first.to_snapshot_id), str(middle)))
    assert (again.compared_with, again.to_snapshot_id) == ("again", second.to_snapshot_id)
    now = {'{"id":1}': way.table()['{"id":1}'], '{"id":2}': None, '{"id":5}': None}
    produced = Counter(map(str, way.records())) - before
    assert produced == Counter(map(str, now.items())), "keys of the range with the rows of now"
    assert way.latest() == way.table()

    before = len(way.records())
    workbench.run_spark_sql(
        "CALL lake.system.rewrite_data_files(table => 'shop.roundtrip', options => map('rewrite-all', 'true'))"
    )
    compacted = way.publish()
    assert (compacted.inserted, compacted.updated, compacted.deleted) == (0, 0, 0)
    assert len(way.records()) == before, "a compaction has no changes"

    workbench.run_spark_sql(f"CALL lake.system.rollback_to_snapshot('shop.roundtrip', {kept})")
    back = way.publish()
    assert (back.inserted, back.updated, back.deleted) == (1, 1, 0), "the rollback as the difference of the states"
    assert way.latest() == way.table()


def test_topic_is_mended_by_comparing_it_with_the_table(workbench) -> None:
    """Progress is lost, a key is missing in the topic, one is wrong and one is there that the table never had."""
    way = Way(workbench, "mended", create={"partitions": 1})
    way.flush(k1="a", k2="b", k3="c")
    way.publish()
    workbench.produce(way.topic, ('{"id":2}', None), ('{"id":3}', '{"id":3}'), ('{"id":9}', '{"id":9}'))
    refused = workbench.run_cli("publish", "mended", "--resynchronise", "--dry-run", "--json")
    assert json.loads(refused.stdout)["compared_with"] == "topic"
    before = len(way.records())
    done = way.publish(resynchronise=True)
    assert (done.inserted, done.updated, done.deleted) == (1, 1, 1)
    assert len(way.records()) == before + 3, "what is right is not produced again"
    assert way.latest() == way.table()


def test_projection_formats_and_metadata_are_written_as_the_file_says(workbench) -> None:
    folder = [f"m-{workbench.topic()}" for _ in range(2)]
    sql = f"""SELECT id AS k_id, upper(name) AS name, price, CAST(NULL AS STRING) AS note,
        map('who', name, 'none', NULL) AS more, at, if(name = 'b', '{folder[0]}', '{folder[1]}') AS place
        FROM {{table}} WHERE name <> 'hidden'"""
    key = {"format": "string", "fields": ["k_id"], "fields_prefix": "k_"}
    value = {"format": "csv", "fields_include": "EXCEPT_KEY", "csv": {"delimiter": ";", "null_literal": "-"}}
    metadata = {"headers": "more", "timestamp": "at", "topic": "place"}
    way = Way(workbench, "formats", topic=None, topics=folder, sql=sql, key=key, value=value, metadata=metadata)
    way.flush(k1='a;"b', k2="b", k3="hidden")
    way.publish()
    found = [(m.topic(), m.key(), m.value(), m.headers(), m.timestamp()[1]) for t in folder for m in read(workbench, t)]
    assert found == [
        (folder[0], b"2", b"B;2.50;-", [("none", None), ("who", b"b")], 1767225602000),
        (folder[1], b"1", b'"A;""B";1.50;-', [("none", None), ("who", b'a;"b')], 1767225601000),
    ]
    way.flush(k2="c", k1="hidden")
    way.publish()
    assert [(m.key(), m.value()) for m in read(workbench, folder[0])][1:] == [(b"2", None)], "it moved"
    moved = {m.key(): m.value() for m in read(workbench, folder[1])}
    assert moved == {b"1": None, b"2": b"C;2.50;-"}


def test_row_that_makes_no_record_is_refused_before_anything_is_produced(workbench) -> None:
    way = Way(workbench, "refused", sql="SELECT id % 2 AS id, name FROM {table}")
    way.flush(k1="a", k2="b", k3="c")
    with pytest.raises(BadRecord, match=r'key=\{"id":1\}: it has several rows; correct key.fields'):
        way.publish()
    assert way.records() == []
    way.publication(
        key={"format": "string", "fields": ["name"]}, sql="SELECT id, nullif(name, 'b') AS name FROM {table}"
    )
    with pytest.raises(BadRecord, match="is NULL, which no compacted topic takes"):
        way.publish()
    way.publication(value={"format": "csv", "csv": {"null_literal": "b"}})
    with pytest.raises(BadRecord, match=r"has csv\.null_literal=b as a value of name, which readers take for NULL"):
        way.publish()
    way.publication(key={"fields": ["nr"]})
    with pytest.raises(ConfigurationError, match="column=nr is not in the result; there are: id, name"):
        way.publish()


def test_topic_that_is_not_compacted_is_refused_unless_allowed_and_a_missing_one_is_made_compacted(workbench) -> None:
    from confluent_kafka.admin import ConfigResource, ResourceType

    way = Way(workbench, "care")
    way.flush(k1="a")
    way.publish()
    asked = ConfigResource(ResourceType.TOPIC, way.topic)
    assert workbench.admin.describe_configs([asked])[asked].result(30)["cleanup.policy"].value == "compact"
    plain = workbench.topic()
    way.publication(topic=plain, state_topic=f"{plain}-state")
    with pytest.raises(GiveUp, match=r"cleanup\.policy=delete would let the last record of a key go"):
        way.publish()
    way.publication(topic=plain, state_topic=f"{plain}-state", allow_uncompacted=True)
    assert way.publish().inserted == 1
    forgetful = workbench.topic(partitions=4)
    way.publication(topic=plain, state_topic=forgetful, allow_uncompacted=True)
    with pytest.raises(GiveUp, match=rf"topic={forgetful}: cleanup\.policy=delete would let the publication's"):
        way.publish()


def test_partition_of_every_key_is_what_the_java_client_chooses(workbench, tmp_path) -> None:
    import random

    from confluent_kafka import Producer
    from tidegate_spark.publish.producer import PARTITIONER_CONF

    chance = random.Random(7)
    keys = [b"a", b"\x00\xff", b'{"id":1}', *(chance.randbytes(chance.randint(1, 40)) for _ in range(300))]
    topic = workbench.topic(partitions=7)
    producer = Producer({"bootstrap.servers": workbench.stack.kafka_bootstrap, **PARTITIONER_CONF})
    for key in keys:
        producer.produce(topic, key=key, value=b"x")
    assert producer.flush(60) == 0
    source = tmp_path / "Partitions.java"
    source.write_text(JAVA)
    jars = ROOT / ".cache" / "jars" / "kafka" / "*"
    words = ["java", "-cp", str(jars), str(source), "7", *(key.hex() for key in keys)]
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.split()
    assert {m.key(): m.partition() for m in read(workbench, topic)} == dict(zip(keys, map(int, told), strict=True))


JAVA = """
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
public class Partitions {
    public static void main(String[] words) {
        for (int i = 1; i < words.length; i++) {
            byte[] key = java.util.HexFormat.of().parseHex(words[i]);
            System.out.println(BuiltInPartitioner.partitionForKey(key, Integer.parseInt(words[0])));
        }
    }
}
"""


def test_command_line_publishes_tells_and_validates(workbench) -> None:
    way = Way(workbench, "words")
    way.flush(k1="a", k2="b")
    planned = json.loads(workbench.run_cli("publish", "words", "--dry-run", "--json").stdout)
    assert (planned["publication"], planned["compared_with"]) == ("words", "everything")
    waiting = json.loads(workbench.run_cli("status", "words", "--json").stdout)["publications"][0]
    assert (waiting["published_snapshot_id"], waiting["waiting"]["parts"]) == (None, 4)
    done = workbench.run_cli("publish", "words", "--json")
    assert json.loads(done.stdout)["inserted"] == 2, done.stderr
    again = workbench.run_cli("publish", "words")
    assert (again.returncode, "nothing came since" in again.stdout) == (0, True)
    told = json.loads(workbench.run_cli("status", "--json").stdout)["publications"][0]
    assert told["published_snapshot_id"] == told["table_snapshot_id"] == planned["to_snapshot_id"]
    assert workbench.run_cli("validate").stdout.splitlines() == ["words: ok", "words: ok"]


def test_avro_and_protobuf_are_what_the_real_deserializers_read_with_the_registry(workbench) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import SerializationContext

    registry = SchemaRegistry()
    try:
        avro = {"format": "avro", "avro": {"registry": registry.url}}
        sql = "SELECT *, array(named_struct('a', id, 'b', CAST(at AS DATE))) AS more FROM {table}"
        way = Way(workbench, "avro", sql=sql, key={"fields": ["id"], **avro}, value=avro, start="full")
        way.flush(k1="a")
        way.publish()
        read_avro = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
        (found,) = read(workbench, way.topic)
        key = read_avro(found.key(), SerializationContext(way.topic, "key"))
        value = read_avro(found.value(), SerializationContext(way.topic, "value"))
        at = datetime(2026, 1, 1, 0, 0, 1, 1, UTC)
        more = [{"a": 1, "b": date(2026, 1, 1)}]
        assert (key, value) == ({"id": 1}, {"id": 1, "name": "a", "price": Decimal("1.50"), "at": at, "more": more})
        assert set(registry.subjects) == {f"{way.topic}-key", f"{way.topic}-value"}
        protobuf = {"format": "protobuf", "protobuf": {"registry": registry.url}}
        sql = "SELECT id, name, at, map(name, named_struct('a', id)) AS more FROM {table}"
        other = Way.over(way, "protobuf", sql=sql, key={"fields": ["id"], **protobuf}, value=protobuf)
        other.publish()
        assert_protobuf(registry, other.topic, *read(workbench, other.topic))
    finally:
        registry.close()


def test_key_whose_schema_has_changed_is_refused_until_the_topic_is_compared(workbench) -> None:
    """The schema's id stands in each key: old keys would stay beside the new ones, and no delete reaches them."""
    registry = SchemaRegistry()
    try:
        avro = {"format": "avro", "avro": {"registry": registry.url}}
        way = Way(workbench, "wider", key={"fields": ["price"], **avro})
        way.flush(k1="a", k2="b", k3="c")
        way.publish()
        workbench.run_spark_sql("ALTER TABLE lake.shop.wider ALTER COLUMN price TYPE DECIMAL(14,2)")
        way.flush(k1=None, k2="b2")
        with pytest.raises(GiveUp, match=r"key_form=0000000001 and now key_form=0000000002.*--resynchronise"):
            way.publish()
        assert len(read(workbench, way.topic)) == 3, "nothing was produced"
        way.publish(resynchronise=True)
        last = {message.key(): message.value() for message in read(workbench, way.topic)}
        names = sorted(json.loads(value)["name"] for value in last.values() if value is not None)
        assert (names, len([value for value in last.values() if value is None])) == (["b2", "c"], 3)
    finally:
        registry.close()


def assert_protobuf(registry: SchemaRegistry, topic: str, found: Any) -> None:
    """By Confluent's deserializer, with the message that was registered."""
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
    from confluent_kafka.serialization import SerializationContext
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    made = {}
    for what, data in (("key", found.key()), ("value", found.value())):
        (number,) = registry.subjects[f"{topic}-{what}"]
        assert data[:5] == b"\x00" + number.to_bytes(4, "big")
        file = FileDescriptorProto.FromString(base64.b64decode(registry.schemas[number]["schema"]))
        read_protobuf = ProtobufDeserializer(next(iter(build_classes(file).values())), {"use.deprecated.format": False})
        made[what] = read_protobuf(data, SerializationContext(topic, what))
    assert made["key"].id == 1
    value = made["value"]
    assert (value.id, value.name, value.at.ToMicroseconds()) == (1, "a", 1767225601000001)
    assert value.more["a"].a == 1


def test_joined_table_enriches_the_records_and_its_own_changes_are_followed(workbench) -> None:
    join = "{table} t LEFT JOIN {lake.shop.labels} l ON l.name = t.name"
    sql = f"SELECT t.id, t.name, l.label FROM {join}"
    count = f"SELECT coalesce(l.label, 'none') AS label, count(*) AS n FROM {join} GROUP BY coalesce(l.label, 'none')"
    way = Way(workbench, "joined", sql=sql, create={"partitions": 1}, parallelism=1)
    with pytest.raises(NothingToDo):
        way.publish()
    way.flush(k1="a", k2="b", k3="c")
    workbench.run_spark_sql("CREATE TABLE lake.shop.labels USING iceberg AS SELECT 'a' AS name, 'first' AS label")
    counted = Way.over(way, "counted", sql=count, key={"fields": ["label"]}, parallelism=1)
    counted.publication(table="lake.shop.joined", sql=count, key={"fields": ["label"]}, parallelism=1)

    def step() -> tuple[Any, dict[str, Any]]:
        done = way.publish()
        counted.publish()
        return (done.inserted, done.updated, done.deleted), {v["label"]: v["n"] for v in counted.latest().values()}

    assert step() == ((3, 0, 0), {"first": 1, "none": 2})
    workbench.run_spark_sql("INSERT INTO lake.shop.labels VALUES ('c', 'third')")
    assert step() == ((0, 1, 0), {"first": 1, "third": 1, "none": 1}), "rows that were not touched themselves"
    workbench.run_spark_sql("UPDATE lake.shop.labels SET label = 'third' WHERE name = 'a'")
    way.flush(k2=None)
    assert step() == ((0, 1, 1), {"third": 2})
    way.flush(k3="a", k4="x")
    assert step() == ((1, 1, 0), {"third": 2, "none": 1})
    assert {k: (v["name"], v["label"]) for k, v in way.latest().items()} == {
        '{"id":1}': ("a", "third"), '{"id":3}': ("a", "third"), '{"id":4}': ("x", None),
    }  # fmt: skip


def test_key_with_another_row_in_a_file_that_was_not_touched_is_neither_published_twice_nor_taken_for_gone(
    workbench,
) -> None:
    way, table = Way(workbench, "copies", parallelism=1), "lake.shop.copies"
    workbench.run_spark_sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
    workbench.run_spark_sql(f"CREATE TABLE {table} USING iceberg AS SELECT 1L AS id, 'a' AS name UNION SELECT 2L, 'b'")
    way.publish()
    workbench.run_spark_sql(f"INSERT INTO {table} VALUES (1, 'copy')")
    with pytest.raises(BadRecord, match=r'key=\{"id":1\}: it has several rows'):
        way.publish()
    copied = way.build_ports().snapshots.read_table(table).snapshot_id
    workbench.run_spark_sql(f"DELETE FROM {table} WHERE name = 'copy'")
    way = Way.over(way, "copies", parallelism=1, start={"snapshot": copied}, state_topic=f"{way.topic}-later")
    done = way.publish()
    assert ((done.inserted, done.updated, done.deleted), way.records()) == (
        (0, 1, 0), [('{"id":1}', {"id": 1, "name": "a"})],
    ), "the row that is left, and no tombstone"  # fmt: skip


def test_field_that_a_struct_gains_changes_no_row_and_is_published_with_those_that_do(workbench) -> None:
    way, table = Way(workbench, "gained", parallelism=1), "lake.shop.gained"
    workbench.run_spark_sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
    rows = "named_struct('a', id) AS s, array(named_struct('a', id)) AS l, map(id, named_struct('a', id)) AS m"
    workbench.run_spark_sql(
        f"CREATE TABLE {table} USING iceberg AS SELECT id, {rows}, IF(id = 1, NULL, id) AS old FROM range(3)"
    )
    way.publish()
    added = "s.`b c` STRING, l.element.c INT, m.value.d STRUCT<e: INT>"
    workbench.run_spark_sql(f"ALTER TABLE {table} ADD COLUMNS ({added})")
    workbench.run_spark_sql(f"ALTER TABLE {table} DROP COLUMN old")
    workbench.run_spark_sql(f"ALTER TABLE {table} ADD COLUMN old STRUCT<f: INT>")
    workbench.run_spark_sql(f"UPDATE {table} SET s = named_struct('a', 7L, 'b c', 'x') WHERE id = 2")
    done = way.publish()
    assert (done.inserted, done.updated, done.deleted) == (0, 1, 0)
    struct, more = {"a": 7, "b c": "x"}, {"l": [{"a": 2, "c": None}], "m": {"2": {"a": 2, "d": None}}, "old": None}
    assert way.latest()['{"id":2}'] == {"id": 2, "s": struct, **more}
    way.publication(sql="SELECT id, gone FROM {table}", parallelism=1)
    with pytest.raises(ConfigurationError, match=r"the SQL over the table's columns: .*gone"):
        way.publish(resynchronise=True)
