"""The only time that passes in a test, and the end of a process."""


class Crash(BaseException):
    """The process is gone: no `except Exception` of the product may see it."""


class Clock:
    """Milliseconds that move only when a test, or a write, moves them."""

    def __init__(self, ms: int = 1_000_000) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms

    def pause(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)

    def tick(self, ms: int = 1) -> int:
        self.ms += ms
        return self.ms


class SteppedTime:
    """Stands where code has the module `time`: seconds pass only where a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def time(self) -> float:
        return self.seconds
