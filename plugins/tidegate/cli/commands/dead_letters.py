"""``tidegate dead-letters``: the records that could not be read, as people and programs see them."""

import argparse
import json
import logging
from typing import Any

from tidegate.cli.commands.actions import perform_action, refuse_empty_options
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
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.reprocess.request import build_letter_filter
from tidegate.table.position import check_homes
from tidegate.table.risks import find_undone_letters

log = logging.getLogger(__name__)
ALL_ROWS = 2**31 - 1


def run_dead_letters(args: argparse.Namespace) -> int:
    if bool(args.discard) != bool(args.because):
        args.usage_error("--discard needs --because 'text', and nothing else does")
    if args.limit is not None and (args.replay or args.discard or args.export):
        args.usage_error("--limit bounds what is shown, and chooses none; choose with --offsets, --since or --reason")
    limit = SHOWN_LETTERS if args.limit is None else args.limit
    refuse_empty_options(args)
    letter_filter = build_letter_filter(vars(args))
    session = open_named_pipeline(args)
    if args.replay:
        return _run_replay(args, session, letter_filter)
    if args.discard:
        return perform_action(args, propose_discard(session, letter_filter, args.because))
    check_homes(session)
    for warning in find_undone_letters(session):
        log.warning(warning)
    name = session.letters_table
    is_whole = letter_filter.is_given or args.export is not None
    dead_letters = session.dead_letters.read_dead_letters(name, ALL_ROWS if is_whole else limit)
    letters = [format_dead_letter(letter) for letter in dead_letters.newest if letter_filter.matches_letter(letter)]
    if args.export is not None:
        return _export(args, letters)
    data = {
        "pipeline": args.pipeline,
        "table": name,
        "waiting": dead_letters.waiting,
        "replayed": dead_letters.replayed,
        "discarded": dead_letters.discarded,
        "chosen": len(letters) if letter_filter.is_given else dead_letters.waiting,
    }
    shown_letters = letters[:limit]
    if args.json:
        print(json.dumps({**data, "dead_letters": shown_letters}))
        return 0
    discarded = f", {dead_letters.discarded} were discarded" if dead_letters.discarded else ""
    chosen = f"; {data['chosen']} of those that wait are chosen" if letter_filter.is_given else ""
    waiting = f"{format_count(dead_letters.waiting, 'dead letter')} {'waits' if dead_letters.waiting == 1 else 'wait'}"
    counts = f"{waiting}, {dead_letters.replayed} were replayed{discarded}{chosen}"
    print("\n".join([f"{args.pipeline}: {counts}", *map(_format_letter, shown_letters)]))
    return 0


def _export(args: argparse.Namespace, letters: list[dict[str, Any]]) -> int:
    try:
        # never overwrites a file
        with args.export.open("x", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(letter)}\n" for letter in letters)
    except OSError as error:
        raise ConfigurationError(
            f"--export={args.export}: {error.strerror}; name a new file that can be made"
        ) from error
    data = {"pipeline": args.pipeline, "exported": len(letters), "file": str(args.export)}
    print_result(args, f"{args.pipeline}: {format_count(len(letters), 'dead letter')} written to {args.export}", data)
    return 0


def _run_replay(args: argparse.Namespace, session: Session, letter_filter: LetterFilter) -> int:
    failure = None
    try:
        results = replay_dead_letters(session, letter_filter)
    except SomeTables as error:
        failure = error
        results = [*error.published]
    if not results and failure is None:
        result = "none of the chosen dead letters waits" if letter_filter.is_given else "no dead letters wait"
        print_result(args, f"{args.pipeline}: {result}", {"pipeline": args.pipeline, "replayed": 0})
    for replay_result in results:
        rows = f"inserted={replay_result.inserted} updated={replay_result.updated} deleted={replay_result.deleted}"
        counts = f"tried={replay_result.tried} replayed={replay_result.replayed} still_bad={replay_result.still_bad}"
        text = f"{replay_result.table}: {counts}: {rows}"
        if replay_result.of_old_topics:
            text += (
                f"\n{replay_result.table}: {replay_result.of_old_topics} dead letters are of a topic that was deleted "
                "since with all that came after them, so nobody can tell whether they are the newest of their keys; "
                "they stay as they are; bring them in by hand, and discard them with: "
                f"tidegate dead-letters {args.pipeline} --table {resource_names.quote_word(replay_result.table)} "
                "--offsets PLACE --discard --because TEXT"
            )
        print_result(args, text, {"pipeline": args.pipeline, **replay_result.to_dict()})
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
