"""backfill, second part: stage a slice, and of all that follows it up to the position whatever is not staged yet."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tidegate.errors import GiveUp, PositionLost, RetryLater
from tidegate.jobs.stage_job import StageJob
from tidegate.merge.compare_and_swap import MAX_ROUNDS
from tidegate.model import resource_names
from tidegate.model.backfill import Backfill, cut_into_slices, find_missing_ranges, find_reach
from tidegate.model.batch import Plan, PlannedBatch
from tidegate.model.offsets import Offsets, Ranges, get_offset
from tidegate.model.position import Position
from tidegate.ports.context import Log, Ports, Staging, TableState
from tidegate.progress.topic_log import read_log
from tidegate.reprocess.backfill_plan import check_log_holds, needs_later_records, require_position
from tidegate.spec.table import Table
from tidegate.staging.skipped_records import list_skipped_records, make_room_for_letters
from tidegate.staging.stage_outcome import read_staged_batch
from tidegate.staging.stage_request import build_stage_table
from tidegate.staging.takeover import run_or_take_over
from tidegate.tables.columns import compute_shape, resolve_columns
from tidegate.tables.lookup import find_table

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StagePiece:
    """Offsets to stage as batch `number`; `keys_only` for records that decide and are not applied themselves."""

    number: int
    ranges: Ranges
    keys_only: bool


@dataclass(frozen=True)
class Slice:
    """One slice of one table."""

    ports: Ports
    backfill: Backfill
    table: Table
    number: int

    @classmethod
    def from_backfill(cls, ports: Ports, backfill: Backfill, table: str, number: int) -> "Slice":
        """The slice of the table of that name."""
        return cls(ports, backfill, find_table(ports, table), number)

    @cached_property
    def all_ranges(self) -> list[Ranges]:
        """Every slice of the table, number 1 first."""
        return self.backfill.slices(self.table.name)

    @property
    def where(self) -> str:
        """For messages."""
        return (
            f"pipeline={self.ports.pipeline.name} table={self.table.name} backfill={self.backfill.id} "
            f"slice={self.number}/{len(self.all_ranges)}"
        )

    @property
    def intermediate(self) -> str:
        """The backfill's own intermediate table."""
        return resource_names.name_backfill_table(self.ports.pipeline, self.table, self.backfill.id)

    @property
    def shape(self) -> str:
        """The shape of the rows as the pipeline file asks for them now, over the destination as it is now."""
        return self._compute_shape(self.table)

    def _compute_shape(self, table: Table) -> str:
        pipeline = self.ports.pipeline
        state = self.ports.tables.read_state(table.name, pipeline.name)
        return compute_shape(resolve_columns(table, pipeline.source.metadata, state), pipeline.source.metadata)

    @property
    def label(self) -> str:
        """Of which backfill it is, and its number, as its snapshots tell it."""
        return f"{self.backfill.id}/{self.number}"

    @property
    def is_applied(self) -> bool:
        """Whether it is, see `list_applied`."""
        return self.number in self.list_applied()

    def list_applied(self) -> frozenset[int]:
        """The table's slices that the backfill's own table says are applied, without those rolled back since.

        One may be missing, never too many: a slice may be applied twice.
        """
        name = self.ports.pipeline.name
        has_skips = list_skipped_records(name, self.ports.tables.read_state(self.table.name, name))
        shape = self._compute_shape(make_room_for_letters(self.table)) if has_skips else self.shape
        applied = self.ports.history.list_applied_slices(self.intermediate, shape)
        if not applied:
            return applied
        gone = self.ports.commits.list_rolled_back(self.table.name, resource_names.SLICE_PROPERTY)
        return frozenset(number for number in applied if replace(self, number=number).label not in gone)

    def require_position(self, state: TableState | None) -> Position:
        """The table's position, see `backfill_plan`; `GiveUp` too where the flush has yet to read this slice's records.

        It will after a rewind or a rebase since the plan, and a table that is appended to would have them twice.
        `PositionLost` where the position is that of a topic that was created again.
        """
        position = require_position(self.ports, self.table, state)
        self.check_same_topics(position.topic_ids)
        for topic, partition, start, end in self.all_ranges[self.number - 1]:
            reached = get_offset(position.offsets, topic, partition) or 0
            if reached < end and start < end:
                raise GiveUp(
                    f"{self.where} topic={topic} partition={partition}: position={reached} lies before the end={end} "
                    "of this slice: the table was rewound since the backfill was planned, and the flush will read "
                    "these records; flush the pipeline, then give the same command again"
                )
        return position

    def check_same_topics(self, topic_ids: Mapping[str, str]) -> None:
        """`PositionLost` where these ids are of other topics than planned: their offsets mean other records."""
        for topic, planned in self.backfill.topic_ids.items():
            if topic_ids.get(topic, planned) != planned:
                raise PositionLost(
                    f"{self.where}: topic={topic} was deleted and created again since this backfill was planned: "
                    f"topic_id={topic_ids[topic]} planned={planned}; give it up with: "
                    f"tidegate backfill {self.ports.pipeline.name} --abandon {self.backfill.id}"
                )

    def read_staging(self) -> Staging | None:
        """The intermediate table as it stands, None where there is none."""
        return self.ports.staging.read_staging(self.intermediate, self.table.name)


def stage_missing(work: Sequence[tuple[Slice, Offsets]]) -> None:
    """Stage, for each slice and its table's position, what is not staged yet: newest first, one job for equal pieces.

    A slice needs itself, the slices after it, and the keys of all records from the end of the range to the position:
    only with them it is known which of its own records are the last of their key.
    """
    groups: dict[tuple[int, str, bool], list[tuple[Slice, StagePiece]]] = {}
    for one, position in work:
        for piece in _find_missing_pieces(one, position, one.read_staging()):
            key = (piece.number, str(piece.ranges.to_dict()), piece.keys_only)
            groups.setdefault(key, []).append((one, piece))
    if not groups:
        return
    topic_log = read_log(work[0][0].ports)
    for key in sorted(groups):
        _check_log(*groups[key][0], topic_log)
    for key in sorted(groups, reverse=True):
        _stage_group(groups[key])


def stage_missing_slice(one: Slice, position: Offsets) -> Staging:
    """The intermediate table in a state that holds all that decides about the slice; what is missing is staged.

    `position` is the table's, per partition: offsets up to there may decide. What is staged already is not staged
    again. RetryLater where others take away what was staged, again and again.
    """
    for _ in range(MAX_ROUNDS):
        staging = one.read_staging()
        if staging is not None and not _find_missing_pieces(one, position, staging):
            return staging
        stage_missing([(one, position)])
    raise RetryLater(f"{one.where}: what was staged was taken away {MAX_ROUNDS} times; it will be tried again")


def _find_missing_pieces(one: Slice, position: Offsets, staging: Staging | None) -> list[StagePiece]:
    slices = one.all_ranges
    current = one.shape  # what was staged under another pipeline file is not there
    there = {batch.batch: batch.ranges for batch in staging.batches if batch.shape == current} if staging else {}
    last = len(slices) if needs_later_records(one.table) else one.number
    pieces = [
        StagePiece(number, slices[number - 1], keys_only=False)
        for number in range(one.number, last + 1)
        if there.get(number) != slices[number - 1]
    ]
    if not needs_later_records(one.table):
        return pieces
    tail = [ranges for number, ranges in there.items() if number > len(slices)]
    reach = find_reach(tail, one.backfill.ranges(one.table.name).end)
    rest = cut_into_slices(find_missing_ranges(reach, position), one.backfill.max_records)
    following = max([len(slices), *there]) + 1
    return pieces + [StagePiece(following + index, ranges, keys_only=True) for index, ranges in enumerate(rest)]


def _stage_group(group: list[tuple[Slice, StagePiece]]) -> None:
    """One job: the same offsets for one or more tables."""
    first, piece = group[0]
    ports, backfill = first.ports, first.backfill
    plan = Plan((), backfill.cluster_id, backfill.topic_ids)
    note = json.dumps(backfill.to_dict())
    planned = [PlannedBatch(one.table.name, piece.number, piece.ranges, last_per_key=True) for one, _ in group]
    stage_tables = [
        replace(
            build_stage_table(ports, plan, batch, intermediate=one.intermediate, note=note), keys_only=piece.keys_only
        )
        for batch, (one, _) in zip(planned, group, strict=True)
    ]
    job = StageJob(
        pipeline=ports.pipeline.name,
        batch=piece.number,
        ranges=piece.ranges,
        isolation=ports.pipeline.source.isolation,
        tables=tuple(stage_tables),
    )
    what = "keys" if piece.keys_only else "records"
    log.info("staging: %s batch=%s offsets=%s of %s", first.where, piece.number, piece.ranges.span, what)
    for batch, table in zip(planned, run_or_take_over(ports, job), strict=True):
        read_staged_batch(ports, batch, table)


def _check_log(one: Slice, piece: StagePiece, topic_log: Log) -> None:
    what = "later offsets, which decide what may be written" if piece.keys_only else "offsets"
    for topic, partition, start, end in piece.ranges:
        where = f"{one.where} topic={topic} partition={partition}: {what} [{start}, {end})"
        begin = get_offset(topic_log.begin, topic, partition) or 0
        check_log_holds(where, start=start, end=end, begin=begin)
