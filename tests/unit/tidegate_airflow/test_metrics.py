"""Gauges as Airflow's own StatsD client takes them: each is sent, whatever the table is called."""

import logging
from typing import Any

import pytest
from airflow.sdk._shared.observability.metrics.statsd_logger import SafeStatsdLogger
from airflow.sdk.observability import stats
from tidegate_airflow.tasks import send_pipeline_metrics, send_publication_metrics

LONG_NAME = "lake.shop." + "orders_" * 60


class Wire:
    """What StatsD's client is told to send."""

    def __init__(self) -> None:
        self.sent: dict[str, float] = {}

    def gauge(self, name: str, value: float, *_: Any) -> None:
        self.sent[name] = value


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    wire = Wire()
    monkeypatch.setattr(stats, "gauge", SafeStatsdLogger(wire).gauge)
    return wire


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ("lake.shop.orders", "lake_shop_orders"),
        ("lake.shop.Größe 1", "lake_shop_Gr__e_1"),
        ("lake.shop.orders:2024(eu)", "lake_shop_orders_2024_eu_"),
        (LONG_NAME, None),
    ],
)
def test_gauge_of_a_table_is_sent_whatever_the_table_is_called(
    wire: Wire, table: str, place: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        send_pipeline_metrics("shop", {"batch.seconds": 1.5, "batch.bytes_written": 7.0}, table)
    assert caplog.records == []
    assert sorted(wire.sent.values()) == [1.5, 1.5, 7.0, 7.0]
    assert wire.sent.keys() >= {"tidegate.batch.seconds", "tidegate.batch.bytes_written"}
    if place is not None:
        assert wire.sent[f"tidegate.batch.seconds.shop.{place}"] == 1.5


def test_gauge_of_a_publication_keeps_its_name(wire: Wire) -> None:
    send_publication_metrics("orders-out", {"behind": 3.0})
    assert wire.sent == {"tidegate.publish.behind": 3.0, "tidegate.publish.behind.orders-out": 3.0}
