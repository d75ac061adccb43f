"""Owns the truth: the shop's tables as the source database would hold them, and every change that happens to them."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

Row = dict[str, Any]
Key = tuple[int, ...]

KEYS = {"customers": ("id",), "orders": ("id",), "order_lines": ("order_id", "line")}
CITIES = ("Leipzig", "Graz", "Zürich", "Kraków", "Århus", "Porto", "東京", "Québec")
NAMES = ("Ada", "Björn", "Chloé", "Dieter", "Emre", "Fátima", "Grace", "Hồ", "Ivana", "Jürgen")
STATUSES = ("new", "paid", "packed", "shipped", "returned")
NOTES = (None, None, None, "leave at the door", 'says "quoted", with a comma', "ünïcödé ✓", "")
RECENT_KEYS = 200


@dataclass(frozen=True)
class Change:
    """One change of one row: `op` is r (snapshot), c, u or d. `after` is None for d; `before` is the whole old row."""

    table: str
    op: str
    key: Key
    before: Row | None
    after: Row | None
    sequence: int
    time_ms: int


@dataclass
class _Table:
    """Rows by key, with the keys in a list beside them so that a random one is found at once."""

    rows: dict[Key, Row] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)

    def put(self, key: Key, row: Row) -> None:
        if key not in self.rows:
            self.keys.append(key)
        self.rows[key] = row

    def drop(self, key: Key) -> Row:
        self.keys.remove(key)
        return self.rows.pop(key)


class Shop:
    """Customers, orders and order lines; every method that changes a row returns what a change log would say.

    `may_touch(table, key)` lets the caller keep rows unchanged for ever, e.g. those of a quiet partition.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._tables = {name: _Table() for name in KEYS}
        self._next_id = {"customers": 1, "orders": 1}
        self._sequence = 1_000_000
        self.may_touch: Callable[[str, Key], bool] = lambda table, key: True

    def get_rows(self, table: str) -> dict[Key, Row]:
        """The rows of a table now, by key."""
        return dict(self._tables[table].rows)

    def create_snapshot(self, customers: int, orders: int) -> Iterator[Change]:
        """Fill the empty shop: what a connector's first snapshot reads."""
        for _ in range(customers):
            yield self._put("customers", self._allocate_id("customers"), self._make_customer(), "r")
        for _ in range(orders):
            yield from self._create_order("r")

    def step(self) -> list[Change]:
        """Let one thing happen in the shop; an order with its lines is several changes of one transaction."""
        customers = (self._add_customer, self._edit_customer, self._delete_customer)
        orders = (self._place_order, self._update_order, self._cancel_order)
        lines = (self._edit_line, self._remove_line)
        weights = (4, 14, 2, 20, 35, 4, 16, 5)
        happens = self._random.choices((*customers, *orders, *lines), weights)[0]
        return list(happens())

    def lose_rows(self, table: str, share: float) -> list[Change]:
        """Delete that share of the rows that may be touched, as a source does that somebody truncates by mistake."""
        keys = [key for key in self._tables[table].keys if self.may_touch(table, key)]
        return [self._drop(table, key) for key in keys[: int(len(keys) * share)]]

    def _add_customer(self) -> Iterator[Change]:
        yield self._put("customers", self._allocate_id("customers"), self._make_customer(), "c")

    def _edit_customer(self) -> Iterator[Change]:
        if key := self._pick("customers"):
            row = {**self._tables["customers"].rows[key], "city": self._random.choice(CITIES), "updated_at": _get_now()}
            yield self._put("customers", key, {**row, "vip": not row["vip"]}, "u")

    def _delete_customer(self) -> Iterator[Change]:
        if key := self._pick("customers"):
            yield self._drop("customers", key)

    def _place_order(self) -> Iterator[Change]:
        yield from self._create_order("c")

    def _update_order(self) -> Iterator[Change]:
        if key := self._pick("orders"):
            status, note = self._random.choice(STATUSES), self._random.choice(NOTES)
            row = {**self._tables["orders"].rows[key], "status": status, "note": note, "updated_at": _get_now()}
            yield self._put("orders", key, row, "u")

    def _cancel_order(self) -> Iterator[Change]:
        """Delete an order after its lines, as a foreign key wants it."""
        if key := self._pick("orders"):
            for line in range(1, 10):
                if (*key, line) in self._tables["order_lines"].rows:
                    yield self._drop("order_lines", (*key, line))
            yield self._drop("orders", key)

    def _edit_line(self) -> Iterator[Change]:
        if key := self._pick("order_lines"):
            row = {**self._tables["order_lines"].rows[key], "quantity": self._random.randint(1, 99)}
            yield self._put("order_lines", key, row, "u")

    def _remove_line(self) -> Iterator[Change]:
        """Remove a line; half of the time it comes back at once under the same key."""
        if key := self._pick("order_lines"):
            yield self._drop("order_lines", key)
            if self._random.random() < 0.5:
                yield self._put("order_lines", key, self._make_line(), "c")

    def _create_order(self, op: str) -> Iterator[Change]:
        key = self._allocate_id("orders")
        lines = [self._make_line() for _ in range(self._random.randint(1, 4))]
        amount = sum((line["quantity"] * line["price"] for line in lines), Decimal(0))
        yield self._put("orders", key, self._make_order(amount), op)
        for number, line in enumerate(lines, start=1):
            yield self._put("order_lines", (*key, number), line, op)

    def _make_customer(self) -> Row:
        name = f"{self._random.choice(NAMES)} {self._random.randint(1, 9999)}"
        email = None if self._random.random() < 0.2 else f"{name.split()[1]}@example.com"
        city = self._random.choice(CITIES)
        return {
            "name": name,
            "email": email,
            "city": city,
            "vip": self._random.random() < 0.1,
            "updated_at": _get_now(),
        }

    def _make_order(self, amount: Decimal) -> Row:
        customer = self._random.choice(self._tables["customers"].keys)[0]
        order_time = _get_now() - timedelta(seconds=self._random.randint(0, 86400))
        first = {"customer_id": customer, "status": "new", "amount": amount, "note": self._random.choice(NOTES)}
        return {**first, "created_at": order_time, "updated_at": order_time}

    def _make_line(self) -> Row:
        price = Decimal(self._random.randint(1, 100_000)) / 100
        return {"sku": f"SKU-{self._random.randint(1, 999):04}", "quantity": self._random.randint(1, 9), "price": price}

    def _pick(self, table: str) -> Key | None:
        """A row to change, mostly a recent one, sometimes an old one; None when chance finds none."""
        keys = self._tables[table].keys
        if len(keys) < 10:
            return None
        key = self._random.choice(keys[-RECENT_KEYS:] if self._random.random() < 0.7 else keys)
        return key if self.may_touch(table, key) else None

    def _allocate_id(self, table: str) -> Key:
        while True:
            key = (self._next_id[table],)
            self._next_id[table] += 1
            if self.may_touch(table, key):
                return key

    def _put(self, table: str, key: Key, row: Row, op: str) -> Change:
        before = self._tables[table].rows.get(key)
        after = {**dict(zip(KEYS[table], key, strict=True)), **row}
        self._tables[table].put(key, after)
        return self._record_change(table, op, key, before, after)

    def _drop(self, table: str, key: Key) -> Change:
        return self._record_change(table, "d", key, self._tables[table].drop(key), None)

    def _record_change(self, table: str, op: str, key: Key, before: Row | None, after: Row | None) -> Change:
        self._sequence += self._random.randint(1, 400)
        return Change(table, op, key, before, after, self._sequence, int(time.time() * 1000))


def _get_now() -> datetime:
    return datetime.now(UTC)
