"""Times that are shown: exact to the millisecond, and of records whose producer writes another unit as well."""

from typing import Any

import pytest
from fakes import World, build_pipeline
from tidegate.flush.flush import flush
from tidegate.monitoring.status import read_status
from tidegate.spec.time_text import format_time_ms, to_utc_datetime

IN_MICROSECONDS = 1_795_000_000_000_000  # a time of the year 2026, by a producer that should write milliseconds


@pytest.mark.parametrize(
    ("milliseconds", "time_text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_795_000_000_001, "2026-11-18T11:06:40.001Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "9999-12-31T23:59:59.999Z"),
        (IN_MICROSECONDS, "9999-12-31T23:59:59.999Z"),
        (2**63 - 1, "9999-12-31T23:59:59.999Z"),
        (-(2**63), "0001-01-01T00:00:00.000Z"),
    ],
)
def test_time_is_shown_within_the_years_that_others_can_read(milliseconds: int, time_text: str) -> None:
    assert format_time_ms(milliseconds) == time_text
    assert to_utc_datetime(milliseconds).utcoffset() is not None


def test_status_of_records_with_times_beyond_year_9999_is_shown() -> None:
    world = World()
    world.broker.create("orders", 1)
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"}, timestamp=IN_MICROSECONDS)
    flush(world.open_session(build_pipeline()))
    (table,) = read_status(world.open_session(build_pipeline()))["tables"]
    assert (table["valid_through"], table["lag"]) == ("9999-12-31T23:59:59.999Z", 0)


def test_publish_of_records_with_times_beyond_year_9999_is_announced_to_airflow() -> None:
    from tidegate_airflow.assets import emit_asset_event

    added: list[Any] = []

    class Events(dict[Any, Any]):
        def __missing__(self, _: Any) -> Any:
            return self

        def add(self, asset: Any, extra: dict[str, Any]) -> None:
            added.append((asset.name, extra["valid_through"]))

    published = {"table": "lake.shop.orders", "snapshot_id": 1, "valid_through_ms": IN_MICROSECONDS}
    counts = dict.fromkeys(("batch", "inserted", "updated", "deleted"), 1)
    emit_asset_event({"outlet_events": Events()}, {**published, **counts}, "orders")  # type: ignore[arg-type]
    assert added == [("lake.shop.orders", "9999-12-31T23:59:59.999000+00:00")]
