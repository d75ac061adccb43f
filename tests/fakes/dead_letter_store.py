"""The port `DeadLetterStore` in memory."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tidegate.model.offsets import Ranges
from tidegate.model.table_state import (
    DeadLetter,
    DeadLetters,
    WaitingLetter,
)

from fakes.tables import Lake, Row, is_within


class MemoryDeadLetterStore(Lake):
    """Tables of dead letters."""

    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        rows = self.tables[name].read_rows() if name in self.tables else []
        waiting_rows = sorted((r for r in rows if r["replayed_at"] is None), key=lambda r: -r["written_at"])
        discarded_count = sum(row["stage"] == "discarded" for row in rows)
        replayed_count = len(rows) - len(waiting_rows) - discarded_count
        return DeadLetters(
            len(waiting_rows),
            replayed_count,
            tuple(_build_letter(row) for row in waiting_rows[:limit]),
            discarded_count,
        )

    def list_waiting_letters(self, name: str, table: str) -> list[WaitingLetter]:
        rows = self.tables[name].read_rows() if name in self.tables else []
        waiting_rows = (row for row in rows if row["table"] == table and row["replayed_at"] is None)
        return [
            WaitingLetter(
                *(r["topic"], r["partition"], r["offset"], r.get("topic_id"), r["message"]),
                datetime.fromtimestamp(r["written_at"] / 1000, UTC),
            )
            for r in waiting_rows
        ]

    def list_replayed_letters(self, name: str, table: str, attempts: Collection[str]) -> list[WaitingLetter]:
        rows = self.tables[name].read_rows() if name in self.tables else []
        replayed_rows = (row for row in rows if row["table"] == table and row.get("replayed_by") in set(attempts))
        return [_build_letter(row).place._replace(replayed_by=row["replayed_by"]) for row in replayed_rows]

    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[DeadLetter]:
        rows = self.tables[name].read_rows() if name in self.tables else []
        attempt_rows = [row for row in rows if (row["table"], row["attempt"]) == (table, attempt)]
        return sorted(
            map(_build_letter, attempt_rows), key=lambda letter: (letter.topic, letter.partition, letter.offset)
        )

    def copy_dead_letters(self, name: str, table: str, intermediate: str) -> str:
        return ""

    def count_letters_of_others(
        self, name: str, table: str, attempts: Sequence[str], ranges: Ranges
    ) -> Mapping[tuple[str, int], int]:
        rows = self.tables[name].read_rows() if name in self.tables else []
        rows_of_others = [row for row in rows if row["table"] == table and row["attempt"] not in attempts]
        return Counter((row["topic"], row["partition"]) for row in rows_of_others if is_within(row, ranges))


def _build_letter(row: Row) -> DeadLetter:
    """A dead letter as a reader gets it: bytes and moments, in every column."""
    moments = {name: datetime.fromtimestamp(row[name] / 1000, UTC) for name in ("timestamp", "written_at")}
    texts = {name: _encode(row[name]) for name in ("key", "value")}
    return DeadLetter.from_row({"error_class": "unreadable", **row, **moments, "headers": None, **texts})


def _encode(value: Any) -> bytes | None:
    return value if value is None else (value if isinstance(value, str) else json.dumps(value)).encode()
