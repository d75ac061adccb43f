"""``tidegate dead-letters``: the records that could not be read, as people and programs see them."""

import argparse
import json
import logging
from typing import Any

from tidegate.cli.commands.actions import perform_action
from tidegate.cli.output import make_line_printable, print_result
from tidegate.cli.parser import SHOWN_LETTERS
from tidegate.cli.session import open_named_pipeline
from tidegate.errors import ConfigurationError, SomeTables
from tidegate.merge.owed import LetterFilter
from tidegate.model import resource_names
from tidegate.model.counts import format_count
from tidegate.monitoring.details import format_dead_letter
from tidegate.ports.session import Session
from tidegate.reprocess.discard import propose_discard, shorten_text
from tidegate.reprocess.record import parse_address
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.spec.time_text import EXAMPLE, parse_timestamp_ms
from tidegate.table.position import check_homes
from tidegate.table.risks import find_undone_letters

log = logging.getLogger(__name__)
ALL_ROWS = 2**31 - 1


def run_dead_letters(words: argparse.Namespace) -> int:
    if bool(words.discard) != bool(words.because):
        words.usage_error("--discard needs --because 'text', and nothing else does")
    if words.limit is not None and (words.replay or words.discard or words.export):
        words.usage_error("--limit bounds what is shown, and chooses none; choose with --offsets, --since or --reason")
    limit = SHOWN_LETTERS if words.limit is None else words.limit
    since_ms = None if words.since is None else parse_timestamp_ms("--since", words.since, f"write e.g. {EXAMPLE}")
    places: frozenset[tuple[str, int, int]] = frozenset(parse_address(text, "--offsets") for text in words.offsets)
    letter_filter = LetterFilter(
        table=words.table, topic=words.topic, reason=words.reason, since_ms=since_ms, places=places
    )
    session = open_named_pipeline(words)
    if words.replay:
        return _run_replay(words, session, letter_filter)
    if words.discard:
        return perform_action(words, propose_discard(session, letter_filter, words.because))
    check_homes(session)
    for warning in find_undone_letters(session):
        log.warning(warning)
    name = session.letters_table
    is_whole = letter_filter.is_given or words.export is not None
    dead_letters = session.dead_letters.read_dead_letters(name, ALL_ROWS if is_whole else limit)
    letters = [format_dead_letter(letter) for letter in dead_letters.newest if letter_filter.matches_letter(letter)]
    if words.export is not None:
        return _export(words, letters)
    data = {
        "pipeline": words.pipeline,
        "table": name,
        "waiting": dead_letters.waiting,
        "replayed": dead_letters.replayed,
        "discarded": dead_letters.discarded,
        "chosen": len(letters) if letter_filter.is_given else dead_letters.waiting,
    }
    shown_letters = letters[:limit]
    if words.json:
        print(json.dumps({**data, "dead_letters": shown_letters}))
        return 0
    discarded = f", {dead_letters.discarded} were discarded" if dead_letters.discarded else ""
    chosen = f"; {data['chosen']} of those that wait are chosen" if letter_filter.is_given else ""
    waiting = f"{format_count(dead_letters.waiting, 'dead letter')} {'waits' if dead_letters.waiting == 1 else 'wait'}"
    counts = f"{waiting}, {dead_letters.replayed} were replayed{discarded}{chosen}"
    print("\n".join([f"{words.pipeline}: {counts}", *map(_format_letter, shown_letters)]))
    return 0


def _export(words: argparse.Namespace, letters: list[dict[str, Any]]) -> int:
    try:
        # never overwrites a file
        with words.export.open("x", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(letter)}\n" for letter in letters)
    except OSError as error:
        raise ConfigurationError(
            f"--export={words.export}: {error.strerror}; name a new file that can be made"
        ) from error
    data = {"pipeline": words.pipeline, "exported": len(letters), "file": str(words.export)}
    print_result(
        words, f"{words.pipeline}: {format_count(len(letters), 'dead letter')} written to {words.export}", data
    )
    return 0


def _run_replay(words: argparse.Namespace, session: Session, letter_filter: LetterFilter) -> int:
    failure = None
    try:
        results = replay_dead_letters(session, letter_filter)
    except SomeTables as error:
        failure = error
        results = [*error.published]
    if not results and failure is None:
        result = "none of the chosen dead letters waits" if letter_filter.is_given else "no dead letters wait"
        print_result(words, f"{words.pipeline}: {result}", {"pipeline": words.pipeline, "replayed": 0})
    for replay_result in results:
        rows = f"inserted={replay_result.inserted} updated={replay_result.updated} deleted={replay_result.deleted}"
        counts = f"tried={replay_result.tried} replayed={replay_result.replayed} still_bad={replay_result.still_bad}"
        text = f"{replay_result.table}: {counts}: {rows}"
        if replay_result.of_old_topics:
            text += (
                f"\n{replay_result.table}: {replay_result.of_old_topics} dead letters are of a topic that was deleted "
                "since with all that came after them, so nobody can tell whether they are the newest of their keys; "
                "they stay as they are; bring them in by hand, and discard them with: "
                f"tidegate dead-letters {words.pipeline} --table {resource_names.quote_word(replay_result.table)} "
                "--offsets PLACE --discard --because TEXT"
            )
        print_result(words, text, {"pipeline": words.pipeline, **replay_result.to_dict()})
    if failure is not None:
        raise failure
    return 0


def _format_letter(letter: dict[str, Any]) -> str:
    place = f"topic={letter['topic']} partition={letter['partition']} offset={letter['offset']}"
    place += f" topic_id={letter['topic_id']}" if letter["topic_id"] else ""
    message = make_line_printable(letter["message"])
    lines = [f"{letter['table']}: {place} batch={letter['batch']} {letter['stage']}: {message}"]
    for part in ("key", "value"):
        data = letter.get(f"{part}_base64") or letter[part]
        if data is not None:
            encoding = " (base64)" if f"{part}_base64" in letter else ""
            lines.append(f"  {part}{encoding}: {shorten_text(data)}")
    return "\n".join(lines)
