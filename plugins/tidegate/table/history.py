"""What was done to a table: its batches, what people did, and backfills and replays that a rollback has undone."""

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace

from tidegate.jobs.statements_job import StatementsJob
from tidegate.model import resource_names
from tidegate.model.batch import COST_COUNTS, RECORD_COUNTS
from tidegate.model.offsets import Ranges, get_offset
from tidegate.model.ownership import describe_dead_letters
from tidegate.model.table_state import TableState, WaitingLetter
from tidegate.ports.destination import HistoryRow
from tidegate.ports.session import Session
from tidegate.spec.table import Table
from tidegate.spec.time_text import format_utc, to_utc_datetime
from tidegate.table.session import TableSession

log = logging.getLogger(__name__)
# The columns of the control table by type, the same in every destination; each may be NULL.
INTEGER_FIELDS = (
    "batch", "published_at_ms", "span", *RECORD_COUNTS, "inserted", "updated", "deleted", "staged_snapshot_id",
    "snapshot_id", "valid_through_ms", "staged_bytes", *COST_COUNTS,
)  # fmt: skip
TEXT_FIELDS = ("table", "attempt", "ranges", "backfill", "written_as", "unknown_fields", "run")
FRACTION_FIELDS = ("seconds", "stage_seconds")


def find_last_advances(rows: Iterable[HistoryRow]) -> dict[tuple[str, int], int]:
    """Return when a batch last moved each partition, in milliseconds. `rows` of history come newest first."""
    last_advances = dict[tuple[str, int], int]()
    partitions = dict[str, set[tuple[str, int]]]()
    for row in rows:
        unknown = partitions.get(row["table"], set()) - last_advances.keys()
        # each row names all partitions of its table: once all are known, no older row is parsed
        if row["backfill"] is not None or (row["table"] in partitions and not unknown):
            continue
        ranges = list(Ranges.from_dict(json.loads(row["ranges"])))
        partitions.setdefault(row["table"], {(topic, partition) for topic, partition, _, _ in ranges})
        for topic, partition, start, end in ranges:
            if end > start:
                last_advances.setdefault((topic, partition), row["published_at_ms"])
    return last_advances


ACTIONS_PROPERTY = "actions"
# some kilobytes: each write of the table's metadata carries them
MAX_KEPT_ACTIONS = 20
MAX_CHARACTERS = 1000


@dataclass(frozen=True)
class Action:
    """What a person did: `action` is the command's word, `by` the user, `details` what it changed."""

    at_ms: int
    by: str
    action: str
    details: str


def add_action(table: TableSession, action: str, by: str, details: str) -> dict[str, str]:
    """Return the property that records this action after the earlier ones, for the commit that does it."""
    pipeline = table.pipeline.name
    new_action = Action(table.session.now_ms(), by, action, details)
    last_actions = [*list_actions(pipeline, table.state), new_action][-MAX_KEPT_ACTIONS:]
    short = [replace(action, by=_shorten(action.by), details=_shorten(action.details)) for action in last_actions]
    text = json.dumps([asdict(action) for action in short], separators=(",", ":"))
    return {resource_names.name_pipeline_property(pipeline, ACTIONS_PROPERTY): text}


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 30]}... ({len(text)} characters)"


def list_actions(pipeline: str, state: TableState | None) -> list[Action]:
    """Return the last actions, oldest first; none if the table or its properties are gone."""
    marks = state.marks if state else {}
    text = marks.get(resource_names.name_pipeline_property(pipeline, ACTIONS_PROPERTY), "[]")
    return [Action(**entry) for entry in json.loads(text)]


@dataclass(frozen=True)
class UndoneBackfill:
    """The slices of one backfill that are gone from a table; `command` applies them all again."""

    id: str
    slices: frozenset[int]
    command: str


def list_backfill_tables(
    session: Session, table: Table, backfill_id: str, list_names: Callable[[str], list[str]]
) -> list[str]:
    """Return the intermediate tables of a backfill of `table`, or with an empty id of all its backfills."""
    namespace, _, bare_name = table.name.rpartition(".")
    begin = f"{resource_names.get_backfill_prefix(session.pipeline.name, bare_name)}{backfill_id}"
    # some catalogs keep names case-folded
    return [f"{namespace}.{name}" for name in list_names(namespace) if name.casefold().startswith(begin.casefold())]


def find_undone_backfills(session: Session, table: str) -> list[UndoneBackfill]:
    """Return the backfills of `table` that have ended, and of which a rollback has taken slices."""
    name = session.pipeline.name
    rolled_back_slices = session.commits.list_rolled_back(table, resource_names.SLICE_PROPERTY)
    state = session.tables.read_state(table, name) if rolled_back_slices else None
    if state is None or state.position is None:
        return []
    open_ids = {json.loads(note)["id"] for note in session.history.list_backfills(table, name)}
    slices = dict[str, set[int]]()
    commands = dict[str, str]()
    texts = session.commits.list_rolled_back(table, resource_names.BACKFILL_PROPERTY)
    for note in (json.loads(text) for text in sorted(texts) if text.startswith("{")):
        backfill = note["id"]
        number = note["slice"]
        is_lost = f"{backfill}/{number}" in rolled_back_slices and note["pipeline"] == name and backfill not in open_ids
        ranges = Ranges.from_dict(note["ranges"])
        # the flush reads records behind the position again
        if is_lost and all((get_offset(state.position.offsets, t, p) or 0) >= end for t, p, _, end in ranges):
            slices.setdefault(backfill, set()).add(number)
            commands[backfill] = _build_command(name, note["asked"])
    # a slice that is about to be published looks like one that is gone: look once more, after its backfill has ended
    still_gone = session.commits.list_rolled_back(table, resource_names.SLICE_PROPERTY) if slices else frozenset()
    return [
        UndoneBackfill(backfill, gone, commands[backfill])
        for backfill, numbers in sorted(slices.items())
        if (gone := frozenset(number for number in numbers if f"{backfill}/{number}" in still_gone))
    ]


def _build_command(pipeline: str, request: str) -> str:
    words, tables = json.loads(request)
    times = [words.get(name) for name in ("from_ms", "to_ms")]
    if all(isinstance(ms, int) for ms in times):
        begin, end = (format_utc(to_utc_datetime(ms)) for ms in times)
        range_words = f"--from {begin} --to {end}"
    else:
        range_words = f"--range '{json.dumps(words)}'"
    return " ".join(
        [
            f"tidegate backfill {pipeline} {range_words}",
            *(f"--table {resource_names.quote_word(table)}" for table in tables),
        ]
    )


def find_undone_replays(session: Session, table: str) -> frozenset[str]:
    return session.commits.list_rolled_back(table, resource_names.REPLAY_PROPERTY)


def list_undone_letters(session: Session, table: str) -> list[WaitingLetter]:
    """Return the dead letters of `table` that such an attempt has brought in."""
    attempts = find_undone_replays(session, table)
    name = session.letters_table
    letters = session.dead_letters.list_replayed_letters(name, table, attempts) if attempts else []
    # a replay that is about to publish looks undone; an attempt that has marked letters has been published before
    still_undone = find_undone_replays(session, table) if letters else frozenset()
    return [letter for letter in letters if letter.replayed_by in still_undone]


def reopen_letters(session: Session, table: str) -> int:
    """Let these letters wait again; return how many there are. A repeat call finds none."""
    letters = list_undone_letters(session, table)
    if letters:
        attempts = sorted({letter.replayed_by for letter in letters if letter.replayed_by})
        name = session.letters_table
        session.tables.claim(name, describe_dead_letters(session.pipeline))
        statement = session.get_sql(name).render("reopen_dead_letters", table=name, target=table, attempts=attempts)
        session.engine.run(StatementsJob(session.pipeline.name, 0, (statement,), table=name))
        where = f"pipeline={session.pipeline.name} table={table}"
        log.info(
            "%s: dead letters=%s wait again: the table was rolled back to before their replay", where, len(letters)
        )
    return len(letters)
