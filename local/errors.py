"""Owns the one error of the local stack, whose text is all that a person needs to read."""

from pathlib import Path


class StackError(Exception):
    """The stack cannot start or went away; the message says what happened and where to look."""


def find_relevant_line(log: Path) -> str:
    """The line of a server's log that most likely says why it died: the last error, else the last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()] if log.exists() else []
    spoken = [line for line in lines if line and not line.startswith(("at ", "..."))]
    telling = [line for line in spoken if any(word in line for word in ("Caused by", "Exception", "ERROR", "Error"))]
    return next(iter((telling or spoken)[-1:]), "nothing was logged")[:400]
