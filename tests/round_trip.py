"""A pipeline into a table, a publication out of it, and a plain reader of what comes out."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow
import yaml
from tidegate.publications.publish import publish
from tidegate.publications.status import PublicationStatus, read_publication_status

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING, price DECIMAL(12,2), at TIMESTAMP"}
EAGER = {"compact": "always"}


class Way:
    """A pipeline into a table and a publication out of it, with a reader of what comes out."""

    def __init__(self, workbench: Any, name: str, **publication: Any) -> None:
        self.workbench, self.name = workbench, name
        self.source, self.topic = workbench.topic(), f"out-{workbench.topic()}"
        workbench.pipeline(name, [self.source], key=KEY, value=VALUE, maintenance=EAGER)
        self.write_publication(**publication)

    @classmethod
    def over(cls, other: "Way", name: str, **publication: Any) -> "Way":
        """Another publication of the same table."""
        round_trip = cls.__new__(cls)
        round_trip.workbench, round_trip.name, round_trip.source = other.workbench, name, other.source
        round_trip.topic = f"out-{round_trip.workbench.topic()}"
        round_trip.write_publication(table=f"lake.shop.{other.name}", **publication)
        return round_trip

    def write_publication(self, **options: Any) -> None:
        content = {"table": f"lake.shop.{self.name}", "topic": self.topic, "key": {"fields": ["id"]}}
        content["state_topic"] = f"{self.topic}-state"  # of this run, also on servers that are kept up
        folder = self.workbench.include / "publications"
        folder.mkdir(exist_ok=True)
        (folder / f"{self.name}.yaml").write_text(
            yaml.safe_dump({name: value for name, value in {**content, **options}.items() if value is not None})
        )

    def open_session(self) -> Any:
        from tidegate.wiring.publication import assemble_publication

        return assemble_publication(self.workbench.include, self.name, self.workbench.resolve())

    def publish(self, **words: Any) -> Any:
        return publish(self.open_session(), **words)

    def read_status(self) -> PublicationStatus:
        return read_publication_status(self.open_session())

    def flush(self, **rows: str | None) -> None:
        records = []
        for key, name in rows.items():
            number = int(key[1:])
            at = f"2026-01-01T00:00:{number % 60:02d}.000{number:03d}Z"
            value = None if name is None else {"id": number, "name": name, "price": f"{number}.50", "at": at}
            records.append(({"id": number}, value))
        self.workbench.produce(self.source, *records)
        self.workbench.flush(self.name)

    def read_records(self, topic: str | None = None) -> list[tuple[str, Any]]:
        return [
            (m.key().decode(), m.value() and json.loads(m.value())) for m in read(self.workbench, topic or self.topic)
        ]

    def read_latest(self) -> dict[str, Any]:
        """What a reader holds that keeps the last value of each key."""
        return {key: value for key, value in dict(self.read_records()).items() if value is not None}

    def read_table(self) -> dict[str, Any]:
        rows = self.workbench.read_rows(f"shop.{self.name}")
        text_rows = [{**r, "price": float(r["price"]), "at": r["at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")} for r in rows]
        return {json.dumps({"id": row["id"]}, separators=(",", ":")): row for row in text_rows}


ROWS = pyarrow.schema(
    {
        "id": pyarrow.int64(),
        "name": pyarrow.string(),
        "price": pyarrow.decimal128(12, 2),
        "at": pyarrow.timestamp("us", tz="UTC"),
    }
)


def build_rows(**names: str) -> list[dict[str, Any]]:
    """Rows as a flush of these names makes them."""
    return [
        {
            "id": (number := int(key[1:])),
            "name": name,
            "price": Decimal(f"{number}.50"),
            "at": datetime(2026, 1, 1, 0, 0, number, number, UTC),
        }
        for key, name in names.items()
    ]


def load_table(way: Way) -> Any:
    """The table as another writer sees it."""
    return way.workbench.load_iceberg(f"shop.{way.name}")


def create_table(way: Way, rows: list[dict[str, Any]], schema: pyarrow.Schema, name: str = "") -> Any:
    """A table that another writer made, of one data file: the publication's own, or the one of that name."""
    from tidegate.adapters.iceberg.catalog import Catalogs

    catalog = Catalogs({"lake": way.workbench.properties}).catalog("lake")
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table(f"shop.{name or way.name}", schema)
    table.append(pyarrow.Table.from_pylist(rows, schema))
    return table


def write_rows(table: Any, rows: list[dict[str, Any]], replaced: str) -> None:
    """Replace the rows that a filter finds, as another writer does: their data files are written again."""
    table.overwrite(pyarrow.Table.from_pylist(rows, table.schema().as_arrow()), overwrite_filter=replaced)


def read(workbench: Any, topic: str) -> list[Any]:
    """All committed records, in the order of each partition; none of a topic that does not exist."""
    return read_committed(workbench.stack.kafka_bootstrap, topic) if workbench.exists_topic(topic) else []


def read_committed(bootstrap: str, topic: str) -> list[Any]:
    """All committed records of a topic, in the order of each partition."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {
        "group.id": "reader",
        "enable.partition.eof": "true",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": "10",
    }
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    partitions = set(consumer.list_topics(topic, timeout=60).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    messages = []
    while partitions:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is None:
            messages.append(message)
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            partitions.discard(message.partition())
    consumer.close()
    return messages
