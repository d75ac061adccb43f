"""BigQuery as a destination, on a local server that answers like it: the whole way of a batch, and what is left."""

from decimal import Decimal
from typing import Any

KEY = {"format": "json", "fields": ["id"], "schema": "id BIGINT"}
VALUE = {"format": "json", "schema": "id BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP"}


def order(id: int, name: str) -> tuple[Any, Any]:
    value = {"id": id, "name": name, "amount": "1.50", "at": "2026-01-02T03:04:05.678901Z"}
    return {"id": id}, value


def test_upserts_and_deletes_end_as_the_last_record_says_and_clean_up_leaves_nothing(dwh: Any) -> None:
    bench = dwh.bench
    topic = bench.topic()
    name = dwh.pipeline("orders", [topic], key=KEY, value=VALUE)
    bench.produce(topic, order(1, "a"), order(2, "b"), order(3, "c"), order(2, "b2"))
    (first,) = bench.flush(name).published
    bench.produce(topic, order(1, "a2"), ({"id": 3}, None), order(4, "d"), ({"id": 9}, None))
    (second,) = bench.flush(name).published
    assert [(row["id"], row["name"]) for row in dwh.rows("orders")] == [(1, "a2"), (2, "b2"), (4, "d")]
    assert dwh.rows("orders")[0]["amount"] == Decimal("1.50")
    assert dwh.rows("orders")[0]["at"].isoformat() == "2026-01-02T03:04:05.678901+00:00"
    assert (first.inserted, first.updated, first.deleted) == (3, 0, 0)
    assert (second.inserted, second.updated, second.deleted) == (1, 1, 1)
    assert bench.committed(name) == {topic: {0: 8}}
    assert dwh.left() == []
    assert dwh.rows("orders_orders_tmp") == []
