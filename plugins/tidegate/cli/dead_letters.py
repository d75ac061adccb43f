"""``tidegate dead-letters``: the records that could not be read, as people and programs see them."""

import argparse
import base64
import json
from datetime import datetime
from typing import Any

from tidegate import names
from tidegate.adapters.assembly import assemble
from tidegate.adapters.connections import connection_from_env
from tidegate.cli.shown import say
from tidegate.ports import DeadLetters, Ports
from tidegate.settings import include_folder
from tidegate.steps.replay import replay

PLACE = ("table", "topic", "partition", "offset")
TOLD = ("stage", "error_class", "message", "batch")
SHOWN_CHARACTERS = 120


def add_dead_letters(commands: Any) -> None:
    """The command's words."""
    parser = commands.add_parser("dead-letters", help="records that could not be read and were set aside")
    parser.add_argument("pipeline")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="show the newest N; default 20")
    parser.add_argument("--replay", action="store_true", help="decode them again, and bring in what can be read now")
    parser.add_argument("--json", action="store_true", help="stable output for programs")


def dead_letters(words: argparse.Namespace) -> int:
    """Show what waits, or replay it; the exit code."""
    ports = assemble(include_folder(), words.pipeline, connection_from_env)
    if words.replay:
        return _replay(words, ports)
    name = names.dead_letter_table(ports.pipeline)
    found = ports.destination.dead_letters(name, max(0, words.limit))
    letters = [_letter(row) for row in found.newest]
    data = {"pipeline": words.pipeline, "table": name, "waiting": found.waiting, "replayed": found.replayed}
    print(json.dumps({**data, "dead_letters": letters}) if words.json else _text(words.pipeline, found, letters))
    return 0


def _replay(words: argparse.Namespace, ports: Ports) -> int:
    results = replay(ports)
    if not results:
        say(words, f"{words.pipeline}: no dead letters wait", {"pipeline": words.pipeline, "replayed": 0})
    for one in results:
        rows = f"inserted={one.inserted} updated={one.updated} deleted={one.deleted}"
        text = f"{one.table}: tried={one.tried} replayed={one.replayed} still_bad={one.still_bad}: {rows}"
        say(words, text, {"pipeline": words.pipeline, **one.to_dict()})
    return 0


def _letter(row: dict[str, Any]) -> dict[str, Any]:
    """One dead letter as plain data; bytes that are no text are given as base64 under another name."""
    headers = [{"key": header["key"], **_readable("value", header["value"])} for header in row["headers"] or []]
    return {
        **{name: row[name] for name in PLACE},
        "timestamp": _time(row["timestamp"]),
        **{name: row[name] for name in TOLD},
        **_readable("key", row["key"]),
        **_readable("value", row["value"]),
        "headers": headers,
        "written_at": _time(row["written_at"]),
    }


def _readable(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        text = None if data is None else data.decode()
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data or b"").decode()}
    return {name: text}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(pipeline: str, found: DeadLetters, letters: list[dict[str, Any]]) -> str:
    lines = [f"{pipeline}: {found.waiting} dead letters wait, {found.replayed} were replayed"]
    for letter in letters:
        place = f"topic={letter['topic']} partition={letter['partition']} offset={letter['offset']}"
        lines.append(f"{letter['table']}: {place} batch={letter['batch']} {letter['stage']}: {letter['message']}")
        for part in ("key", "value"):
            data = letter.get(f"{part}_base64") or letter[part]
            if data is not None:
                encoding = " (base64)" if f"{part}_base64" in letter else ""
                lines.append(f"  {part}{encoding}: {_short(data)}")
    return "\n".join(lines)


def _short(text: str) -> str:
    line = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}..."
