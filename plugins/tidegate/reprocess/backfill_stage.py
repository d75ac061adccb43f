"""backfill, second part: stage a slice, and of all that follows it up to the position whatever is not staged yet."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tidegate.errors import GiveUp, PositionLost, RetryLater
from tidegate.flush.stage_request import build_stage_table, list_skipped_records, make_room_for_letters
from tidegate.flush.staged import add_lacking_columns, read_staged_batch, run_or_take_over
from tidegate.jobs.stage_job import StageJob
from tidegate.merge.attempt import MAX_ROUNDS
from tidegate.model import resource_names
from tidegate.model.backfill import Backfill, cut_into_slices, find_missing_ranges, find_reach
from tidegate.model.batch import Plan, PlannedBatch
from tidegate.model.kafka_log import Log
from tidegate.model.offsets import Offsets, Ranges, get_offset
from tidegate.model.position import Position
from tidegate.model.table_state import Staging
from tidegate.ports.session import Session
from tidegate.reprocess.backfill_plan import check_log_holds, needs_later_records
from tidegate.table.columns import compute_shape
from tidegate.table.log import read_log
from tidegate.table.position import require_position
from tidegate.table.session import TableSession, open_table

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StagePiece:
    """Offsets to stage as batch `number`; `keys_only` for records that only decide."""

    number: int
    ranges: Ranges
    keys_only: bool


@dataclass(frozen=True)
class Slice:
    """One slice of one table."""

    table: TableSession
    backfill: Backfill
    number: int

    @classmethod
    def from_backfill(cls, session: Session, backfill: Backfill, table: str, number: int) -> "Slice":
        return cls(open_table(session, table), backfill, number)

    @property
    def session(self) -> Session:
        return self.table.session

    @cached_property
    def all_ranges(self) -> list[Ranges]:
        return self.backfill.list_slices(self.table.name)

    @property
    def prefix(self) -> str:
        return f"{self.table.prefix} backfill={self.backfill.id} slice={self.number}/{len(self.all_ranges)}"

    @property
    def intermediate(self) -> str:
        return resource_names.name_backfill_table(self.session.pipeline, self.table.spec, self.backfill.id)

    @property
    def shape(self) -> str:
        return _compute_shape(self.table.refresh())

    @property
    def label(self) -> str:
        return f"{self.backfill.id}/{self.number}"

    @property
    def is_applied(self) -> bool:
        return self.number in self.list_applied()

    def list_applied(self) -> frozenset[int]:
        """Return the applied slices, without those rolled back since. One may be missing, never too many."""
        table = self.table.refresh()
        if list_skipped_records(table.pipeline.name, table.state):
            table = replace(table, spec=make_room_for_letters(table.spec))
        shape = _compute_shape(table)
        applied_slices = self.session.history.list_applied_slices(self.intermediate, shape)
        if not applied_slices:
            return applied_slices
        rolled_back = self.session.commits.list_rolled_back(self.table.name, resource_names.SLICE_PROPERTY)
        return frozenset(number for number in applied_slices if replace(self, number=number).label not in rolled_back)

    def require_position(self, table: TableSession) -> Position:
        """Return the position of the slice's table; `GiveUp` if the flush has yet to read the slice's records.

        `PositionLost` if the topic was created again.
        """
        position = require_position(table)
        self.check_same_topics(position.topic_ids)
        for topic, partition, start, end in self.all_ranges[self.number - 1]:
            reached_offset = get_offset(position.offsets, topic, partition) or 0
            # after a rewind or a rebase since the plan; a table that is appended to would have the records twice
            if reached_offset < end and start < end:
                raise GiveUp(
                    f"{self.prefix} topic={topic} partition={partition}: position={reached_offset} lies before "
                    f"the end={end} of this slice: the table was rewound since the backfill was planned, and the flush "
                    "will read these records; flush the pipeline, then give the same command again"
                )
        return position

    def check_same_topics(self, topic_ids: Mapping[str, str]) -> None:
        """Raise `PositionLost` if these ids are of other topics than planned: their offsets mean other records."""
        for topic, planned_id in self.backfill.topic_ids.items():
            if topic_ids.get(topic, planned_id) != planned_id:
                raise PositionLost(
                    f"{self.prefix}: topic={topic} was deleted and created again since this backfill was "
                    f"planned: topic_id={topic_ids[topic]} planned={planned_id}; give it up with: "
                    f"tidegate backfill {self.session.pipeline.name} --abandon {self.backfill.id}"
                )

    def read_staging(self) -> Staging | None:
        return self.session.staging.read_staging(self.intermediate, self.table.name)


def _compute_shape(table: TableSession) -> str:
    return compute_shape(table.resolved, table.metadata)


def stage_missing(work: Sequence[tuple[Slice, Offsets]]) -> None:
    """Stage what is not staged yet for each slice, up to its table's position: newest first, one job for equal pieces.

    A slice needs itself and the keys of all later records up to the position, to find the last record of each key.
    """
    groups: dict[tuple[int, str, bool], list[tuple[Slice, StagePiece]]] = {}
    for table_slice, position in work:
        for stage_piece in _find_missing_pieces(table_slice, position, table_slice.read_staging()):
            key = (stage_piece.number, str(stage_piece.ranges.to_dict()), stage_piece.keys_only)
            groups.setdefault(key, []).append((table_slice, stage_piece))
    if not groups:
        return
    topic_log = read_log(work[0][0].session)
    for key in sorted(groups):
        _check_log(*groups[key][0], topic_log)
    for key in sorted(groups, reverse=True):
        _stage_group(groups[key])


def stage_missing_slice(table_slice: Slice, position: Offsets) -> Staging:
    """Return the intermediate table once it holds all that decides about the slice up to `position`.

    `RetryLater` if others take away what was staged, again and again.
    """
    for _ in range(MAX_ROUNDS):
        staging = table_slice.read_staging()
        if staging is not None and not _find_missing_pieces(table_slice, position, staging):
            return staging
        stage_missing([(table_slice, position)])
    raise RetryLater(f"{table_slice.prefix}: what was staged was taken away {MAX_ROUNDS} times; it will be tried again")


def _find_missing_pieces(table_slice: Slice, position: Offsets, staging: Staging | None) -> list[StagePiece]:
    slices = table_slice.all_ranges
    current = table_slice.shape  # what was staged under another pipeline file is not there
    staged_ranges = (
        {batch.batch: batch.ranges for batch in staging.batches if batch.row_shape == current} if staging else {}
    )
    last = len(slices) if needs_later_records(table_slice.table.spec) else table_slice.number
    pieces = [
        StagePiece(number, slices[number - 1], keys_only=False)
        for number in range(table_slice.number, last + 1)
        if staged_ranges.get(number) != slices[number - 1]
    ]
    if not needs_later_records(table_slice.table.spec):
        return pieces
    tail = [ranges for number, ranges in staged_ranges.items() if number > len(slices)]
    reach = find_reach(tail, table_slice.backfill.get_ranges(table_slice.table.name).end)
    later_ranges = cut_into_slices(find_missing_ranges(reach, position), table_slice.backfill.max_records)
    following = max([len(slices), *staged_ranges]) + 1
    return pieces + [StagePiece(following + index, ranges, keys_only=True) for index, ranges in enumerate(later_ranges)]


def _stage_group(group: list[tuple[Slice, StagePiece]], *, is_repeated: bool = False) -> None:
    first, stage_piece = group[0]
    session = first.session
    backfill = first.backfill
    plan = Plan((), backfill.cluster_id, backfill.topic_ids)
    note = json.dumps(backfill.to_dict())
    planned_batches = [
        PlannedBatch(table_slice.table.name, stage_piece.number, stage_piece.ranges, last_per_key=True)
        for table_slice, _ in group
    ]
    stage_tables = [
        replace(
            build_stage_table(session, plan, batch, intermediate=table_slice.intermediate, note=note),
            keys_only=stage_piece.keys_only,
        )
        for batch, (table_slice, _) in zip(planned_batches, group, strict=True)
    ]
    job = StageJob(
        pipeline=session.pipeline.name,
        batch=stage_piece.number,
        ranges=stage_piece.ranges,
        isolation=session.pipeline.source.isolation,
        tables=tuple(stage_tables),
    )
    content = "keys" if stage_piece.keys_only else "records"
    log.info(
        "staging: %s batch=%s offsets=%s of %s",
        first.prefix,
        stage_piece.number,
        stage_piece.ranges.span,
        content,
    )
    growing = list[tuple[Slice, StagePiece]]()
    for (table_slice, _), batch, table in zip(group, planned_batches, run_or_take_over(session, job), strict=True):
        if add_lacking_columns(table_slice.table, batch, table):
            growing.append((table_slice, stage_piece))
        else:
            read_staged_batch(session, batch, table)
    if growing and is_repeated:
        raise RetryLater(f"{first.prefix}: columns were changed meanwhile; it is staged again")
    if growing:  # once more, with these columns
        _stage_group(growing, is_repeated=True)


def _check_log(table_slice: Slice, stage_piece: StagePiece, topic_log: Log) -> None:
    content = "later offsets, which decide what may be written" if stage_piece.keys_only else "offsets"
    for topic, partition, start, end in stage_piece.ranges:
        place = f"{table_slice.prefix} topic={topic} partition={partition}: {content} [{start}, {end})"
        begin = get_offset(topic_log.begin, topic, partition) or 0
        check_log_holds(place, start=start, end=end, begin=begin)
