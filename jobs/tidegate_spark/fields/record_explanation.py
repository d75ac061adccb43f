"""What the decoder makes of one record: the row or the reason, and field by field what is expected, found and taken."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from tidegate.jobs.stage_job import StageTable
from tidegate.jobs.stage_outcome import FieldExplanation, RecordExplanation, RecordOutline
from tidegate.schema.data_types import Column

Decode = Callable[[DataFrame, StageTable], DataFrame]
MAX_ROWS = 100  # of one record: an event may hold many, and the first bad one is explained
MAX_TEXT_CHARACTERS = 200
MAX_ROW_CHARACTERS = 4000  # the explanation travels as a property of a table
MAX_OUTLINE_CHARACTERS = 500  # of each of several records
MADE = "to_json(struct(key_struct AS key, value_struct AS value), map('ignoreNullFields', 'false')) AS made"


def build_explanation(records: DataFrame, table: StageTable, decode: Decode) -> RecordExplanation:
    """Explain the one record, if there is one.

    The verdicts are those of `decode`: for the whole record, and for columns that it can be asked about one by one.
    """
    rows = decode(records, table).selectExpr(
        "row_number", "fate", "reason", "failed_stage", "op", "key_reason", MADE
    ).limit(MAX_ROWS).collect()  # fmt: skip
    if not rows:
        return RecordExplanation(is_found=False)
    row = _choose_row(rows)
    fields = _FieldExplanation(records, _strip_rules(table), decode, row.row_number)
    made_values = json.loads(row.made)
    keys = fields.explain("key", table.key_columns, row.key_reason, made_values.get("key"))
    values = []
    if row.op != "d":
        values = fields.explain("value", table.value_columns, row.reason, made_values.get("value"))
    return RecordExplanation(
        is_found=True,
        rows=len(rows),
        fate=row.fate,
        reason=row.reason,
        stage=row.failed_stage,
        operation=row.op,
        row=None if row.reason else row.made[:MAX_ROW_CHARACTERS],
        fields=(*keys, *values),
    )


def build_outlines(records: DataFrame, table: StageTable, decode: Decode) -> RecordExplanation:
    """Say of each record what becomes of it, in the order of the log; one decoding for all of them."""
    decoded = decode(records, table)
    rows = decoded.selectExpr("topic", "partition", "offset", "row_number", "fate", "reason", "op", MADE).collect()
    by_place: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        by_place.setdefault((row.topic, row.partition, row.offset), []).append(row)
    outlines = []
    for (topic, partition, offset), own_rows in sorted(by_place.items()):
        first = _choose_row(own_rows)
        outlines.append(
            RecordOutline(
                topic=topic,
                partition=partition,
                offset=offset,
                rows=len(own_rows),
                fate=first.fate,
                reason=first.reason,
                operation=first.op,
                row=None if first.reason else first.made[:MAX_OUTLINE_CHARACTERS],
            )
        )
    return RecordExplanation(is_found=True, outlines=tuple(outlines))


def _choose_row(rows: Sequence[Row]) -> Row:
    """The first bad one, else the first."""
    return min(rows, key=lambda row: (row.reason is None, row.row_number))


def find_refused_columns(
    records: DataFrame, table: StageTable, columns: Sequence[Column], decode: Decode
) -> tuple[str, ...]:
    """Return those of these value columns that do not hold what the one record has; none if it is no row at all."""
    plain_table = replace(_strip_rules(table), value=table.value)
    return _FieldExplanation(records, plain_table, decode, 0).find_refused(columns)


def _strip_rules(table: StageTable) -> StageTable:
    return replace(
        table, value=replace(table.value, unknown_fields="ignore"),
        metadata={}, when=None, route=None, delete_when=None, naming=None, select=None, verified=(), sequence=(),
        unchanged=(), stages_kept=False, grouped=(), has_history=False, retracts=(),
    )  # fmt: skip


class _FieldExplanation:
    def __init__(self, records: DataFrame, table: StageTable, decode: Decode, row_number: int) -> None:
        self._records = records
        self._table = table
        self._decode = decode
        self._row_number = row_number

    def explain(
        self, part: str, columns: Sequence[Column], reason: str | None, row: dict[str, Any] | None
    ) -> list[FieldExplanation]:
        """Return one entry for each column; `accepted` is None if a column cannot be judged by itself."""
        texts = self._read_texts(part, columns)
        suspects = [c for c in columns if texts is None or texts[c.name] is not None or not c.nullable]
        reasons = self._find_reasons(part, suspects) if reason else {}
        return [_describe_field(part, column, texts, reasons, row if reason is None else None) for column in columns]

    def find_refused(self, columns: Sequence[Column]) -> tuple[str, ...]:
        """Decode the record for halves of the columns, and so on; of what is no row each half would be refused."""
        texts = self._read_texts("value", columns) or {}
        reasons = self._find_reasons("value", [column for column in columns if texts.get(column.name) is not None])
        return tuple(reasons or ())

    def _read_texts(self, part: str, columns: Sequence[Column]) -> dict[str, str | None] | None:
        texts = tuple(Column(column.name, "STRING") for column in columns)
        try:
            row = self._decode_row(part, texts, f"{part}_struct AS struct")
        except PySparkException:  # a format whose columns have their writer's types
            return None
        if row is None or row.why is not None or row.struct is None:
            return None
        # a key that is taken from rows has its own types whatever is asked for
        return {column.name: _to_text(value) for column, value in zip(columns, row.struct, strict=True)}

    def _find_reasons(self, part: str, columns: Sequence[Column]) -> dict[str, str] | None:
        if not columns:
            return {}
        try:
            row = self._decode_row(part, tuple(columns))
        except PySparkException:
            return None
        if row is None or row.why is None:
            return {}
        if len(columns) == 1:
            return {columns[0].name: row.why}
        half = len(columns) // 2
        first_reasons = self._find_reasons(part, columns[:half])
        other_reasons = self._find_reasons(part, columns[half:])
        return None if first_reasons is None or other_reasons is None else {**first_reasons, **other_reasons}

    def _decode_row(self, part: str, columns: tuple[Column, ...], *expressions: str) -> Row | None:
        keys, values = (columns, self._table.value_columns) if part == "key" else ((), columns)
        table = replace(self._table, key_columns=keys, value_columns=values)
        rows = self._decode(self._records, table).where(f"row_number = {self._row_number}")
        part_rows = rows.selectExpr(f"{part}_reason AS why", *expressions).limit(1).collect()
        return part_rows[0] if part_rows else None


def _describe_field(
    part: str,
    column: Column,
    texts: dict[str, str | None] | None,
    reasons: dict[str, str] | None,
    row: dict[str, Any] | None,
) -> FieldExplanation:
    value_text = _to_text(row.get(column.name)) if texts is None and row else texts[column.name] if texts else None
    reason = reasons.get(column.name) if reasons else None
    is_known = reasons is not None and (texts is not None or row is not None or reason is not None)
    if reason and texts is not None and value_text is None:
        reason = f"the {part} field {column.name} is required and missing"
    return FieldExplanation(
        part=part,
        name=column.name,
        type=column.type + ("" if column.nullable else " NOT NULL"),
        found=None if value_text is None else value_text[:MAX_TEXT_CHARACTERS],
        accepted=reason is None if is_known else None,
        reason=reason,
    )


def _to_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, Decimal | date) else json.dumps(value, default=str)
