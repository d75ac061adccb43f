"""The error of the local stack. Its text alone tells a person what to do."""

from pathlib import Path


class StackError(Exception):
    """The stack cannot start, or has ended; the message says what happened and which log to read."""


def find_relevant_line(log: Path) -> str:
    """The line of a server's log that most likely says why it died: the last error, else the last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()] if log.exists() else []
    message_lines = [line for line in lines if line and not line.startswith(("at ", "..."))]
    telling = [
        line for line in message_lines if any(word in line for word in ("Caused by", "Exception", "ERROR", "Error"))
    ]
    return next(iter((telling or message_lines)[-1:]), "nothing was logged")[:400]
