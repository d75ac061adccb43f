"""Why a table has the row of one key, or has none: what became of each record, and the cause, if it is certain."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from tidegate.model.offsets import Offsets, get_offset
from tidegate.reprocess.verify import Difference
from tidegate.spec.time_text import format_utc, to_utc_datetime

NOT_REACHED = "--range does not reach the position in each partition, so later records were not read"
READ_AGAIN = "read again"
TODAY = ", as the file reads the log today; how it was read before is not known"


class Cause(StrEnum):
    """Why the row is what it is: the first three of a row that is there, or is flagged as deleted."""

    RECORD = "record"
    FOLDED = "folded"
    OTHER_WRITER = "other_writer"
    DELETED = "deleted"
    NEVER = "never"
    BAD = "bad"
    FILTERED = "filtered"
    IGNORED = "ignored"
    AHEAD = "ahead"
    ROLLED_BACK = "rolled_back"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"


class Passage(StrEnum):
    """How the table came past a record: in a batch, in one that was rolled back, or by a position without a batch.

    `EXPIRED`: in a batch whose snapshot is gone, so that it is not known whether it was rolled back.
    """

    PUBLISHED = "published"
    EXPIRED = "expired"
    ROLLED_BACK = "rolled_back"
    MOVED = "moved"


@dataclass(frozen=True)
class Passed:
    """One time that the table came past a record; `batch` is None for a move."""

    how: Passage
    at_ms: int
    snapshot_id: int | None
    batch: int | None = None
    attempt: str = ""
    backfill: str | None = None
    run: str | None = None  # what published it, where history knows that


@dataclass(frozen=True)
class Letter:
    """The dead letter of a record: `state` is waiting, replayed, discarded, or read again by a later batch."""

    state: str
    reason: str
    written_at_ms: int | None
    over_at_ms: int | None
    replayed_by: str | None


@dataclass(frozen=True)
class ExplainedRecord:
    """A record of the key, as the pipeline file reads it today.

    `fate` is staged (a row, or with `op` d a delete), filtered, ignored, or value for a bad one. `effect` is what it
    did to the row, empty if that is not known.
    """

    topic: str
    partition: int
    offset: int
    i: int
    at_ms: int
    fate: str
    op: str
    reason: str | None
    value: str | None
    is_ahead: bool
    passed: tuple[Passed, ...] = ()
    letter: Letter | None = None
    by_person: bool = False  # a person skipped it
    effect: str = ""

    @property
    def place(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"

    @property
    def is_delete(self) -> bool:
        return self.op == "d"

    @property
    def lasting_letter(self) -> Letter | None:
        """The dead letter that says what became of the record; of one that was read again, its batches do."""
        return None if self.letter is None or self.letter.state == READ_AGAIN else self.letter

    @property
    def is_bad(self) -> bool:
        """Whether it cannot be read, or stands in a record of which another row could not be."""
        return self.fate == "value" or (self.fate != "staged" and self.lasting_letter is not None)

    @property
    def order(self) -> tuple[int, int]:
        return self.offset, self.i

    @property
    def words(self) -> str:
        kind = "the delete" if self.is_delete else "the record"
        return f"{kind} {self.place} of {format_utc(to_utc_datetime(self.at_ms))}"


@dataclass(frozen=True)
class Evidence:
    """What log, table and history say of one key.

    - `rows`: how many the table has. `kind`: what comparing them with the log gives, one of verify's, or empty if
      neither has a row; None if they were not compared, for the `refusal`.
    - `records`: the newest, oldest first. `count` and `partitions` are of all of them, `count_ahead` of those behind
      the position.
    - `unreadable`: bad records whose key cannot be read; `unreadable_at` is one of them.
    - `unlettered`: bad records up to the position, of this key or one that cannot be read, which no open dead letter
      names: the table may have their rows.
    - `form`: by what records become one row; see `name_fold`.
    - `winner`, `deleted_at`: with sequences, (topic, offset) of the record that the row is from, and of its delete.
    - `is_log_whole`: no record of the log is gone up to the position, and none was left out.
    - `reaches_position`: what was read ends at the position in each partition.
    - `followed_from`: since where the table follows the log, read as today; None if not known.
    - `limits`: what the log does not tell.
    """

    rows: int
    kind: str | None
    refusal: str
    records: tuple[ExplainedRecord, ...]
    count: int
    count_ahead: int
    partitions: int
    unreadable: int
    unreadable_at: str | None
    unlettered: int
    form: str
    winner: tuple[str, int] | None
    deleted_at: tuple[str, int] | None
    is_log_whole: bool
    reaches_position: bool
    followed_from: Offsets | None
    limits: tuple[str, ...]
    differences: tuple[Difference, ...] = ()

    @property
    def staged(self) -> list[ExplainedRecord]:
        return [record for record in self.records if record.fate == "staged" and not record.is_ahead]

    @property
    def rowless(self) -> list[ExplainedRecord]:
        return [record for record in self.records if record.fate != "staged" and not record.is_ahead]

    @property
    def ahead(self) -> list[ExplainedRecord]:
        return [record for record in self.records if record.is_ahead]

    @property
    def is_cut(self) -> bool:
        """Whether older records up to the position are not listed."""
        return len(self.records) - len(self.ahead) < self.count - self.count_ahead

    @property
    def is_cut_ahead(self) -> bool:
        return len(self.ahead) < self.count_ahead

    def is_followed(self, record: ExplainedRecord) -> bool:
        """Whether the table has followed the log since before the record, by the rules of today."""
        start = get_offset(self.followed_from, record.topic, record.partition) if self.followed_from else None
        return start is not None and record.offset >= start

    def find_writer(self) -> ExplainedRecord | None:
        """Return the record that the row is from, of several the last one; None if it is not among the records."""
        if self.form == "sequenced":
            return self._find_record(self.winner)
        return _find_last(record for record in self.staged if not record.is_delete)

    def find_deleter(self) -> ExplainedRecord | None:
        """Return the delete that ends the row, or flags it; None if the records do not end with one."""
        if self.form == "sequenced":
            return self._find_record(self.deleted_at)
        last = _find_last(self.staged)
        return last if last is not None and last.is_delete else None

    def _find_record(self, place: tuple[str, int] | None) -> ExplainedRecord | None:
        return _find_last(record for record in self.staged if (record.topic, record.offset) == place)


def _find_last(records: Iterable[ExplainedRecord]) -> ExplainedRecord | None:
    return max(records, key=lambda record: record.order, default=None)


@dataclass(frozen=True)
class Judgement:
    """The cause, a sentence about it, and the record that decided, if one did."""

    cause: Cause
    because: str
    record: ExplainedRecord | None = None


@dataclass(frozen=True)
class Explanation:
    """The answer for one table. `rows` are cut texts of the table's rows, `other_tables` those that have the key."""

    table: str
    key: dict[str, Any]
    position: Offsets
    snapshot_id: int
    row_count: int
    rows: tuple[str, ...]
    cause: Cause
    because: str
    decided_by: str | None
    records: tuple[ExplainedRecord, ...]
    record_count: int
    limits: tuple[str, ...]
    differences: tuple[Difference, ...]
    other_tables: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; ids of snapshots are texts, as browsers round numbers of this size."""
        data = {**asdict(self), "snapshot_id": str(self.snapshot_id)}
        for passed in (passed for record in data["records"] for passed in record["passed"]):
            passed["snapshot_id"] = passed["snapshot_id"] and str(passed["snapshot_id"])
        return data


def judge(evidence: Evidence) -> Judgement:
    """Return the cause, `UNKNOWN` unless nothing else can be it."""
    if evidence.kind is None:
        return Judgement(Cause.UNKNOWN, evidence.refusal)
    if evidence.kind == "":
        return _judge_absence(evidence)
    if evidence.kind == "equal":
        return _judge_row(evidence)
    if evidence.kind == "unknowable":
        return _judge_unknowable(evidence)
    return _judge_difference(evidence)


def _judge_row(evidence: Evidence) -> Judgement:
    if evidence.partitions > 1:
        return Judgement(Cause.UNKNOWN, "the row is what its records give, but these come by several partitions")
    writer = evidence.find_writer()
    if writer is None:
        return Judgement(Cause.UNKNOWN, "the record that wrote the row is older than those that are listed")
    deleter = evidence.find_deleter()
    if doubt := _find_doubt(evidence, writer) or _find_end_doubt(evidence, deleter or writer):
        return Judgement(Cause.UNKNOWN, f"the row is what {(deleter or writer).words} says, but {doubt}")
    if deleter is not None:
        return Judgement(Cause.DELETED, f"{deleter.words} deleted it{_describe_passage(deleter)}", deleter)
    if evidence.form == "folded":
        return Judgement(Cause.FOLDED, f"several records give the row its values; {writer.words} is the last", writer)
    return Judgement(Cause.RECORD, f"{writer.words} wrote it{_describe_passage(writer)}", writer)


def _judge_absence(evidence: Evidence) -> Judgement:
    if evidence.staged:
        return _judge_deleted(evidence)
    if evidence.is_cut:
        return Judgement(Cause.UNKNOWN, "none of the listed records made a row, and older ones are not listed")
    if evidence.unreadable:
        return Judgement(
            Cause.UNKNOWN,
            f"no record of it made a row, but {evidence.unreadable} bad records have a key that cannot be read, like "
            f"{evidence.unreadable_at}; one may be of this key",
        )
    if not evidence.is_log_whole:
        return Judgement(Cause.UNKNOWN, f"the log has no row of it any more{_describe_rowless(evidence)}")
    return _judge_rowless(evidence) if evidence.rowless else _judge_ahead(evidence)


def _judge_rowless(evidence: Evidence) -> Judgement:
    records = evidence.rowless
    if lost := _find_lost_row(evidence, None):
        return Judgement(Cause.UNKNOWN, f"the table has no row of it, but {lost}")
    if len({(record.topic, record.partition) for record in records}) > 1:
        return Judgement(Cause.UNKNOWN, "no record of it made a row, but these come by several partitions")
    # a record that is filtered or ignored takes no row away: it is a bad one that is missing
    causes = {Cause.BAD if record.is_bad else Cause(record.fate) for record in records}
    if len(causes) > 1 and Cause.BAD not in causes:
        return Judgement(Cause.UNKNOWN, "no record of it made a row: some are for other tables, some change nothing")
    cause = Cause.BAD if Cause.BAD in causes else causes.pop()
    last = max((r for r in records if r.is_bad or cause != Cause.BAD), key=lambda record: record.order)
    because = f"no record of it made a row: {last.words} {describe_fate(last)}{_qualify(evidence, last)}"
    return Judgement(cause, because, last)


def _judge_ahead(evidence: Evidence) -> Judgement:
    rows = [record for record in evidence.ahead if record.fate == "staged" and not record.is_delete]
    first = min(rows, key=lambda record: record.order, default=None)
    if first is not None and evidence.is_cut_ahead:
        return Judgement(Cause.AHEAD, f"records lie behind the position, like {first.words}, and were not flushed")
    if first is not None:
        return Judgement(Cause.AHEAD, f"{first.words} lies behind the position, and has not been flushed", first)
    if evidence.is_cut_ahead:
        return Judgement(Cause.UNKNOWN, "its records lie behind the position, and those that are listed make no row")
    none_yet = " up to the position, and those behind it make no row" if evidence.ahead else ""
    return Judgement(Cause.NEVER, f"the log has no record of it{none_yet}{TODAY if evidence.limits else ''}")


def _judge_deleted(evidence: Evidence) -> Judgement:
    deleter = evidence.find_deleter()
    if evidence.partitions > 1 or deleter is None:
        return Judgement(Cause.UNKNOWN, "its records end without a row, and which of them ended it is not known")
    if doubt := _find_end_doubt(evidence, deleter):
        return Judgement(Cause.UNKNOWN, f"{deleter.words} would delete it, but {doubt}")
    is_only_deletes = all(record.is_delete for record in evidence.staged)
    if not is_only_deletes:
        says = f"{deleter.words} deleted it"
    elif evidence.is_cut:
        says = f"the listed records are only deletes of it, the last one {deleter.place}"
    else:
        says = f"the log has only deletes of it, the last one {deleter.place}"
    later = _find_last(r for r in evidence.rowless if r.is_bad and _may_come_after(evidence, r, deleter))
    bad = f", but {later.words} {describe_fate(later)}" if later else ""
    because = f"{says}{_describe_passage(deleter)}{_qualify(evidence, deleter)}{bad}"
    return Judgement(Cause.DELETED, because, deleter)


def _judge_difference(evidence: Evidence) -> Judgement:
    if evidence.unlettered:
        return Judgement(
            Cause.UNKNOWN,
            f"table and log differ, but records={evidence.unlettered}, of this key or of one that cannot be read, are "
            "bad today, and no open dead letter names them: the table may have what they said",
        )
    if lost := _find_lost_row(evidence, None):
        return Judgement(Cause.UNKNOWN, f"table and log differ, but {lost}")
    writer = evidence.find_writer()
    says = "no row" if evidence.kind == "surplus" else f"what {writer.words} says" if writer else "another row"
    return Judgement(
        Cause.OTHER_WRITER,
        f"the log says {says}, so somebody else has changed the table; its snapshots tell who: see docs/runbook/"
        "rows-differ.md",
    )


def _judge_unknowable(evidence: Evidence) -> Judgement:
    staged = evidence.staged
    rows = [record for record in staged if not record.is_delete]
    is_all = evidence.is_log_whole and not evidence.is_cut and not _find_lost_row(evidence, None)
    if evidence.rows == 0 and rows and is_all:
        last = max(rows, key=lambda record: record.order)
        without = {_find_way_around(record) for record in rows}
        if "" not in without:
            sentences = {
                Cause.BAD: "waits as a dead letter, or was discarded",
                Cause.ROLLED_BACK: "was in a batch that was rolled back, and it was not read again",
                Cause.SKIPPED: "was skipped: the position was moved past it without a batch",
            }
            cause = Cause(_find_way_around(last))
            return Judgement(cause, f"{last.words} {sentences[cause]}", last)
    return Judgement(Cause.UNKNOWN, "table and log differ, and the log alone cannot tell why")


def _find_lost_row(evidence: Evidence, decided: ExplainedRecord | None) -> str:
    """Return which bad record may have made a row, after the `decided` one; empty if none."""
    records = [record for record in evidence.rowless if record.is_bad and not _find_way_around(record)]
    lost = _find_last(r for r in records if decided is None or _may_come_after(evidence, r, decided))
    if lost is None:
        return ""
    state = "its dead letter was replayed" if lost.lasting_letter else "no dead letter names it"
    return f"{lost.words} makes no row today, and {state}: it may have made one"


def _may_come_after(evidence: Evidence, record: ExplainedRecord, other: ExplainedRecord) -> bool:
    is_ordered = evidence.form != "sequenced" and (record.topic, record.partition) == (other.topic, other.partition)
    return not is_ordered or record.order > other.order


def _find_way_around(record: ExplainedRecord) -> str:
    """Return for what reason the table has not got what a record says; empty if it may have."""
    if record.lasting_letter is not None:
        return "" if record.lasting_letter.state == "replayed" else Cause.BAD
    if not record.passed or any(passed.backfill for passed in record.passed):
        return ""
    ways = {passed.how for passed in record.passed}
    if ways & {Passage.PUBLISHED, Passage.EXPIRED}:
        return ""
    return Cause.ROLLED_BACK if Passage.ROLLED_BACK in ways else Cause.SKIPPED


def _find_end_doubt(evidence: Evidence, decided: ExplainedRecord) -> str:
    """Return why the record may not be the one that the row ends with."""
    if not evidence.reaches_position:
        return NOT_REACHED
    return _find_doubt(evidence, decided) or _find_lost_row(evidence, decided)


def _find_doubt(evidence: Evidence, record: ExplainedRecord) -> str:
    """Return why a record that fits the row may not have written it."""
    if record.lasting_letter is not None and record.lasting_letter.state != "replayed":
        return f"it is a dead letter that is {record.lasting_letter.state}"
    ways = {passed.how for passed in record.passed}
    if record.lasting_letter is not None or Passage.PUBLISHED in ways:
        return ""
    if Passage.EXPIRED in ways and Passage.MOVED in ways:
        return "the position was moved past it, and the snapshot of its batch has expired: it may have been rolled back"
    if Passage.EXPIRED in ways:
        return ""
    if ways:
        return "its batch was rolled back, or the position was moved past it"
    is_followed = evidence.is_followed(record)
    return "" if is_followed else "no batch of history has it, and the table does not follow the log from there on"


def _qualify(evidence: Evidence, record: ExplainedRecord) -> str:
    """Return what an absent row, which no value proves, leaves open: the file may have read the record otherwise."""
    return "" if evidence.is_followed(record) else TODAY


def _describe_passage(record: ExplainedRecord) -> str:
    if record.lasting_letter is not None and record.lasting_letter.state == "replayed":
        return f", as a dead letter that was replayed in attempt={record.lasting_letter.replayed_by}"
    published = [passed for passed in record.passed if passed.how in (Passage.PUBLISHED, Passage.EXPIRED)]
    if not published:
        return ", in a batch that history does not have any more"
    # a backfill of a record that its batch has brought in changes nothing
    last = max(published, key=lambda passed: (not passed.backfill, passed.at_ms))
    of = f"backfill={last.backfill}" if last.backfill else f"batch={last.batch}"
    return f", in {of} snapshot={last.snapshot_id}"


def _describe_rowless(evidence: Evidence) -> str:
    if not evidence.rowless:
        return ""
    last = max(evidence.rowless, key=lambda record: record.order)
    return f"; {last.words} {describe_fate(last)}"


def describe_fate(record: ExplainedRecord) -> str:
    """Say why a record made no row."""
    if record.fate != "staged" and not record.is_bad:
        return "is not for this table" if record.fate == "filtered" else "changes nothing here"
    state = "" if record.letter is None else f", {record.letter.state} as a dead letter"
    by_person = ", skipped by a person" if record.by_person else ""
    if record.fate != "value":
        return f"could not be read as a whole{state}{by_person}"
    return f"cannot be read: {record.reason}{state}{by_person}"


def name_effects(evidence: Evidence, judgement: Judgement) -> tuple[ExplainedRecord, ...]:
    """Return the records with what each did to the row, as far as the judgement tells."""
    return tuple(replace(record, effect=_name_effect(evidence, judgement, record)) for record in evidence.records)


def _name_effect(evidence: Evidence, judgement: Judgement, record: ExplainedRecord) -> str:
    if record.is_ahead:
        return "not flushed"
    if record.fate != "staged":
        return "bad" if record.is_bad else record.fate
    if way := _find_way_around(record):
        return "dead letter" if way == Cause.BAD else str(way).replace("_", " ")
    decided = judgement.record
    if decided is None or judgement.cause not in (Cause.RECORD, Cause.FOLDED, Cause.DELETED):
        return ""
    if record.order == decided.order and record.topic == decided.topic:
        return {Cause.RECORD: "wrote the row", Cause.FOLDED: "wrote last", Cause.DELETED: "deleted it"}[judgement.cause]
    return "folded" if evidence.form == "folded" else "superseded"


def list_unknowns(evidence: Evidence) -> tuple[str, ...]:
    """Return what the log does not tell, and what may be of this key besides."""
    unreadable: Sequence[str] = ()
    if evidence.unreadable:
        unreadable = (f"records={evidence.unreadable} with a key that cannot be read, like {evidence.unreadable_at}",)
    return (*evidence.limits, *unreadable)
