"""How people write the pauses on a record's way, ``60s``, ``10m``, ``1h30m``, read as whole seconds."""

import re

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SPAN = re.compile(r"(?:\d+[smhd])+")
DISABLED = -1


def parse_duration(value: object) -> int:
    """Whole seconds of ``60s``, ``10m``, ``7d``, ``1h30m`` or a number of seconds; -1 stays -1; else ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _not_below_disabled(value)
    if not isinstance(value, str):
        raise ValueError("not a duration; write e.g. 60s, 10m or -1 to disable")
    text = value.strip()
    if re.fullmatch(r"-?\d+", text):
        return _not_below_disabled(int(text))
    if not SPAN.fullmatch(text):
        raise ValueError("not a duration; write e.g. 60s, 10m or -1 to disable")
    return sum(int(amount) * SECONDS[unit] for amount, unit in re.findall(r"(\d+)([smhd])", text))


def _not_below_disabled(seconds: int) -> int:
    if seconds < DISABLED:
        raise ValueError("a duration cannot be negative; write e.g. 60s, 10m or -1 to disable")
    return seconds
