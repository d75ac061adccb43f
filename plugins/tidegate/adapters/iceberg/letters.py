"""The dead-letter table in Iceberg, as status and the command line read it."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysFalse,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    NotIn,
    Or,
)
from pyiceberg.expressions.literals import literal

from tidegate.adapters.iceberg.catalog import IcebergPort
from tidegate.adapters.iceberg.errors import translate_iceberg_errors
from tidegate.adapters.iceberg.types import clamp_times
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import DISCARDED_STAGE, DeadLetter, DeadLetters, WaitingLetter
from tidegate.ports.destination import DeadLetterStore

MAX_FILTER_RANGES = 100  # with more, each file of letters would be compared with too many
LETTER_ADDRESS = ("topic", "partition", "offset")
WAITING = IsNull(term="replayed_at")


class IcebergDeadLetters(IcebergPort, DeadLetterStore):
    """Letters are read from Iceberg's files, of which manifests rule out most; Spark reads them itself for a replay."""

    @translate_iceberg_errors
    def read_dead_letters(self, name: str, limit: int) -> DeadLetters:
        table = self.catalogs.table(name)
        if table is None:
            return DeadLetters()
        # letters stay for years: only files in which some wait, or were discarded, are opened; keys and values are read
        # of the newest `limit` alone
        waiting_letters = table.scan(row_filter=WAITING, selected_fields=("written_at",)).to_arrow()
        newest: tuple[DeadLetter, ...] = ()
        if limit and waiting_letters.num_rows:
            times: list[datetime] = sorted(waiting_letters["written_at"].to_pylist(), reverse=True)
            since = times[min(limit, len(times)) - 1]
            row_filter = And(WAITING, GreaterThanOrEqual(term="written_at", value=since.isoformat()))
            order = [("written_at", "descending"), *((name, "descending") for name in LETTER_ADDRESS)]
            newest = tuple(_build_letters(table.scan(row_filter=row_filter).to_arrow().sort_by(order).slice(0, limit)))
        handled_count = table.scan(selected_fields=("stage",)).count() - waiting_letters.num_rows
        is_discarded = EqualTo(term="stage", value=DISCARDED_STAGE)
        discarded = table.scan(row_filter=is_discarded, selected_fields=("stage",)).count()
        return DeadLetters(waiting_letters.num_rows, handled_count - discarded, newest, discarded)

    @translate_iceberg_errors
    def list_waiting_letters(self, name: str, table: str) -> list[WaitingLetter]:
        return self._list_places(name, And(_filter_destination(table), WAITING))

    @translate_iceberg_errors
    def list_replayed_letters(self, name: str, table: str, attempts: Collection[str]) -> list[WaitingLetter]:
        read = In(term="replayed_by", literals=set(map(literal, attempts)))
        return self._list_places(name, And(_filter_destination(table), read))

    def _list_places(self, name: str, row_filter: BooleanExpression) -> list[WaitingLetter]:
        letters = self.catalogs.table(name)
        if letters is None:
            return []
        rows = letters.scan(row_filter=row_filter, selected_fields=WaitingLetter._fields).to_arrow().to_pylist()
        return [WaitingLetter(**row) for row in rows]

    @translate_iceberg_errors
    def read_letters_of_attempt(self, name: str, table: str, attempt: str) -> list[DeadLetter]:
        letters = self.catalogs.table(name)
        if letters is None:
            return []
        row_filter = And(_filter_destination(table), EqualTo(term="attempt", value=attempt))
        order = [(name, "ascending") for name in LETTER_ADDRESS]
        return _build_letters(letters.scan(row_filter=row_filter).to_arrow().sort_by(order))

    @translate_iceberg_errors
    def count_letters_of_others(
        self, name: str, table: str, attempts: Sequence[str], ranges: Ranges
    ) -> Mapping[tuple[str, int], int]:
        letters = self.catalogs.table(name)
        parts = [part for part in ranges if part[3] > part[2]]
        if letters is None or not parts:
            return Counter()
        # asked before every merge: opens only files that may hold such offsets
        row_filter = And(
            _filter_destination(table),
            NotIn(term="attempt", literals=set(map(literal, attempts))),
            _filter_ranges(parts),
        )
        rows = letters.scan(row_filter=row_filter, selected_fields=LETTER_ADDRESS).to_arrow().to_pylist()
        return Counter((row["topic"], row["partition"]) for row in rows if ranges.contains(**row))


def _build_letters(rows: pa.Table) -> list[DeadLetter]:
    # a record may have a time that Python does not have
    return [DeadLetter.from_row(row) for row in clamp_times(rows, "timestamp").to_pylist()]


def _filter_destination(destination: str) -> BooleanExpression:
    # the table is partitioned by it
    return EqualTo(term="table", value=destination)


def _filter_offsets(start: int, end: int) -> BooleanExpression:
    return And(GreaterThanOrEqual(term="offset", value=start), LessThan(term="offset", value=end))


def _filter_ranges(parts: Sequence[tuple[str, int, int, int]]) -> BooleanExpression:
    if len(parts) > MAX_FILTER_RANGES:
        # very many ranges: only between the first and the last of all
        return _filter_offsets(min(part[2] for part in parts), max(part[3] for part in parts))
    places = (
        And(EqualTo(term="topic", value=topic), EqualTo(term="partition", value=number), _filter_offsets(start, end))
        for topic, number, start, end in parts
    )
    return Or(AlwaysFalse(), *places)
