"""The records of one key, each with what became of it: in which batch it came, whether it is a dead letter."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tidegate.model.offsets import Ranges, get_offset
from tidegate.model.table_state import DISCARDED_STAGE, SnapshotLine
from tidegate.ports.destination import HistoryRow
from tidegate.reprocess.explained_key import READ_AGAIN, ExplainedRecord, Letter, Passage, Passed
from tidegate.reprocess.verify import LogComparison
from tidegate.table.history import list_actions

MAX_HISTORY = 100_000  # rows of history that are looked through


def read_key_records(
    work: LogComparison, entries: Sequence[Mapping[str, Any]], letters: Sequence[Mapping[str, Any]]
) -> Iterator[ExplainedRecord]:
    """Complete the entries of `explain_records` by history, snapshots and dead letters; oldest first."""
    table = work.table
    session = work.session
    history = session.history.read_history(session.history_table, MAX_HISTORY)
    batches = [(row, Ranges.from_dict(json.loads(row["ranges"]))) for row in history if row["table"] == table.name]
    line = session.commits.read_snapshot_line(table.name, table.pipeline.name)
    topic_ids = work.position.topic_ids
    letters_by_place = {
        (letter["topic"], letter["partition"], letter["offset"]): letter
        # of several letters of a place the one that lasts
        for letter in sorted(letters, key=lambda letter: _name_state(letter) != READ_AGAIN)
        if letter.get("topic_id") in (None, topic_ids.get(letter["topic"]))
    }
    skips = [action.details for action in list_actions(table.pipeline.name, table.state) if action.action == "skip"]
    find_passed = partial(_find_passed, batches, line)
    ordered = sorted(entries, key=lambda found: (found["at_ms"], found["offset"], found["i"]))
    for found in ordered:
        place = (found["topic"], found["partition"], found["offset"])
        words = f"topic={place[0]} partition={place[1]} offset={place[2]} "
        yield ExplainedRecord(
            topic=place[0],
            partition=place[1],
            offset=place[2],
            i=found["i"],
            at_ms=found["at_ms"],
            fate=found["fate"],
            op=found["op"],
            reason=found.get("reason"),
            value=found.get("value"),
            is_ahead=found["is_ahead"],
            passed=() if found["is_ahead"] else tuple(find_passed(place)),
            letter=_read_letter(letters_by_place.get(place)),
            by_person=any(details.startswith(words) for details in skips),
        )


def _read_letter(letter: Mapping[str, Any] | None) -> Letter | None:
    if letter is None:
        return None
    return Letter(
        state=_name_state(letter),
        reason=letter.get("reason") or "",
        written_at_ms=letter.get("written_at_ms"),
        over_at_ms=letter.get("over_at_ms"),
        replayed_by=letter.get("replayed_by"),
    )


def _name_state(letter: Mapping[str, Any]) -> str:
    if letter.get("over_at_ms") is None:
        return "waiting"
    if letter.get("replayed_by"):
        return "replayed"
    # what a move of the position has let a batch read again is over too, and keeps its stage
    return "discarded" if letter.get("stage") == DISCARDED_STAGE else READ_AGAIN


def _find_passed(
    history: Sequence[tuple[HistoryRow, Ranges]], line: SnapshotLine, place: tuple[str, int, int]
) -> Iterable[Passed]:
    """Find how the table came past an offset: by history, and where that lacks a batch by the snapshots' positions."""
    topic, partition, offset = place
    found = dict[tuple[str, str | None], Passed]()
    for row, ranges in history:
        if ranges.contains(topic, partition, offset):
            known_fate = Passage.PUBLISHED if row["snapshot_id"] in line.staying else Passage.EXPIRED
            found[row["attempt"], row["backfill"]] = Passed(
                how=Passage.ROLLED_BACK if row["snapshot_id"] in line.gone else known_fate,
                at_ms=row["published_at_ms"],
                snapshot_id=row["snapshot_id"],
                batch=row["batch"],
                attempt=row["attempt"],
                backfill=row["backfill"],
                run=row.get("run"),
            )
    for before, after in zip(line.positions, line.positions[1:], strict=False):
        reached, passed = (get_offset(position.offsets, topic, partition) for position in (before, after))
        if reached is None or passed is None or not reached <= offset < passed:
            continue
        known = found.get((after.staged_attempt, None))
        if not after.is_batch:
            found["", str(after.snapshot_id)] = Passed(Passage.MOVED, after.at_ms, after.snapshot_id)
        elif known is None or known.how == Passage.EXPIRED:
            found[after.staged_attempt, None] = Passed(
                run=known.run if known else None,
                how=Passage.PUBLISHED,
                at_ms=after.at_ms,
                snapshot_id=after.snapshot_id,
                batch=after.batch,
                attempt=after.staged_attempt,
            )
    return sorted(found.values(), key=lambda passed: passed.at_ms)
