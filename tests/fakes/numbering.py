"""Numbers one after another, in worlds that are copied by pickling: `itertools.count` ends with a warning there."""


class Numbering:
    """An iterator over `first` and all whole numbers behind it."""

    def __init__(self, first: int = 1) -> None:
        self._next = first

    def __next__(self) -> int:
        number, self._next = self._next, self._next + 1
        return number
