"""Numbers of things, as messages word them."""


def format_count(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_lost(number: int) -> str:
    """`1 offset is gone before it was read`, `2 offsets are gone before they were read`."""
    verb, was = ("is", "it was") if number == 1 else ("are", "they were")
    return f"{format_count(number, 'offset')} {verb} gone before {was} read"
