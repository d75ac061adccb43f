"""complete: which hours or days of a table hold all their records, so that nothing of them can come any more."""

import logging
from datetime import UTC, datetime, timedelta

from tidegate.errors import NothingToDo
from tidegate.model.offsets import get_offset, iterate_offsets
from tidegate.model.position import Position
from tidegate.ports.session import Session
from tidegate.spec.runtime import Period
from tidegate.spec.time_text import to_utc_datetime
from tidegate.table.observed_table import observe_tables
from tidegate.table.pipeline_progress import measure_progress
from tidegate.table.session import check_table_is_known

log = logging.getLogger(__name__)
KEY_FORMATS = {Period.HOUR: "%Y-%m-%dT%H", Period.DAY: "%Y-%m-%d"}  # what Airflow's mappers of hours and days write
LENGTHS = {Period.HOUR: timedelta(hours=1), Period.DAY: timedelta(days=1)}
MAX_PERIODS = 48  # of one run; after a long pause the next runs tell the rest
MAX_AHEAD_MS = 3_600_000  # of records whose clock is merely not ours; what brokers allow by default


def read_completeness(session: Session, table: str) -> tuple[int, int]:
    """Return when the table has begun, and the time up to which it is complete, both in milliseconds of records' time.

    `NothingToDo` while that is unknown: a partition has shown no record, or the table stands still. If several
    pipelines write the table, the one that is farthest behind decides.
    """
    check_table_is_known(session, table)
    # the other tables are not read: each has a task of its own
    (observed,) = observe_tables(session, [part for part in session.pipeline.tables if part.name == table])
    (progress,) = measure_progress(session, [observed]).tables
    place = observed.prefix
    position = progress.position
    through = progress.valid_through_ms
    if progress.error is not None or position is None or through is None or not _find_greatest_time(position):
        raise NothingToDo(f"{place}: it is not known yet what is complete")
    # the records of a partition that was not read yet may be older
    log_end = iterate_offsets(progress.log.end)
    if any(get_offset(position.offsets, topic, partition) is None for topic, partition, _ in log_end):
        raise NothingToDo(f"{place}: a partition has not been read yet")
    # only hours after the greatest time in the table now were surely read whole
    begin_ms = _find_greatest_time(position)
    for other_pipeline, recorded in observed.read_other_positions().items():
        if recorded is None or recorded.valid_through_ms is None:
            raise NothingToDo(
                f"{place}: it is not known yet what is complete of pipeline={other_pipeline}, which writes it too"
            )
        if recorded.valid_through_ms < through:
            log.info(
                "%s: pipeline=%s writes it too and is farther behind: fewer hours are complete", place, other_pipeline
            )
        begin_ms = max(begin_ms, _find_greatest_time(recorded))
        through = min(through, recorded.valid_through_ms)
    now = session.now_ms()
    # times after now do not count: one record from a wrong clock would complete all hours until then
    return min(begin_ms, now + MAX_AHEAD_MS), min(through, now)


def _find_greatest_time(position: Position) -> int:
    # brokers say -1 for a record without a time
    return max((ms for _, _, ms in iterate_offsets(position.timestamps) if ms > 0), default=0)


def list_complete_periods(period: Period, last: str | None, begun_ms: int, through_ms: int) -> list[str]:
    """Return the keys of complete periods after `last`, the newest that was announced; oldest first.

    A period is complete once each partition has shown a record of its end or later. At most MAX_PERIODS.
    """
    pattern = KEY_FORMATS[period]
    length = LENGTHS[period]
    before = last or to_utc_datetime(begun_ms).strftime(pattern)  # the period in which it has begun is not whole
    start = datetime.strptime(before, pattern).replace(tzinfo=UTC) + length
    keys = list[str]()
    while start + length <= to_utc_datetime(through_ms):
        keys.append(start.strftime(pattern))
        start += length
        if len(keys) == MAX_PERIODS:
            break
    return keys


def is_key(period: Period, text: str | None) -> bool:
    try:
        return text is not None and datetime.strptime(text, KEY_FORMATS[period]).strftime(KEY_FORMATS[period]) == text
    except ValueError:
        return False
