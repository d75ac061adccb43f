"""The demo's truth and its change events must say the same, and its verdict must not be fooled."""

import json
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from demo import product
from demo.change_events import Record, choose_partition, encode_key, to_records
from demo.generator import PARTITIONS, QUIET_PARTITION, QUIET_TABLE, _is_not_quiet
from demo.product import _to_progress, write_include
from demo.shop import KEYS, Change, Key, Row, Shop
from demo.story import FLOODED_PIPELINE
from demo.verdict import compare_table

TIMES = {"updated_at", "created_at"}
DECIMALS = {"amount", "price"}


@pytest.fixture(scope="module")
def lived() -> tuple[Shop, list[Change], list[Change]]:
    """A shop after a snapshot and a busy day, with the changes of both."""
    shop = Shop(seed=7)
    snapshot = list(shop.create_snapshot(customers=40, orders=80))
    shop.may_touch = _is_not_quiet
    return shop, snapshot, [change for _ in range(2000) for change in shop.step()]


def replay(changes: list[Change]) -> dict[str, dict[bytes, Row]]:
    """What a correct consumer holds after all records."""
    tables: dict[str, dict[bytes, Row]] = {}
    for record in (record for change in changes for record in to_records(change)):
        rows = tables.setdefault(record.topic.rpartition(".")[2], {})
        after = json.loads(record.value)["after"] if record.value else None
        if after is None:
            rows.pop(record.key, None)
        else:
            rows[record.key] = {name: _read(name, value) for name, value in after.items()}
    return tables


def _read(name: str, value: Any) -> Any:
    if name in TIMES:
        return datetime.fromisoformat(value)
    return Decimal(value) if name in DECIMALS else value


def test_the_events_replayed_give_the_truth(lived: tuple[Shop, list[Change], list[Change]]) -> None:
    shop, snapshot, changes = lived
    result = replay(snapshot + changes)
    for table in KEYS:
        assert result[table] == {encode_key(table, key): row for key, row in shop.get_rows(table).items()}


def test_every_kind_of_change_happens_to_every_table(lived: tuple[Shop, list[Change], list[Change]]) -> None:
    _, snapshot, changes = lived
    assert Counter(change.op for change in snapshot).keys() == {"r"}
    assert {(change.table, change.op) for change in changes} == {(table, op) for table in KEYS for op in "cud"}


def test_a_delete_is_followed_by_its_tombstone(lived: tuple[Shop, list[Change], list[Change]]) -> None:
    deletes = [to_records(change) for change in lived[2] if change.op == "d"]
    assert all(len(pair) == 2 and pair[0].key == pair[1].key and pair[1].value is None for pair in deletes)
    assert all(json.loads(pair[0].value or b"")["after"] is None for pair in deletes)


def test_the_quiet_partition_gets_nothing_after_the_snapshot(lived: tuple[Shop, list[Change], list[Change]]) -> None:
    def partitions(changes: list[Change]) -> set[int]:
        return {
            choose_partition(change.table, change.key, PARTITIONS) for change in changes if change.table == QUIET_TABLE
        }

    assert QUIET_PARTITION in partitions(lived[1])
    assert partitions(lived[2]) == set(range(PARTITIONS)) - {QUIET_PARTITION}


def test_events_have_the_connectors_forms() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=UTC)
    row = {"id": 1, "amount": Decimal("10.00"), "note": None, "updated_at": moment}
    (record,) = to_records(Change("orders", "u", (1,), row, row, 5, 1_767_323_045_000))
    assert record == Record("shop.public.orders", b'{"id":1}', record.value, 1_767_323_045_000)
    event = json.loads(record.value or b"")
    assert event["op"] == "u"
    assert event["before"] is None
    assert event["after"] == {"id": 1, "amount": "10.00", "note": None, "updated_at": "2026-01-02T03:04:05.000060Z"}
    assert event["source"]["table"] == "orders"


TRUTH: dict[Key, Row] = {(1,): {"id": 1, "name": "Ada"}, (2,): {"id": 2, "name": None}}


def test_an_equal_table_is_right_also_with_more_columns() -> None:
    verdict = compare_table("customers", TRUTH, [{"id": 2, "name": None, "x": 1}, {"id": 1, "name": "Ada", "x": 2}])
    assert verdict.ok
    assert [row["id"] for row in verdict.samples] == [1, 2]


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([{"id": 1, "name": "Ada"}], "key=(2,) is missing"),
        ([{"id": 1, "name": "Ada"}, {"id": 2, "name": None}, {"id": 3, "name": "x"}], "key=(3,) should not be there"),
        (
            [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}, {"id": 2, "name": None}],
            "key=(2,) occurs more than once",
        ),
        ([{"id": 1, "name": "Bob"}, {"id": 2, "name": None}], "key=(1,) column=name expected='Ada' found='Bob'"),
        ([{"id": 1}, {"id": 2, "name": None}], "key=(1,) column=name expected='Ada' found='no such column'"),
    ],
)
def test_a_wrong_table_is_named_row_by_row(rows: list[Row], complaint: str) -> None:
    verdict = compare_table("customers", TRUTH, rows)
    assert not verdict.ok
    assert verdict.wrong == [complaint]


def test_instants_are_compared_in_utc() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    truth: dict[Key, Row] = {(1,): {"id": 1, "updated_at": moment}}
    assert compare_table("customers", truth, [{"id": 1, "updated_at": moment.astimezone()}]).ok


def test_source_loses_most_rows_and_none_of_the_quiet_partition() -> None:
    shop = Shop(seed=3)
    snapshot = list(shop.create_snapshot(customers=40, orders=2))
    shop.may_touch = _is_not_quiet
    quiet = [key for key in shop.get_rows("customers") if not _is_not_quiet("customers", key)]
    changes = shop.lose_rows("customers", 0.75)
    assert len(changes) == int(0.75 * (40 - len(quiet)))
    assert {change.op for change in changes} == {"d"}
    assert set(quiet) <= shop.get_rows("customers").keys()
    rows = replay(snapshot + changes)["customers"]
    assert rows == {encode_key("customers", key): row for key, row in shop.get_rows("customers").items()}


def test_progress_says_what_waits_for_an_approval() -> None:
    table = {"rows": 3, "batch": 2, "valid_through": None, "problem": "batch=3: held for approval", "held": None}
    status = {"pipeline": "shop_customers", "tables": [table], "partitions": [], "batches": []}
    assert _to_progress(status).held is None
    assert _to_progress({**status, "tables": [{**table, "held": {"batch": 3}}]}).held == "batch=3: held for approval"


def test_pipeline_of_the_persons_own_beside_the_demo_is_none_of_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file added on the side ended the demo with KeyError: its batches belong to no table of the shop."""
    statuses = [{"pipeline": name, "partitions": [], "tables": []} for name in ("app_users", *product.PIPELINES)]

    def run_status(*_: Any) -> CompletedProcess[str]:
        return CompletedProcess([], 0, json.dumps({"pipelines": statuses, "publications": []}))

    monkeypatch.setattr(product, "_run_command", run_status)
    assert [member.pipeline for member in product.read_progress({})] == list(product.PIPELINES)


def test_pipelines_for_bigquery_leave_out_what_it_refuses(tmp_path: Path) -> None:
    for destination, has_rules in (("iceberg", True), ("bigquery", False)):
        write_include(tmp_path / destination, tmp_path / f"{destination}-tables", destination)
        text = (tmp_path / destination / "pipelines" / f"{FLOODED_PIPELINE}.yaml").read_text()
        (table,) = yaml.safe_load(text)["tables"]
        assert ("approve" in table) is has_rules
