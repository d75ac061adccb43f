"""Where a record's schema id lies: behind the magic byte in its bytes, or in a header. Decoders only know the former.

Other forms are brought into that one before a record is decoded, and back afterwards: dead letters hold what was sent.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.wire_format import OTHER_IDS, PLACES, WIRE
from tidegate.sql.spark import render_literal

from tidegate_spark.formats.decoded import NO_CHANGE

SENT_SUFFIX = "_tidegate_sent"
# bytes of the magic byte and an id
WIDE_HEADER_BYTES = 9
NARROW_HEADER_BYTES = 5
RECORD_PARTS = ("key", "value")


def format_header(number: int | str) -> str:
    """The magic byte and a schema's id, as `render_header` writes them."""
    return f"00{int(number):08X}"


def render_header(part: str) -> str:
    return f"hex(substring({part}, 1, {NARROW_HEADER_BYTES}))"


def render_body(part: str) -> str:
    return f"substring({part}, {NARROW_HEADER_BYTES + 1})"


def render_header_cases(
    part: str, numbers: Iterable[int | str] | None, refused: Mapping[str, str] | None = None
) -> str:
    """Return `WHEN … THEN …` for bytes without a magic byte and one of these schema ids; nothing without a registry.

    `refused`: by id, why the schema's records cannot be read.
    """
    if numbers is None:
        return ""
    headers = ", ".join(render_literal(format_header(number)) for number in numbers) or "''"
    return (
        f"WHEN length({part}) < {NARROW_HEADER_BYTES} OR hex(substring({part}, 1, 1)) <> '00' "
        f"THEN 'the {part} does not begin with the magic byte and a schema id' "
        f"{render_refused_cases(part, refused or {})} WHEN {render_header(part)} NOT IN ({headers}) "
        f"THEN concat('the {part} has schema id=', conv(hex(substring({part}, 2, 4)), 16, 10), "
        "', which is no version of its subject')"
    )


def render_refused_cases(part: str, reasons: Mapping[str, str]) -> str:
    """Return `WHEN … THEN …` for bytes with one of these schema ids, of which a reason says why they are bad."""
    return " ".join(
        f"WHEN {render_header(part)} = {render_literal(format_header(number))} "
        f"THEN {render_literal(f'the {part} has schema id={number}, whose {reason}')}"
        for number, reason in reasons.items()
    )


def normalize_wire_format(records: DataFrame, table: StageTable) -> DataFrame:
    """Put the magic byte and four bytes of schema id before the bytes of key and value.

    Bytes whose schema is unknown are left out, and `<part>_wire` says why.
    """
    wire_options = {part: _get_wire_options(table, part) for part in RECORD_PARTS}
    if not any(wire_options.values()):
        return records
    columns: dict[str, Column] = {}
    for part, wire in wire_options.items():
        columns[f"{part}{SENT_SUFFIX}"] = F.col(part)
        columns[f"{part}_wire"] = F.expr(_render_reason(part, wire)) if wire else F.lit(None).cast("string")
        if wire:
            columns[part] = F.expr(f"CASE WHEN {part} IS NOT NULL THEN coalesce({_render_bytes(part, wire)}, X'') END")
    changed_records = records.withColumns(columns)
    texts = {f"{part}_text": F.expr(f"CAST({part} AS STRING)") for part in RECORD_PARTS if wire_options[part]}
    return changed_records.withColumns(texts)


def restore_sent_bytes(decoded: DataFrame, table: StageTable) -> DataFrame:
    """Put back the bytes that were sent, and add what was wrong about their schema ids."""
    if not any(_get_wire_options(table, part) for part in RECORD_PARTS):
        return decoded
    sent_columns = {part: F.col(f"{part}{SENT_SUFFIX}") for part in RECORD_PARTS}
    reasons = {f"{part}_reason": F.expr(f"coalesce({part}_wire, {part}_reason)") for part in RECORD_PARTS}
    return decoded.withColumns({**sent_columns, **reasons})


def ignore_other_schemas(records: DataFrame, table: StageTable) -> DataFrame:
    """Let records with the schema of another record type, which the table ignores, change nothing."""
    conditions = []
    for part in RECORD_PARTS:
        other_headers = ", ".join(
            render_literal(format_header(n)) for n in _get_options(table, part).get(OTHER_IDS) or ()
        )
        if other_headers:
            conditions.append(f"coalesce({render_header(part)} IN ({other_headers}), false)")
    if not conditions:
        return records
    change = f"CASE WHEN {' OR '.join(conditions)} THEN '{NO_CHANGE}' ELSE change END"
    return records.withColumn("change", F.expr(change))


def render_schema_id(part: str, table: StageTable) -> str:
    """SQL: the id of the schema that the bytes were written with; NULL where none stands before them."""
    options = _get_options(table, part)
    if not any(options.get(name) for name in ("ids", "writers", OTHER_IDS)):
        return "CAST(NULL AS BIGINT)"
    has_id = f"startswith({part}, X'00') AND length({part}) >= {NARROW_HEADER_BYTES}"
    return f"CASE WHEN {has_id} THEN CAST(conv(hex(substring({part}, 2, 4)), 16, 10) AS BIGINT) END"


def render_schema_place(part: str, table: StageTable, index: int) -> str:
    """SQL: the subject (0) or the version (1) of the schema that the bytes were written with; NULL for one unknown."""
    places = _get_options(table, part).get(PLACES)
    if not places:
        return "CAST(NULL AS STRING)"
    known = f"from_json({render_literal(json.dumps(places))}, 'MAP<STRING, ARRAY<STRING>>')"
    schema_id = f"CAST({render_schema_id(part, table)} AS STRING)"
    names = (f"concat({schema_id}, ' ', topic)", schema_id)
    return f"get(coalesce({', '.join(f'try_element_at({known}, {name})' for name in names)}), {index})"


def _get_options(table: StageTable, part: str) -> dict[str, Any]:
    return (table.key if part == "key" else table.value).options


def _get_wire_options(table: StageTable, part: str) -> dict[str, Any]:
    return _get_options(table, part).get(WIRE) or {}


def _render_bytes(part: str, wire: dict[str, Any]) -> str:
    if wire["format"] == "apicurio":
        is_wide = f"startswith({part}, X'0000000000') AND length({part}) >= {WIDE_HEADER_BYTES}"
        return f"CASE WHEN {is_wide} THEN concat(X'00', {render_body(part)}) END"
    cases = []
    for header, (_, ids) in _list_headers(part, wire).items():
        index = f"substring({header}, {wire['width'] + 1})" if wire.get("width") else "X''"
        cases.append(f"WHEN {header} IS NOT NULL THEN concat({_render_schema_id(header, ids)}, {index}, {part})")
    return f"CASE {' '.join(cases)} ELSE {part} END"


def _render_reason(part: str, wire: dict[str, Any]) -> str:
    if wire["format"] == "apicurio":
        short = f"length({part}) < {WIDE_HEADER_BYTES} OR NOT startswith({part}, X'00')"
        return (
            f"CASE WHEN {short} THEN 'the {part} does not begin with the magic byte and a schema id of 8 bytes' "
            f"WHEN NOT startswith({part}, X'0000000000') THEN concat('the {part} has schema id=', "
            f"conv(hex(substring({part}, 2, 8)), 16, 10), ', which is no version of its subject') END"
        )
    unknown = " ".join(
        f"WHEN {part} IS NOT NULL AND {header} IS NOT NULL AND {_render_schema_id(header, ids)} IS NULL "
        f"THEN concat({render_literal(f'the {part} has the header {name}=')}, lower(hex({header})), "
        "', which names no version of its subject')"
        for header, (name, ids) in _list_headers(part, wire).items()
    )
    return f"CASE {unknown} END"


def _list_headers(part: str, wire: dict[str, Any]) -> dict[str, tuple[str, dict[str, int]]]:
    """Return the name and the ids of each header by its SQL: the last one of the name, as Kafka's clients do."""
    names = {name.format(part=part): ids for name, ids in wire["headers"].items()}
    last = "try_element_at(transform(filter(headers, h -> h.key = {}), h -> h.value), -1)"
    return {last.format(render_literal(name)): (name, ids) for name, ids in names.items()}


def _render_schema_id(header: str, ids: dict[str, int]) -> str:
    length = len(next(iter(ids), "")) // 2
    cases = " ".join(f"WHEN {render_literal(text)} THEN X'00{number:08X}'" for text, number in ids.items())
    return f"CASE hex(substring({header}, 1, {length})) {cases} END" if cases else "CAST(NULL AS BINARY)"
