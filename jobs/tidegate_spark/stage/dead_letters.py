"""Records that cannot be decoded, staged beside the rows of their batch instead of failing it."""

from collections.abc import Sequence

from tidegate.jobs.stage_job import StageTable
from tidegate.sql.spark import render_literal

# beside the changes' own letters, so that no merge takes it for a row
DEAD_LETTER_OP = "bad"
DEAD_LETTER_DISPOSITION = "dead_lettered"


def render_bad_disposition(table: StageTable) -> str:
    if table.skips is not None:
        places = [
            f"WHEN topic = {render_literal(topic)} AND partition = {partition} AND offset = {offset} "
            f"THEN '{DEAD_LETTER_DISPOSITION}'"
            for topic, partition, offset in table.skips
        ]
        return f"(CASE {' '.join(places)} ELSE 'bad' END)" if places else "'bad'"
    return "'bad'" if table.set_aside is None else f"'{DEAD_LETTER_DISPOSITION}'"


def render_failed_stage() -> str:
    # what is neither reason is a rule about the value, as of fields that no column holds
    return (
        "CASE WHEN key_reason IS NOT NULL THEN 'key' WHEN coalesce(value_reason, reason) IS NOT NULL THEN 'value' END"
    )


def add_bad_column(columns: Sequence[str], table: StageTable) -> list[str]:
    """Extend the intermediate row's `columns` (`expression AS name`, or names) to hold bad records too.

    A bad record has its bytes and the reason in `bad`, and neither key nor value.
    """
    if table.set_aside is None:
        return list(columns)
    is_bad = f"fate = '{DEAD_LETTER_DISPOSITION}'"
    expressions = []
    for column in columns:
        expression, _, name = column.rpartition(" AS ")
        if name == "op":
            expressions.append(f"CASE WHEN {is_bad} THEN {_render_bad()} END AS bad")
            expressions.append(
                f"CASE WHEN {is_bad} THEN {render_literal(DEAD_LETTER_OP)} ELSE {expression or name} END AS op"
            )
        elif name in ("key", "value", "sequence"):
            expressions.append(f"CASE WHEN NOT {is_bad} THEN {expression or name} END AS {name}")
        else:
            expressions.append(column)
    return expressions


def _render_bad() -> str:
    return (
        "named_struct('key', key, 'value', value, 'headers', headers, 'stage', failed_stage, "
        "'class', concat('Undecodable', initcap(failed_stage)), 'message', reason)"
    )
