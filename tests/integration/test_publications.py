"""A table's changes back in Kafka: what a plain reader of the topic makes of them is the table."""

import base64
import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from protobuf_messages import build_classes
from pyiceberg.types import DecimalType, IntegerType, NestedField, StringType, StructType
from round_trip import KEY, ROWS, VALUE, Way, build_rows, create_table, load_table, read, write_rows
from schema_registry import SchemaRegistry
from tidegate.errors import BadRecord, ConfigurationError, GiveUp, NothingToDo
from tidegate.publications.plan import plan_run
from tidegate.spec.publication import KeyOut, MetadataOut, ValueOut

ROOT, DEADLINE_SECONDS = Path(__file__).parents[2], 600


@pytest.fixture(scope="module")
def shop(workbenches: Callable[[Path], Any], tmp_path_factory: pytest.TempPathFactory) -> Way:
    """A table of three rows, which tests of this file share: one of them changes it."""
    way = Way(workbenches(tmp_path_factory.mktemp("shop")), "shop")
    create_table(way, build_rows(k1='a;"b', k2="b", k3="hidden"), ROWS)
    return way


@pytest.mark.repeats("test_change_events_carry_both_rows_and_a_second_pipeline_makes_the_table_of_them")
def test_reader_of_the_topic_holds_the_table_after_every_kind_of_snapshot(workbench) -> None:
    way = Way(workbench, "roundtrip", delivery="exactly-once", create={"partitions": 3}, parallelism=2)
    way.flush(k1="a", k2="b", k3="c", k4="d")
    first = way.publish()
    assert (first.inserted, first.updated, first.deleted, first.from_snapshot_id) == (4, 0, 0, None)
    assert way.read_latest() == way.read_table()
    with pytest.raises(NothingToDo):
        way.publish()
    first_snapshot = load_table(way).current_snapshot().snapshot_id

    with load_table(way).transaction() as transaction:
        transaction.set_properties({"write.delete.mode": "copy-on-write"})  # for PyIceberg alone
    write_rows(load_table(way), build_rows(k1="a2", k2="b2", k5="e"), "id <= 2")
    before = way.read_status()
    assert (before.snapshots_behind, before.rows_behind >= 3) == (2, True)
    workbench.run_spark_sql(
        "CALL lake.system.rewrite_data_files(table => 'shop.roundtrip', options => map('rewrite-all', 'true'))"
    )
    status = way.read_status()
    assert (status.snapshots_behind, status.rows_behind) == (2, before.rows_behind), "a compaction has no changes"
    way.flush(k1="a3", k2=None, k5=None)
    second = way.publish()
    assert (second.inserted, second.updated, second.deleted) == (0, 1, 1), "net changes: k5 came and went"
    assert len(way.read_records()) == 4 + 2
    assert way.read_latest() == way.read_table()

    assert (way.read_status().snapshots_behind, way.read_status().waiting) == (0, None)

    load_table(way).manage_snapshots().set_current_snapshot(first_snapshot).commit()
    rollback_result = way.publish()
    assert (rollback_result.inserted, rollback_result.updated, rollback_result.deleted) == (1, 1, 0), (
        "the rollback as the difference of the states"
    )
    assert way.read_latest() == way.read_table()


@pytest.mark.repeats(
    "unit/scenarios/test_publications.py::test_inserted_rows_have_no_key_and_come_once_whatever_is_killed"
)
def test_inserted_rows_are_produced_once_each_and_equal_ones_as_often_as_they_are_there(workbench) -> None:
    way = Way(
        workbench, "events", key={"fields": []}, delivery="exactly-once", create={"partitions": 2}, parallelism=2,
        transaction_records=2,
    )  # fmt: skip
    first, second = build_rows(k1="a", k2="b"), build_rows(k2="b", k3="c", k4="d")
    table = create_table(way, [*first, first[0]], ROWS)
    assert way.publish().inserted == 3
    assert read_values(way) == Counter({"a": 2, "b": 1})
    table.append(pyarrow.Table.from_pylist([*second, first[0]], ROWS))
    workbench.run_spark_sql(
        "CALL lake.system.rewrite_data_files(table => 'shop.events', options => map('rewrite-all', 'true'))"
    )
    workbench.run_spark_sql("ALTER TABLE lake.shop.events ADD COLUMN more INT")
    result = way.publish()
    assert (result.inserted, result.updated, result.deleted) == (4, 0, 0), "a compaction inserts nothing"
    assert read_values(way) == Counter({"a": 3, "b": 2, "c": 1, "d": 1})
    with pytest.raises(NothingToDo):
        way.publish()
    workbench.run_spark_sql("DELETE FROM lake.shop.events WHERE name = 'a'")
    workbench.run_spark_sql("INSERT INTO lake.shop.events (id, name) VALUES (5, 'e'), (5, 'e')")
    with pytest.raises(BadRecord, match=r"of the rows at snapshot=\d+ 3 were deleted or changed, .* on_delete: ignore"):
        way.publish()
    settings = {"key": {"fields": []}, "delivery": "exactly-once", "parallelism": 2}
    way.write_publication(**settings, on_delete="ignore")
    assert way.publish().inserted == 2
    assert read_values(way) == Counter({"a": 3, "b": 2, "e": 2, "c": 1, "d": 1})
    assert {message.key() for message in read(workbench, way.topic)} == {None}
    way.topic = workbench.topic(1, **{"cleanup.policy": "compact"})
    way.write_publication(**settings)
    with pytest.raises(GiveUp, match=r"cleanup\.policy=compact takes no record without a key; set it to delete"):
        way.publish()


def read_values(way: Way) -> "Counter[str]":
    return Counter(json.loads(message.value())["name"] for message in read(way.workbench, way.topic))


# its topic is compared twice, with wrong records in it
@pytest.mark.repeats("test_change_events_carry_both_rows_and_a_second_pipeline_makes_the_table_of_them")
def test_topic_is_fixed_by_comparing_it_with_the_table(shop) -> None:
    """Progress is lost, a key is missing in the topic, one is wrong and one is there that the table never had."""
    way = Way.over(shop, "fixed", create={"partitions": 1}, parallelism=1)
    session = way.open_session()
    session.topics.create(session.publication)
    same = '{"id":1,"name":"a;\\"b","price":1.50,"at":"2026-01-01T00:00:01.000001Z"}'
    records = (("2", "{}"), ("2", None), ("3", '{"id":3}'), ("9", '{"id":9}'), ("1", same))
    shop.workbench.produce(way.topic, *((f'{{"id":{id}}}', value) for id, value in records))
    plan = shop.workbench.run_cli("publish", "fixed", "--resynchronise", "--dry-run", "--json")
    assert json.loads(plan.stdout)["compared_with"] == "topic"
    before = len(way.read_records())
    result = way.publish(resynchronise=True)
    assert (result.inserted, result.updated, result.deleted) == (1, 1, 1)
    assert len(way.read_records()) == before + 3, "what is right is not produced again"
    assert way.read_latest() == shop.read_table()


@pytest.mark.guard(
    "publication: a state topic that is not compacted is refused",
    file="plugins/tidegate/adapters/kafka/publication_topics.py",
    text="        if publication.state_topic in existing:\n",
    off="        if False:\n",
)
def test_topic_that_is_not_compacted_is_refused_unless_allowed_and_a_missing_one_is_made_compacted(shop) -> None:
    from confluent_kafka.admin import ConfigResource, ResourceType

    way, bench = Way.over(shop, "care"), shop.workbench
    session = way.open_session()
    session.topics.create(session.publication)
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in (way.topic, f"{way.topic}-state")]
    configs = [future.result(30) for future in bench.admin.describe_configs(resources).values()]
    assert [config["cleanup.policy"].value for config in configs] == ["compact", "compact"]
    plain = bench.topic()
    way.write_publication(table="lake.shop.shop", topic=plain, state_topic=f"{plain}-state")
    with pytest.raises(GiveUp, match=r"cleanup\.policy=delete would delete the last record of a key"):
        way.publish()
    way.write_publication(table="lake.shop.shop", topic=plain, state_topic=f"{plain}-state", allow_uncompacted=True)
    assert plan_run(way.open_session()).topics.partitions == {plain: 2}
    forgetful = bench.topic(partitions=4)
    way.write_publication(table="lake.shop.shop", topic=plain, state_topic=forgetful, allow_uncompacted=True)
    with pytest.raises(GiveUp, match=rf"topic={forgetful}: cleanup\.policy=delete would delete the publication's"):
        way.publish()


def test_projection_formats_and_metadata_are_written_as_the_file_says(shop) -> None:
    """In topics of a user's own, which are not compacted."""
    bench, topics = shop.workbench, [shop.workbench.topic() for _ in range(2)]
    sql = f"""SELECT id AS k_id, upper(name) AS name, price, CAST(NULL AS STRING) AS note,
        map('who', name, 'none', NULL) AS more, at, if(name = 'b', '{topics[0]}', '{topics[1]}') AS place
        FROM {{table}} WHERE name <> 'hidden'"""
    key = {"format": "string", "fields": ["k_id"], "fields_prefix": "k_"}
    value = {"format": "csv", "fields_include": "EXCEPT_KEY", "csv": {"delimiter": ";", "null_literal": "-"}}
    metadata = {"headers": "more", "timestamp": "at", "topic": "place"}
    settings = {"topic": None, "topics": topics, "allow_uncompacted": True, "parallelism": 2}
    start = {"snapshot": load_table(shop).current_snapshot().snapshot_id}
    way = Way.over(shop, "formats", sql=sql, key=key, value=value, metadata=metadata, start=start, **settings)
    write_rows(load_table(shop), build_rows(k1="hidden", k2="c", k3="b", k4='a;"b'), "id <= 3")
    way.publish()
    messages = sorted((m for topic in topics for m in read(bench, topic)), key=lambda message: message.key())
    assert [(m.topic(), m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in messages if m.value()] == [
        (topics[1], b"2", b"C;2.50;-", [("none", None), ("who", b"c")], 1767225602000),
        (topics[0], b"3", b"B;3.50;-", [("none", None), ("who", b"b")], 1767225603000),
        (topics[1], b"4", b'"A;""B";4.50;-', [("none", None), ("who", b'a;"b')], 1767225604000),
    ]
    tombstones = [(m.topic(), m.key()) for m in messages if m.value() is None]
    assert tombstones == [(topics[1], b"1"), (topics[0], b"2")], "one is hidden now, and one moved"


def test_row_that_makes_no_record_is_refused_by_its_key(spark) -> None:
    """The check behind the comparison of the states, and before a producer starts."""
    from tidegate_spark.publish.job import _check_changes
    from tidegate_spark.publish.record_encoding import encode_rows

    by_id, by_name = KeyOut(("id",)), KeyOut(("name",), format="string")
    is_null = "CASE WHEN id = 2 THEN NULL ELSE name END"

    def refuse(key: KeyOut, name: str = "name", copies: int = 1, topic: str = "out", **value: Any) -> str:
        job: Any = SimpleNamespace(
            publication="p",
            position=SimpleNamespace(to=7),
            topics=("out",),
            key=key,
            value=ValueOut(**value),
            is_append=False,
        )
        job.metadata = MetadataOut()
        rows = spark.sql(f"SELECT id, {name} AS name FROM VALUES (1L, 'a'), (2L, 'b') AS t(id, name)")
        counts = f"IF(decode(key, 'UTF-8') LIKE '%1%', {copies}, 1) AS copies"
        columns = ("* EXCEPT (topic)", "'inserted' AS kind", counts, f"'{topic}' AS topic")
        with pytest.raises((BadRecord, ConfigurationError)) as error_info:
            _check_changes(encode_rows(spark, rows, job).selectExpr(*columns), job)
        return str(error_info.value).removeprefix("publication=p ").removeprefix("snapshot=7 ")

    csv = {"format": "csv", "options": {"null_literal": "b"}}
    assert [
        refuse(by_id, copies=2).partition(";")[0],
        refuse(by_name, is_null).partition(";")[0],
        refuse(by_id, **csv).partition(", which")[0],
        refuse(by_id, topic="other"),
        refuse(KeyOut(("nr",))).partition(";")[0],
    ] == [
        'key={"id":1}: it has several rows',
        "key=: it is NULL, which no compacted topic takes",
        'key={"id":2}: it has csv.null_literal=b as a value of name',
        'key={"id":1}: it goes to a topic that is not listed in topics',
        "publication=p: column=nr is not in the result",
    ]


def produce_keys(bench: Any, partitions: int) -> dict[bytes, int]:
    """The partition of each of some hundred keys, as a publication's producers choose it."""
    from confluent_kafka import Producer
    from tidegate_spark.publish.producer import PARTITIONER_CONF

    chance = random.Random(7)
    topic = bench.topic(partitions=partitions)
    producer = Producer({"bootstrap.servers": bench.stack.kafka_bootstrap, **PARTITIONER_CONF})
    for key in (b"a", b"\x00\xff", b'{"id":1}', *(chance.randbytes(chance.randint(1, 40)) for _ in range(300))):
        producer.produce(topic, key=key, value=b"x")
    assert producer.flush(60) == 0
    return {message.key(): message.partition() for message in read(bench, topic)}


def compute_murmur2(key: bytes) -> int:
    """The positive hash that Java's client takes of a key."""
    factor, mask = 0x5BD1E995, 0xFFFFFFFF
    result = 0x9747B28C ^ len(key)
    aligned_length = len(key) - len(key) % 4
    for at in range(0, aligned_length, 4):
        word = int.from_bytes(key[at : at + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        result = result * factor & mask ^ word
    if key[aligned_length:]:
        result = (result ^ int.from_bytes(key[aligned_length:], "little")) * factor & mask
    result = (result ^ result >> 13) * factor & mask
    return (result ^ result >> 15) & 0x7FFFFFFF


def test_partition_of_every_key_is_its_murmur2_hash(workbench) -> None:
    partitions = produce_keys(workbench, 7)
    assert partitions == {key: compute_murmur2(key) % 7 for key in partitions}
    assert {0, 1, 2, 3, 4, 5, 6} == {*partitions.values()}


# updates, deletes and a rollback: any snapshot is a difference of rows
# of the hash of a key a quick test asks a second implementation, this one Java's client
@pytest.mark.repeats("test_partition_of_every_key_is_its_murmur2_hash")
def test_partition_of_every_key_is_what_the_java_client_chooses(workbench, tmp_path) -> None:
    partitions = produce_keys(workbench, 7)
    source = tmp_path / "Partitions.java"
    source.write_text(JAVA)
    jars = ROOT / ".cache" / "jars" / "kafka" / "*"
    words = ["java", "-cp", str(jars), str(source), "7", *(key.hex() for key in partitions)]
    process = subprocess.run(words, capture_output=True, text=True, check=True, timeout=DEADLINE_SECONDS)
    assert [*partitions.values()] == [int(number) for number in process.stdout.split()]


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


@pytest.mark.repeats("unit/scenarios/test_stable_results.py::test_commands_tell_where_publications_stand")
def test_command_line_publishes_tells_and_validates(workbench) -> None:
    way = Way(workbench, "words")
    way.flush(k1="a", k2="b")
    planned = json.loads(workbench.run_cli("publish", "words", "--dry-run", "--json").stdout)
    assert (planned["publication"], planned["compared_with"]) == ("words", "everything")
    waiting = json.loads(workbench.run_cli("status", "words", "--json").stdout)["publications"][0]
    assert (waiting["published_snapshot_id"], waiting["waiting"]["parts"]) == (None, 4)
    process = workbench.run_cli("publish", "words", "--json")
    assert json.loads(process.stdout)["inserted"] == 2, process.stderr
    second_process = workbench.run_cli("publish", "words")
    assert (second_process.returncode, "nothing came since" in second_process.stdout) == (0, True)
    status = json.loads(workbench.run_cli("status", "--json").stdout)["publications"][0]
    assert status["published_snapshot_id"] == status["table_snapshot_id"] == planned["to_snapshot_id"]
    assert workbench.run_cli("validate").stdout.splitlines() == ["words: ok", "words: ok"]


def test_avro_and_protobuf_are_what_deserializers_read_and_a_key_of_another_schema_is_refused(
    workbench, registry
) -> None:
    """Each key contains the schema's id: old keys would stay beside the new ones, and no delete would reach them."""
    avro, protobuf = ({"format": word, word: {"registry": registry.url}} for word in ("avro", "protobuf"))
    sql = "SELECT *, map(name, named_struct('a', id)) AS more FROM {table}"
    settings = {"key": {"fields": ["price"], **avro}, "value": {"fields_include": "EXCEPT_KEY", **protobuf}}
    way = Way(workbench, "both", sql=sql, start="full", parallelism=1, **settings)
    table = create_table(way, build_rows(k1="a", k2="b"), ROWS)
    way.publish()
    messages = read(workbench, way.topic)
    values = {read_avro(registry, way.topic, "key", m.key())["price"]: m.value() for m in messages}
    assert values.keys() == {Decimal("1.50"), Decimal("2.50")}
    assert_protobuf_value(read_protobuf(registry, way.topic, "value", values[Decimal("1.50")]))
    assert set(registry.subjects) == {f"{way.topic}-key", f"{way.topic}-value"}

    with table.update_schema() as update:
        update.update_column("price", DecimalType(14, 2))
    table.delete("id = 2")
    with pytest.raises(GiveUp, match=r"key_form=0000000001 and now key_form=00000000\d\d.*--resynchronise"):
        way.publish()
    assert len(read(workbench, way.topic)) == 2, "nothing was produced"


def read_avro(registry: SchemaRegistry, topic: str, part: str, data: bytes) -> Any:
    """By Confluent's deserializer."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import SerializationContext

    return AvroDeserializer(SchemaRegistryClient({"url": registry.url}))(data, SerializationContext(topic, part))


def read_protobuf(registry: SchemaRegistry, topic: str, part: str, data: bytes) -> Any:
    """By Confluent's deserializer, with the message that was registered."""
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
    from confluent_kafka.serialization import SerializationContext
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    (number,) = registry.subjects[f"{topic}-{part}"]
    assert data[:5] == b"\x00" + number.to_bytes(4, "big")
    file = FileDescriptorProto.FromString(base64.b64decode(registry.schemas[number]["schema"]))
    deserialize = ProtobufDeserializer(next(iter(build_classes(file).values())), {"use.deprecated.format": False})
    return deserialize(data, SerializationContext(topic, part))


def assert_protobuf_value(value: Any) -> None:
    assert (value.id, value.name, value.at.ToMicroseconds()) == (1, "a", 1767225601000001)
    assert value.more["a"].a == 1


# the other format in each part; rows of all types are read back in tests of records and messages
@pytest.mark.repeats("test_avro_and_protobuf_are_what_deserializers_read_and_a_key_of_another_schema_is_refused")
def test_both_parts_in_avro_or_protobuf_are_what_deserializers_read(workbench, registry) -> None:
    avro = {"format": "avro", "avro": {"registry": registry.url}}
    sql = "SELECT *, array(named_struct('a', id, 'b', CAST(at AS DATE))) AS more FROM {table}"
    way = Way(workbench, "avro", sql=sql, key={"fields": ["price"], **avro}, value=avro, start="full", parallelism=1)
    create_table(way, build_rows(k1="a", k2="b"), ROWS)
    way.publish()
    records = [
        tuple(read_avro(registry, way.topic, part, data) for part, data in (("key", m.key()), ("value", m.value())))
        for m in read(workbench, way.topic)
    ]
    assert sorted(records, key=lambda record: record[1]["id"]) == [
        (
            {"price": Decimal(f"{id}.50")},
            {
                "id": id, "name": name, "price": Decimal(f"{id}.50"), "at": datetime(2026, 1, 1, 0, 0, id, id, UTC),
                "more": [{"a": id, "b": date(2026, 1, 1)}],
            },
        )
        for id, name in ((1, "a"), (2, "b"))
    ]  # fmt: skip

    protobuf = {"format": "protobuf", "protobuf": {"registry": registry.url}}
    sql = "SELECT id, name, at, map(name, named_struct('a', id)) AS more FROM {table} WHERE id = 1"
    other = Way.over(way, "protobuf", sql=sql, key={"fields": ["id"], **protobuf}, value=protobuf, parallelism=1)
    other.publish()
    (message,) = read(workbench, other.topic)
    assert read_protobuf(registry, other.topic, "key", message.key()).id == 1
    assert_protobuf_value(read_protobuf(registry, other.topic, "value", message.value()))


# the refusal; old keys are deleted by a comparison like keys that the table never had
@pytest.mark.repeats("test_avro_and_protobuf_are_what_deserializers_read_and_a_key_of_another_schema_is_refused")
def test_key_whose_schema_has_changed_is_refused_until_the_topic_is_compared(workbench, registry) -> None:
    """The old keys are deleted then, and each row is there under its new one."""
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


@pytest.mark.repeats("unit/scenarios/test_publications.py::test_change_of_a_joined_table_counts_like_one_of_the_table")
def test_joined_table_enriches_the_records_and_its_own_changes_are_followed(workbench) -> None:
    join = "{table} t LEFT JOIN {lake.shop.labels} l ON l.name = t.name"
    sql = f"SELECT t.id, t.name, l.label FROM {join}"
    count = f"SELECT coalesce(l.label, 'none') AS label, count(*) AS n FROM {join} GROUP BY coalesce(l.label, 'none')"
    way = Way(workbench, "joined", sql=sql, create={"partitions": 1}, parallelism=1)
    with pytest.raises(NothingToDo):
        way.publish()
    schema = pyarrow.schema([("id", pyarrow.int64()), ("name", pyarrow.string())])
    table = create_table(way, [{"id": id, "name": name} for id, name in enumerate("abc", 1)], schema)
    schema = pyarrow.schema([("name", pyarrow.string()), ("label", pyarrow.string())])
    labels = create_table(way, [{"name": "a", "label": "first"}], schema, "labels")
    counted = Way.over(way, "counted", sql=count, key={"fields": ["label"]}, parallelism=1)

    def publish_counts() -> dict[str, Any]:
        counted.publish()
        return {value["label"]: value["n"] for value in counted.read_latest().values()}

    def publish_both() -> tuple[Any, dict[str, Any]]:
        result = way.publish()
        return (result.inserted, result.updated, result.deleted), publish_counts()

    assert publish_both() == ((3, 0, 0), {"first": 1, "none": 2})
    write_rows(table, [{"id": id, "name": name} for id, name in ((3, "a"), (4, "x"), (5, "a"))], "id >= 2")
    assert publish_both() == ((2, 1, 1), {"first": 3, "none": 1})
    assert {k: (v["name"], v["label"]) for k, v in way.read_latest().items()} == {
        '{"id":1}': ("a", "first"), '{"id":3}': ("a", "first"), '{"id":4}': ("x", None), '{"id":5}': ("a", "first"),
    }  # fmt: skip
    write_rows(labels, [{"name": name, "label": "third"} for name in "ac"], "name == 'a'")
    assert publish_counts() == {"third": 3, "none": 1}, "groups of rows that were not touched themselves"


@pytest.mark.guard(
    "publication: a key with another row in an unchanged file is not deleted",
    file="jobs/tidegate_spark/publish/table_changes.py",
    text="    if job.touched is not None and job.grouped is None:\n",
    off="    if False:\n",
)
def test_key_with_a_copy_in_another_file_is_refused_and_outlives_the_copy_and_new_fields_of_structs_change_no_row(
    workbench,
) -> None:
    """Only touched files are compared: the other row of the key lies in one that was not touched."""
    way, number = Way(workbench, "gained"), pyarrow.struct([("a", pyarrow.int64())])
    kinds = {"id": pyarrow.int64(), "s": number, "l": pyarrow.list_(number), "m": pyarrow.map_(pyarrow.int64(), number)}
    schema = pyarrow.schema({**kinds, "old": pyarrow.int64()})

    def build_row(id: int) -> dict[str, Any]:
        return {"id": id, "s": {"a": id}, "l": [{"a": id}], "m": [(id, {"a": id})], "old": None if id == 1 else id}

    table = create_table(way, [build_row(0)], schema)
    table.append(pyarrow.Table.from_pylist([build_row(id) for id in (1, 2, 3)], schema))
    way.write_publication(parallelism=1, start={"snapshot": table.current_snapshot().snapshot_id})
    table.append(pyarrow.Table.from_pylist([{**build_row(0), "s": {"a": 5}, "old": 77}], schema))
    with pytest.raises(BadRecord, match=r'key=\{"id":0\}: it has several rows'):
        way.publish()
    assert way.read_records() == [], "nothing was produced"

    way = Way.over(way, "gained", parallelism=1, start={"snapshot": table.current_snapshot().snapshot_id})
    table.delete("old == 77")
    with table.update_schema() as update:
        update.add_column(("s", "b c"), StringType()).add_column(("l", "c"), IntegerType())
        update.add_column(("m", "d"), StructType(NestedField(90, "e", IntegerType(), required=False)))
        update.delete_column("old")
    with table.update_schema() as update:
        update.add_column("old", StructType(NestedField(91, "f", IntegerType(), required=False)))
    same = {"l": [{"a": 2, "c": None}], "old": None}
    struct = {"a": 7, "b c": "x"}
    write_rows(table, [{"id": 2, "s": struct, "m": [(2, {"a": 2, "d": None})], **same}], "id == 2")
    result = way.publish()
    assert (result.inserted, result.updated, result.deleted) == (0, 2, 0)
    assert way.read_latest() == {
        '{"id":0}': {
            "id": 0, "s": {"a": 0, "b c": None}, "l": [{"a": 0, "c": None}], "m": {"0": {"a": 0, "d": None}},
            "old": None,
        },
        '{"id":2}': {"id": 2, "s": struct, "m": {"2": {"a": 2, "d": None}}, **same},
    }, "the row that is left, and no tombstone"  # fmt: skip
    way.write_publication(table="lake.shop.gained", sql="SELECT id, gone FROM {table}", parallelism=1)
    with pytest.raises(ConfigurationError, match=r"the SQL over the table's columns: .*gone"):
        way.publish(resynchronise=True)


COPIED = """SELECT *, CAST(at AS DATE) AS Day, CAST(name AS BINARY) AS bytes, CAST(id AS DOUBLE) / 3 AS third,
    array(named_struct('a', id, 'b', CAST(NULL AS STRING))) AS more FROM {table}"""


@pytest.mark.repeats("test_change_events_carry_both_rows_and_a_second_pipeline_makes_the_table_of_them")
def test_row_before_a_change_is_read_of_events_alone(spark) -> None:
    """A topic whose format was changed also holds rows, which may have a column `after`."""
    from tidegate_spark.publish.record_encoding import render_row_of_event

    row = '{"id":1,"price":1234567890.10,"after":"x"}'
    texts = [f'{{"after":{row},"before":null,"op":"c"}}', row, f'{{"after":{row}}}', '{"after":null,"op":"d"}', "x"]
    events = spark.createDataFrame(
        [(number, text.encode()) for number, text in enumerate(texts)], "n INT, event BINARY"
    )
    found = events.selectExpr("n", f"{render_row_of_event('event')} AS row").orderBy("n").collect()
    assert [found_row.row and bytes(found_row.row).decode() for found_row in found] == [row, None, None, None, None]


def test_change_events_carry_both_rows_and_a_second_pipeline_makes_the_table_of_them(workbench) -> None:
    """Deletes have the row before them, and a tombstone behind, so that the topic may be compacted."""
    settings = {"value": {"format": "debezium-json"}, "create": {"partitions": 2}, "parallelism": 2}
    way = Way(workbench, "changes", sql=COPIED, delivery="exactly-once", **settings)
    schema = f"{VALUE['schema']}, Day DATE, bytes BINARY, third DOUBLE, more ARRAY<STRUCT<a: BIGINT, b: STRING>>"
    tables = [{"name": "lake.shop.copy"}, {"name": "lake.shop.Logged", "upsert": False, "delete": False}]
    value = {"format": "debezium-json", "schema": schema}
    workbench.pipeline("copy", [way.topic], key=KEY, value=value, tables=tables)
    seen = 0

    def read_new() -> list[tuple[Any, ...]]:
        """Of each new record: its key, what happened, the names before and after, and its headers."""
        nonlocal seen
        records = [(json.loads(m.key())["id"], m.value() and json.loads(m.value()), m.headers()) for m in list_all()]
        new, seen = records[seen:], len(records)
        return sorted(
            ((id, event and event["op"], *find_names(event or {}), headers) for id, event, headers in new), key=str
        )

    def list_all() -> list[Any]:
        return sorted(read(workbench, way.topic), key=lambda message: message.timestamp())

    def find_names(event: dict[str, Any]) -> list[str | None]:
        return [row and row["name"] for row in (event.get("before"), event.get("after"))]

    table = create_table(way, build_rows(k1='a;"b"', k2="b", k3="c", k4="d"), ROWS)
    first = way.publish()
    event = json.loads(list_all()[0].value())
    assert (event["source"]["table"], event["source"]["db"], event["source"]["snapshot_id"]) == (
        "changes",
        "shop",
        first.to_snapshot_id,
    )
    read_kind = [("tidegate.row-kind", b"+I")]
    assert read_new() == [(n, "r", None, name, read_kind) for n, name in enumerate(('a;"b"', "b", "c", "d"), 1)]

    write_rows(table, build_rows(k1="a2", k5="e"), "id <= 2")
    changed = way.publish()
    assert (changed.inserted, changed.updated, changed.deleted) == (1, 1, 1)
    assert read_new() == [
        (1, "u", 'a;"b"', "a2", [("tidegate.row-kind", b"+U")]),
        (2, "d", "b", None, [("tidegate.row-kind", b"-D")]),
        (2, None, None, None, None),
        (5, "c", None, "e", [("tidegate.row-kind", b"+I")]),
    ]
    workbench.flush("copy")
    tables = (f"({COPIED.format(table='lake.shop.changes')})", "lake.shop.copy")
    with workbench.open_spark() as session:
        way_rows, copied_rows = (session.sql(f"SELECT * FROM {rows} ORDER BY id").collect() for rows in tables)
    assert copied_rows == way_rows
    logged = [(row["id"], row["name"]) for row in workbench.read_rows("shop.Logged")]
    assert sorted(logged) == [(1, "a2"), (1, 'a;"b"'), (2, "b"), (3, "c"), (4, "d"), (5, "e")]

    place = next({"partition": m.partition()} for m in list_all() if m.key() == b'{"id":1}')
    unknown = '{"after":{"id":9,"name":"x","price":1234567890.10},"before":null,"op":"c"}'
    wrong = '{"after":{"id":1,"name":"wrong"},"op":"c"}'
    far = {"partition": compute_murmur2(b'{"id":9}') % 2}
    workbench.produce(way.topic, ('{"id":1}', wrong, place), ('{"id":9}', unknown, far))
    way.publish(resynchronise=True)
    assert [record[:4] for record in read_new()] == [
        (1, "c", None, "wrong"),
        (1, "u", "wrong", "a2"),
        (9, "c", None, "x"),
        (9, "d", "x", None),
        (9, None, None, None),
    ]
    deleted = next(m.value() for m in reversed(list_all()) if m.key() == b'{"id":9}' and m.value())
    assert b'"before":{"id":9,"name":"x","price":1234567890.10}' in deleted
