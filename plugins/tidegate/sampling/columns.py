"""Proposes columns for sampled rows: their types, how often each occurred, and what a person has to check."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidegate.model.counts import format_count
from tidegate.sampling.column_types import Guess, Observed, guess_type
from tidegate.sampling.recognition import read_cell
from tidegate.sampling.samples import TopicSample
from tidegate.schema.data_types import DataType, format_type
from tidegate.sql.spark import PLAIN_NAME_PATTERN, quote_if_needed


@dataclass(frozen=True)
class ProposedColumn:
    """A column with its type as DDL, remarks, and what a person has to check."""

    name: str
    type: str
    remarks: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        return f"{quote_if_needed(self.name)} {self.type}"


def render_ddl_type(data_type: DataType) -> str:
    """With backquotes only where they are needed."""
    return format_type(data_type, quote_if_needed)


def propose_columns(
    observed: Observed, stated: Mapping[str, Guess], *, keeps_text: bool, may_lack: bool = False
) -> tuple[list[ProposedColumn], list[str]]:
    """Columns in the order of their first occurrence, and problems of fields without a column.

    A type that the source states takes precedence over the sample. `may_lack`: a missing field is no finding.
    """
    columns = list[ProposedColumn]()
    problems = list[str]()
    names = [*stated, *(name for name in observed.fields if name not in stated)]
    counts = {name: len(observed.fields[name].values) if name in observed.fields else 0 for name in names}
    chosen_names = {name.casefold(): name for name in sorted(names, key=lambda name: counts[name])}
    for name in names:
        if chosen_names[name.casefold()] != name:
            problems.append(f"field {name!r} is left out: it differs from {chosen_names[name.casefold()]} only in case")
        elif not name.strip() or not name.isprintable():
            problems.append(f"field {name!r} is left out: no column can have this name")
        else:
            part = observed.fields.get(name, Observed())
            guess = stated.get(name) or guess_type(part, name, keeps_text=keeps_text)
            remarks = (*guess.remarks, *([] if may_lack else _describe_presence(observed, name, part)))
            columns.append(ProposedColumn(name, render_ddl_type(guess.type), remarks, guess.checks))
    return columns, problems


def _describe_presence(observed: Observed, name: str, part: Observed) -> list[str]:
    if name not in observed.fields:
        return [f"in none of {format_count(observed.objects, 'row')}"]
    missing = observed.count_missing(name)
    nulls = part.nulls
    words = [f"{missing} of {observed.objects} rows lack it"] if missing else []
    words += [f"null in {nulls}"] if nulls and part.present else []
    return words or ([f"in all {observed.objects} rows, never null"] if part.present and observed.objects > 1 else [])


def read_cells(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Parse rows whose values are always sent as text."""
    return [{name: read_cell(v) if isinstance(v, str) else v for name, v in row.items()} for row in rows]


LARGE_LOG = 1_000_000  # offsets; below that one partition is read in a moment
BUCKETS = 16
BUCKET_TYPES = ("INT", "BIGINT", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
TIME_TYPES = ("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")
# seconds between records beyond which a minute is vain
SLOW_SECONDS = 600
SHORTEST_PACE_SECONDS = 10.0  # records that came within less were sent at once, and tell nothing of the days to come
SLOW_INTERVAL = "10m"
USUAL_INTERVAL = "60s"


class Proposal(NamedTuple):
    """A value with the reason for it."""

    value: str
    reason: str


def propose_partitioning(
    sample: TopicSample, columns: Sequence[ProposedColumn], keys: Sequence[ProposedColumn]
) -> Proposal:
    """A partition transform, or none."""
    # merges find rows by key; appended tables are mostly read by time
    if sample.span < LARGE_LOG:
        return Proposal(
            "", f"none: {format_count(sample.span, 'offset')} in the log; decide before the table grows large"
        )
    if keys:
        first = next((c for c in keys if c.type in BUCKET_TYPES and PLAIN_NAME_PATTERN.fullmatch(c.name)), None)
        if first is None:
            return Proposal("", "none: no field of the key has a plain name and a type that buckets can be made of")
        return Proposal(
            f"bucket({BUCKETS}, {quote_if_needed(first.name)})",
            f"{sample.span} offsets in the log, rows are found by key",
        )
    plain = [c for c in columns if c.type in TIME_TYPES and PLAIN_NAME_PATTERN.fullmatch(c.name)]
    times = [c for c in plain if any("never null" in remark for remark in c.remarks)]
    if len(times) != 1:
        return Proposal("", f"none: {len(times)} columns hold a time in every row; choose one, e.g. days(column)")
    return Proposal(
        f"days({quote_if_needed(times[0].name)})", f"{sample.span} offsets in the log, {times[0].name} is its one time"
    )


def propose_interval(sample: TopicSample) -> Proposal:
    """One minute, or longer if records are rare."""
    times = [record.timestamp_ms for record in sample.records if record.timestamp_ms > 0]
    seconds = (max(times) - min(times)) / 1000 if times else 0.0
    if len(times) < 2 or seconds < SHORTEST_PACE_SECONDS:
        return Proposal(USUAL_INTERVAL, "the default; the sample tells no pace")
    pause = seconds / max(1, sample.span)
    if pause > SLOW_SECONDS:
        return Proposal(SLOW_INTERVAL, f"a record each {pause / 60:.0f} minutes by the records' own times")
    pace = f"{1 / pause:.1f} records a second" if pause < 1 else f"a record each {pause:.0f} s"
    return Proposal(USUAL_INTERVAL, f"the default; about {pace} by the records' own times")
