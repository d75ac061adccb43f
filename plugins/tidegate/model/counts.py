"""Numbers of things, as messages word them."""


def format_number(number: int) -> str:
    """`1,234`: as the page has it, in sentences; values of a message stay as they are typed."""
    return f"{number:,}"


def format_count(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_large_count(number: int, noun: str) -> str:
    """`1 record`, `1,234 records`: `format_count` with the digits of `format_number`."""
    return f"{format_number(number)} {noun}" if number == 1 else f"{format_number(number)} {noun}s"


def format_being(number: int, noun: str) -> str:
    """`1 offset is`, `2 offsets are`."""
    return f"{format_count(number, noun)} {'is' if number == 1 else 'are'}"


def format_span(seconds: float) -> str:
    """`47 s`, `1 h 6 min`: the two largest units, or one that says enough; as the page has it."""
    if 0 < seconds < 1:
        return "< 1 s"
    rest = round(seconds)
    parts = list[str]()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
        if parts and (not count or count > 9 or len(parts) == 2):
            break
    return " ".join(parts) or "0 s"
