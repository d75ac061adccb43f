"""Numbers of things, as messages word them."""


def format_count(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_being(number: int, noun: str) -> str:
    """`1 offset is`, `2 offsets are`."""
    return f"{format_count(number, noun)} {'is' if number == 1 else 'are'}"
