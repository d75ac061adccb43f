"""Local times that name their zone, 2026-03-29T02:30:00 Europe/Berlin: times that its clocks skip are no moments.

Clocks that are put forward skip an hour, and Java moves a time in it by that hour in silence. A time that clocks show
twice is the earlier one, as in Java. Every function returns SQL text.
"""

from tidegate.sql.spark import render_literal

# a time to the minute with a zone behind it
MINUTES_PATTERN = "^([^:]*:[0-9]{1,2})(?=[ ]*[A-Za-z+-])"
# a name behind the time of day; Z and offsets alone are no names
ZONE_NAME_PATTERN = ":[0-9.]+[ ]*([A-Za-z][A-Za-z0-9/_+:-]*)$"


def render_ends_without_name(text: str) -> str:
    """A condition: the text ends as times do that name no zone: with two digits, or with one and a letter, Z."""
    return f"substring({text}, -2, 1) BETWEEN '0' AND '9'"


def render_with_seconds(text: str) -> str:
    """The text of a time, with seconds where a zone stands behind its minutes: Spark reads it with those alone."""
    return f"regexp_replace({text}, '{MINUTES_PATTERN}', '$1:00')"


def render_existing_time(moment: str, text: str) -> str:
    """`moment`, a TIMESTAMP that was read from `text`; NULL where the clocks of the zone that it names skip it."""
    name = f"regexp_extract({text}, '{ZONE_NAME_PATTERN}', 1)"
    local_time = f"CAST(from_utc_timestamp({moment}, {name}) AS TIMESTAMP_NTZ)"
    return (
        f"CASE WHEN {render_ends_without_name(text)} OR {moment} IS NULL OR {name} = '' "
        f"OR {local_time} = try_cast({text} AS TIMESTAMP_NTZ) THEN {moment} END"
    )


def render_is_skipped_time(text: str) -> str:
    """A condition: the text is a time that the clocks of its zone skip; to be asked of texts that are no moment."""
    text = render_with_seconds(text)
    moment = f"try_cast({text} AS TIMESTAMP)"
    return f"{moment} IS NOT NULL AND {render_existing_time(moment, text)} IS NULL"


def render_misfit_reason(reason: str, text: str, kind: str) -> str:
    """The reason why `text` is no value of a column's type, and for such a time why it is none."""
    if kind.strip().upper() != "TIMESTAMP":
        return render_literal(reason)
    skipped_note = (
        f"CASE WHEN {render_is_skipped_time(text)} THEN ': the clocks of its zone skip that time' ELSE '' END"
    )
    return f"concat({render_literal(reason)}, {skipped_note})"
