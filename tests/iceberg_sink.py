"""An Iceberg sink of Kafka Connect in a test: its table, its notes and its topics, as the connector leaves them."""

import json
from typing import Any

import pyarrow as pa
from control_events import GROUP, TABLE, load_control_events
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

EVENTS = load_control_events()
FIELDS = [
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "_kafka_metadata_topic", StringType(), required=False),
    NestedField(4, "_kafka_metadata_partition", IntegerType(), required=False),
    NestedField(5, "_kafka_metadata_offset", LongType(), required=False),
    NestedField(6, "_kafka_metadata_timestamp", LongType(), required=False),
]
PLACE = ("_kafka_metadata_topic", "_kafka_metadata_partition", "_kafka_metadata_offset")


class IcebergSink:
    """The state of a stopped Iceberg sink: a table with its notes, a control topic, and committed offsets."""

    def __init__(self, workbench: Any) -> None:
        self.bench = workbench
        self.topics = [workbench.topic(2), workbench.topic(2)]
        self.control = workbench.topic(2)
        self.sent = dict.fromkeys(((t, p) for t in self.topics for p in (0, 1)), 0)
        schema = Schema(*FIELDS)
        spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "_kafka_metadata_topic"))
        catalog = self._load_catalog()
        catalog.create_namespace("shop")
        catalog.create_table(TABLE, schema, partition_spec=spec, properties={"format-version": "2"})

    def _load_catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("lake", **self.bench.properties)

    def settings(self) -> dict[str, str]:
        """The connector's own."""
        return {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "topics": ",".join(self.topics),
            "iceberg.tables": TABLE,
            "iceberg.control.topic": self.control,
            "iceberg.catalog": "lake",
            "iceberg.catalog.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "iceberg.catalog.uri": "jdbc:sqlite:file:/elsewhere/catalog.db",
            "iceberg.catalog.warehouse": "file:///elsewhere",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "transforms": "meta",
            "transforms.meta.type": "org.apache.iceberg.connect.transforms.KafkaMetadataTransform",
        }

    def config(self) -> str:
        """A file of the settings, as the connector's REST address answers."""
        path = self.bench.folder / "events.json"
        path.write_text(json.dumps({"name": "events", "config": self.settings()}))
        return str(path)

    def produce(self, count: int) -> None:
        """So many records for each partition of each topic."""
        for topic, partition in self.sent:
            first = self.sent[topic, partition]
            self.sent[topic, partition] += count
            values = [{"id": n, "name": f"{topic}-{partition}"} for n in range(first, first + count)]
            self.bench.produce(topic, *((None, value, {"partition": partition}) for value in values))

    def take_over(self, upto: dict[tuple[str, int], int], since: dict[tuple[str, int], int] | None = None) -> None:
        """Announce files of these records, commit the table with the sink's notes, and commit the offsets."""
        self.bench.produce(self.control, (None, EVENTS["written"], {"partition": 1}))
        self.commit_group(GROUP, {t: {p: upto[t, p] for p in (0, 1)} for t in self.topics})
        rows = [
            {"id": n, "name": f"{t}-{p}", **dict(zip(PLACE, (t, p, n), strict=True))}
            for (t, p), end in upto.items()
            for n in range((since or {}).get((t, p), 0), end)
        ]
        self.commit_table(rows)

    def commit_table(self, rows: list[dict[str, Any]]) -> None:
        offsets = self.bench.read_ends(self.control)[self.control]
        notes = {
            f"kafka.connect.offsets.{self.control}.{GROUP}": json.dumps(offsets),
            "kafka.connect.commit-id": "c",
            "kafka.connect.valid-through-ts": "2026-01-01T00:00:00Z",
        }
        table = self._load_catalog().load_table(TABLE)
        table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()), snapshot_properties=notes)
        self.commit_group(f"{GROUP}-coord", {self.control: offsets})

    def commit_group(self, group: str, offsets: dict[str, dict[int, int]]) -> None:
        from confluent_kafka import Consumer, TopicPartition

        client = Consumer({"bootstrap.servers": self.bench.stack.kafka_bootstrap, "group.id": group, "log_level": 0})
        places = [TopicPartition(t, p, o) for t, parts in offsets.items() for p, o in parts.items()]
        client.commit(offsets=places, asynchronous=False)
        client.close()

    def read_places(self) -> list[tuple[str, int, int]]:
        """The topic, partition and offset of each row of the table, once per row."""
        return sorted(tuple(row[name] for name in PLACE) for row in self.bench.read_rows(TABLE))
