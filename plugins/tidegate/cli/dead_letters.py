"""``tidegate dead-letters``: the records that could not be read, as people and programs see them."""

import argparse
import json
from typing import Any

from tidegate.cli.output import print_result
from tidegate.connections import read_connection_from_env
from tidegate.model import resource_names
from tidegate.monitoring.dead_letter_rows import format_dead_letter
from tidegate.ports.context import DeadLetters, Ports
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.settings import find_include_folder
from tidegate.wiring.pipeline import assemble_checked_pipeline

MAX_SHOWN_CHARACTERS = 120


def add_dead_letters(commands: Any) -> None:
    """The command's words."""
    parser = commands.add_parser("dead-letters", help="records that could not be read and were set aside")
    parser.add_argument("pipeline")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="show the newest N; default 20")
    parser.add_argument("--replay", action="store_true", help="decode them again, and bring in what can be read now")
    parser.add_argument("--json", action="store_true", help="stable output for programs")


def run_dead_letters(words: argparse.Namespace) -> int:
    """Show what waits, or replay it; the exit code."""
    ports = assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
    if words.replay:
        return _run_replay(words, ports)
    name = resource_names.name_dead_letter_table(ports.pipeline)
    dead_letters = ports.dead_letters.read_dead_letters(name, max(0, words.limit))
    letters = [format_dead_letter(row) for row in dead_letters.newest]
    data = {
        "pipeline": words.pipeline,
        "table": name,
        "waiting": dead_letters.waiting,
        "replayed": dead_letters.replayed,
    }
    print(
        json.dumps({**data, "dead_letters": letters})
        if words.json
        else _format_dead_letters(words.pipeline, dead_letters, letters)
    )
    return 0


def _run_replay(words: argparse.Namespace, ports: Ports) -> int:
    results = replay_dead_letters(ports)
    if not results:
        print_result(words, f"{words.pipeline}: no dead letters wait", {"pipeline": words.pipeline, "replayed": 0})
    for one in results:
        rows = f"inserted={one.inserted} updated={one.updated} deleted={one.deleted}"
        text = f"{one.table}: tried={one.tried} replayed={one.replayed} still_bad={one.still_bad}: {rows}"
        if one.of_old_topics:
            text += (
                f"\n{one.table}: {one.of_old_topics} dead letters are of a topic that was deleted since with all that "
                "came after them, so nobody can tell whether they are the newest of their keys; they stay as they are; "
                "bring them in by hand, and delete them from "
                f"{resource_names.name_dead_letter_table(ports.pipeline)}"
            )
        print_result(words, text, {"pipeline": words.pipeline, **one.to_dict()})
    return 0


def _format_dead_letters(pipeline: str, dead_letters: DeadLetters, letters: list[dict[str, Any]]) -> str:
    lines = [f"{pipeline}: {dead_letters.waiting} dead letters wait, {dead_letters.replayed} were replayed"]
    for letter in letters:
        place = f"topic={letter['topic']} partition={letter['partition']} offset={letter['offset']}"
        place += f" topic_id={letter['topic_id']}" if letter["topic_id"] else ""
        lines.append(f"{letter['table']}: {place} batch={letter['batch']} {letter['stage']}: {letter['message']}")
        for part in ("key", "value"):
            data = letter.get(f"{part}_base64") or letter[part]
            if data is not None:
                encoding = " (base64)" if f"{part}_base64" in letter else ""
                lines.append(f"  {part}{encoding}: {_shorten_text(data)}")
    return "\n".join(lines)


def _shorten_text(text: str) -> str:
    line = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return line if len(line) <= MAX_SHOWN_CHARACTERS else f"{line[:MAX_SHOWN_CHARACTERS]}..."
