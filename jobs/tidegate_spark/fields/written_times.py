"""Times that are written as text, with the zone that stands behind them, 2026-03-29T02:30:00 Europe/Berlin.

Only names that mean one zone to everybody are read: Java takes BST for Asia/Dhaka. A time in an hour that clocks skip
is no moment; one that they show twice is the earlier one, as in Java. Every function returns SQL text.
"""

from tidegate.sql.spark import render_literal

# a moment is a whole date, and a time of day with at least minutes; Spark would add today's date to a time alone
TIMESTAMP_PATTERN = r"^[+-]?[0-9]{4,}-[0-9]{1,2}-[0-9]{1,2}(?:[T ][0-9]{1,2}:[0-9]{1,2}(?::[0-9.]+)?\s*%s)?$"
ZONE_PATTERN = r"(?:Z|[A-Za-z]+[A-Za-z0-9/_+:-]*|[+-][0-9:]+)?"
UTC_PATTERN = "(?:Z|UTC|[+-]00(?::?00)?)?"
# a time to the minute with a zone behind it
MINUTES_PATTERN = "^([^:]*:[0-9]{1,2})(?=[ ]*[A-Za-z+-])"
# a name behind the time of day; Z and offsets alone are no names
ZONE_NAME_PATTERN = ":[0-9.]+[ ]*([A-Za-z][A-Za-z0-9/_+:-]*)$"
CERTAIN_NAME_PATTERN = "^(?:Z|(?:UTC?|GMT)(?:[+-][0-9:]+)?|[A-Za-z]+/.+)$"
UNCERTAIN_NOTE = ": its zone is no offset, UTC, GMT or region such as Europe/Berlin"
SKIPPED_NOTE = ": the clocks of its zone skip that time"


def render_ends_without_name(text: str) -> str:
    """Whether the text ends as times do that name no zone: with two digits, or with one and a letter, Z."""
    return f"substring({text}, -2, 1) BETWEEN '0' AND '9'"


def render_with_seconds(text: str) -> str:
    """Add seconds if a zone stands behind the minutes: Spark reads it with those alone."""
    return f"regexp_replace({text}, '{MINUTES_PATTERN}', '$1:00')"


def render_certain_time(moment: str, text: str) -> str:
    """Return `moment`, a TIMESTAMP that was read from `text`; NULL if its zone is uncertain, or skips it."""
    name = _render_zone_name(text)
    local_time = f"CAST(from_utc_timestamp({moment}, {name}) AS TIMESTAMP_NTZ)"
    return (
        f"CASE WHEN {render_ends_without_name(text)} OR {moment} IS NULL OR {name} = '' "
        f"OR {name} RLIKE '{CERTAIN_NAME_PATTERN}' AND {local_time} = try_cast({text} AS TIMESTAMP_NTZ) "
        f"THEN {moment} END"
    )


def _render_zone_name(text: str) -> str:
    return f"regexp_extract({text}, '{ZONE_NAME_PATTERN}', 1)"


def render_misfit_reason(reason: str, text: str, kind: str) -> str:
    """Return why `text` is no value of a column's type, and for a time whether it is because of its zone."""
    if kind.strip().upper() != "TIMESTAMP":
        return render_literal(reason)
    text = render_with_seconds(text)
    moment = f"try_cast({text} AS TIMESTAMP)"
    zone_note = (
        f"CASE WHEN {moment} IS NULL OR {render_certain_time(moment, text)} IS NOT NULL THEN '' "
        f"WHEN {_render_zone_name(text)} RLIKE '{CERTAIN_NAME_PATTERN}' THEN {render_literal(SKIPPED_NOTE)} "
        f"ELSE {render_literal(UNCERTAIN_NOTE)} END"
    )
    return f"concat({render_literal(reason)}, {zone_note})"
