"""Assets of tables: each name that a table may have is one that Airflow takes, whatever its metadata lie in."""

from typing import Any

import pytest
from airflow.sdk.definitions import asset as airflow_asset
from tidegate_airflow.assets import build_complete_asset, build_table_asset, emit_asset_event

TABLE = "lake.bücher.straße_日本"
ENCODED = "lake.b%C3%BCcher.stra%C3%9Fe_%E6%97%A5%E6%9C%AC"


@pytest.mark.parametrize(
    ("database", "name"), [("postgresql://h/airflow", TABLE), ("sqlite:///a.db", TABLE), ("mysql://h/airflow", ENCODED)]
)
def test_table_with_other_letters_than_those_of_ascii_has_an_asset_on_every_database(
    monkeypatch: pytest.MonkeyPatch, database: str, name: str
) -> None:
    monkeypatch.setattr(airflow_asset, "SQL_ALCHEMY_CONN", database)
    assert build_table_asset(TABLE).name == name
    assert build_complete_asset(TABLE, "hour").name == f"{name}/hour"
    assert build_table_asset("lake.shop.orders").name == "lake.shop.orders"
    events: list[Any] = []
    counts = dict.fromkeys(("batch", "snapshot_id", "inserted", "updated", "deleted"), 1)
    context: Any = {"outlet_events": AnyAlias(events)}
    emit_asset_event(context, {**counts, "table": TABLE, "valid_through_ms": None}, "p")
    assert [asset.name for asset in events] == [name], "a merge that is published does not fail for it"


class AnyAlias:
    """Outlet events that keep the assets that are added."""

    def __init__(self, events: list[Any]) -> None:
        self._events = events

    def __getitem__(self, _: Any) -> "AnyAlias":
        return self

    def add(self, asset: Any, extra: Any) -> None:
        self._events.append(asset)
