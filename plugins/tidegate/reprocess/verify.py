"""verify: whether a table is what the log says up to its position. It changes only the table's note of the result.

What the log still holds is staged as a batch of its own, and folded by the SQL of a merge. A difference is reported
only where nothing but the table can be wrong: see `docs/verify.md`. What each key is, `unknowable` too, is decided in
`include/sql/iceberg/_compared.sql`.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from tidegate.errors import GiveUp, NotTried, RetryLater, TidegateError, Unverifiable, join_failures, try_tables
from tidegate.flush.stage_request import build_stage_job, build_stage_table
from tidegate.flush.staged import find_lacking_columns, read_staged_batch, run_or_take_over
from tidegate.jobs.statements_job import JobQuestions, StatementsJob
from tidegate.merge.hold import UNREADABLE_COLUMNS
from tidegate.merge.owed import find_known_topic_ids
from tidegate.merge.scd2_statements import list_change_values, list_layout_values, refuse_truncates
from tidegate.merge.statements import build_merge_input, render_hashed
from tidegate.merge.write_mode import is_folded, name_fold
from tidegate.model import resource_names
from tidegate.model.batch import Plan, PlannedBatch, StagedBatch
from tidegate.model.kafka_log import Log
from tidegate.model.merge_input import MergeInput
from tidegate.model.offsets import Offsets, Ranges, find_missing_ranges, get_offset, iterate_offsets
from tidegate.model.ownership import describe_dead_letters, describe_memory
from tidegate.model.position import Position
from tidegate.ports.session import Session
from tidegate.schema.data_types import DataType, Primitive, drop_forms
from tidegate.spec.source import Errors
from tidegate.sql.spark import NONDETERMINISTIC_FUNCTIONS
from tidegate.table.coverage import compute_rules, read_coverage
from tidegate.table.log import check_same_log, filter_table_log, read_log
from tidegate.table.position import check_read_log, require_position
from tidegate.table.scratch import ScratchKind, name_scratch_table, open_scratch_table
from tidegate.table.session import TableSession, open_table, refuse_template, select_tables

log = logging.getLogger(__name__)
VERIFIED_PROPERTY = "verified"
BUCKETS = 1024  # of keys, whose checksums are compared first
MAX_DIFFERENCES = 100
MAX_CHARACTERS = 200  # of a value
WHOLE = 1_000_000  # rows of a million that a sample looks at
SET_ALL_ASIDE = Errors("all", 2**31 - 1)  # what is bad is compared with the dead letters
KINDS = ("equal", "missing", "surplus", "different", "unknowable")
UTC_CONF = {"spark.sql.session.timeZone": "UTC"}
# what gives another value when a record is read again: also by another session, or on another machine
CHANGING_CALLS = (NONDETERMINISTIC_FUNCTIONS - {"unix_timestamp"}) | {
    "spark_partition_id", r"input_file\w*", "session_user", "user", "reflect", "try_reflect", "java_method",
}  # fmt: skip
CHANGING = re.compile(
    rf"\b({'|'.join(sorted(CHANGING_CALLS))})\s*\("
    r"|\bunix_timestamp\s*\(\s*\)|\b(current_\w+|curdate|localtimestamp)\b"
    r"|'\s*(now|today|tomorrow|yesterday)\s*'",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Difference:
    """One value that differs, or with no `column` a row that only the table, or only the log, has, as text."""

    kind: str
    key: str
    column: str | None
    table: str | None
    log: str | None


@dataclass(frozen=True)
class Verification:
    """The result: counts of keys, the first differences, and why the log cannot tell some keys (`limits`)."""

    table: str
    at_ms: int
    position: Offsets
    snapshot_id: int
    sample_per_million: int
    equal: int
    missing: int
    surplus: int
    different: int
    unknowable: int
    copied: int = 0  # of the surplus: keys that have several rows, and should have one
    limits: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def wrong(self) -> int:
        return self.missing + self.surplus + self.different

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; the snapshot id is text, as browsers round numbers of this size."""
        return {**asdict(self), "snapshot_id": str(self.snapshot_id)}

    @property
    def counts(self) -> dict[str, Any]:
        """Plain data without a value of any row, which Airflow may keep."""
        return {key: value for key, value in self.to_dict().items() if key != "differences"}


@dataclass(frozen=True)
class LogComparison:
    """One table at one snapshot, and the log that it is compared with."""

    table: TableSession
    position: Position
    log: Log
    start: Offsets
    limits: tuple[str, ...]
    sample_per_million: int = WHOLE
    scratch: ScratchKind = ScratchKind.VERIFY

    @property
    def session(self) -> Session:
        return self.table.session

    @property
    def prefix(self) -> str:
        return f"{self.table.prefix} {self.scratch}"

    @property
    def intermediate(self) -> str:
        return name_scratch_table(self.session, self.table.spec, self.scratch)

    @property
    def letters(self) -> str:
        return self.table.session.letters_table


def verify_table(session: Session, name: str, sample_per_million: int = WHOLE) -> Verification:
    """Compare one table with the log, and keep the result; or raise `Unverifiable`.

    1. Stage what the log holds of the offsets that the table follows, with the pipeline's own job.
    2. Fold it with the merge's own SQL, and compare checksums by buckets of keys with the table at one snapshot.
    3. Compare the rows of buckets that differ.
    """
    with read_log_again(session, name, sample_per_million) as (work, staged, tail):
        verification, _ = compare(work, staged, tail)
    keep_verification(work, verification)
    return verification


def verify_all(
    session: Session,
    name: str | None = None,
    report: Callable[[str, TidegateError], None] = lambda table, problem: None,
) -> list[Verification]:
    """Verify the table of that name, or each of the pipeline that can be verified; a warning names the others.

    If a table differs or fails, the others are verified; what `join_failures` makes of it is raised at the end, with
    all results. `NotTried` if none can be verified. `report` gets each table that differs or fails, or that cannot be
    verified: `Unverifiable`.
    """
    refuse_template(session.pipeline, "verify")
    tables = [spec.name for spec in select_tables(session, name)]
    verifications, problems = try_tables(tables, partial(verify_table, session))
    problems |= {found.table: _describe_wrong_rows(session, found) for found in verifications if found.wrong}
    for table, problem in problems.items():
        report(table, problem)
    refusals = [problem for problem in problems.values() if isinstance(problem, Unverifiable)]
    for refusal in refusals:
        log.warning("%s", refusal)
    failures = [problem for problem in problems.values() if problem not in refusals]
    if failures:
        raise join_failures(failures, tuple(verifications))
    if not verifications:
        raise NotTried("\n".join(map(str, refusals)))
    return verifications


def _describe_wrong_rows(session: Session, verification: Verification) -> GiveUp:
    pipeline = session.pipeline.name
    counts = " ".join(f"{kind}={count}" for kind, count in count_differences(verification).items())
    return GiveUp(
        f"pipeline={pipeline} table={verification.table}: rows are not what the log says: {counts}; see them with: "
        f"tidegate verify {pipeline} --table {resource_names.quote_word(verification.table)}"
    )


def count_differences(verification: Verification) -> dict[str, int]:
    """Return how many keys differ, by kind."""
    return {kind: getattr(verification, kind) for kind in ("missing", "different", "surplus")}


@contextmanager
def read_log_again(
    session: Session, name: str, sample_per_million: int
) -> Iterator[tuple[LogComparison, StagedBatch, StagedBatch | None]]:
    """Stage what the log holds up to the table's position, and the keys behind it that may tell; dropped at the end."""
    work = _open(session, name, sample_per_million)
    with open_scratch_table(session, work.table.spec, work.scratch):
        # 1.
        staged = stage_again(work, 1, Ranges.between(work.start, work.position.offsets))
        tail = _stage_tail(work)
        if tail is not None and not session.staging.holds_rows(work.intermediate, [staged, tail]):
            raise RetryLater(f"{work.prefix}: another verification of it runs; verify it again when that has ended")
        yield _add_limits(work, staged, tail), staged, tail


def _open(session: Session, name: str, sample_per_million: int) -> LogComparison:
    refuse_template(session.pipeline, "verify")
    # what is bad today is staged beside the rows, and compared with the dead letters
    table = open_table(session.tolerate(SET_ALL_ASIDE), name)
    if reason := find_refusal(table):
        raise Unverifiable(f"{table.prefix}: verify does not know {reason}; compare it by hand")
    try:
        refuse_truncates(table.pipeline, "verify")
        table = table.refresh()
        position = require_position(table)
    except GiveUp as refusal:
        raise Unverifiable(str(refusal)) from refusal
    topic_log = filter_table_log(read_log(session), table.spec)
    check_read_log(table, position, topic_log)
    start, limits = find_start(table, position, topic_log)
    return LogComparison(
        table=table,
        position=position,
        log=topic_log,
        start=start,
        limits=limits,
        sample_per_million=sample_per_million,
    )


def find_refusal(table: TableSession) -> str:
    """Return what the log alone does not tell of such a table; empty for one that can be compared with it."""
    spec = table.spec
    texts = (spec.when, spec.delete_when, spec.select.text if spec.select else None)
    changing = next((match[0].strip() for text in texts if text and (match := CHANGING.search(text))), "")
    reasons = {
        "tables of BigQuery": not table.has_branches,
        f"tables of mode={spec.mode}, whose rows no key tells apart": not spec.upsert,
        "leader-epoch, which brokers forget": "leader-epoch" in spec.metadata.values(),
        "a select that joins tables, whose rows may have changed since": spec.select is not None
        and bool(spec.select.dimensions),
        f"conditions or a select with {changing}, which gives another value each time": bool(changing),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def find_start(table: TableSession, position: Position, topic_log: Log) -> tuple[Offsets, tuple[str, ...]]:
    """Return since where the log tells the table's rows, and what it does not tell; or raise `Unverifiable`."""
    coverage = read_coverage(table.pipeline.name, table.state)
    if coverage is None or coverage.end != position.offsets:
        raise Unverifiable(
            f"{table.prefix}: the position was moved by hand, or by another version, and nothing was merged since, so "
            f"nobody can tell which records the table has; run: tidegate flush {table.pipeline.name}"
        )
    if coverage.rules != compute_rules(table, position):
        raise Unverifiable(
            f"{table.prefix}: the pipeline file or a schema has changed since the last merge, so records are read "
            f"otherwise than the table's rows were; run: tidegate flush {table.pipeline.name}"
        )
    other_pipelines = table.list_other_pipelines()
    if other_pipelines:
        raise Unverifiable(
            f"{table.prefix}: pipeline={', '.join(other_pipelines)} writes it too, and one log cannot tell its rows; "
            "compare it by hand"
        )
    limits = [] if coverage.is_whole else ["the table had rows before the pipeline's first batch"]
    start: Offsets = {}
    for topic, partition, end in iterate_offsets(position.offsets):
        begun = get_offset(coverage.start, topic, partition) or 0
        begin = get_offset(topic_log.begin, topic, partition)
        if begin is None:
            raise Unverifiable(
                f"{table.prefix} topic={topic} partition={partition}: the log has no such partition any more; "
                f"see `tidegate status {table.pipeline.name}`"
            )
        place = f"topic={topic} partition={partition}"
        if begin > begun:
            limits.append(f"{place}: the log begins at offset={begin}")
        elif begun:
            limits.append(f"{place}: records are read as today from offset={begun} on")
        start.setdefault(topic, {})[partition] = min(max(begun, begin), end)
    if start == position.offsets:
        raise Unverifiable(
            f"{table.prefix}: the log holds no record that tells its rows: {', '.join(limits) or 'it is new'}; "
            "verify it after the next flush"
        )
    return start, tuple(limits)


def stage_again(
    work: LogComparison, number: int, ranges: Ranges, *, keys_only: bool = False, of_key: str = ""
) -> StagedBatch:
    """Stage these ranges in the scratch table, with the job of a flush; see `StageTable.of_key`."""
    session = work.session
    plan = Plan((), work.log.cluster_id, work.log.topic_ids, epochs=work.log.epochs)
    planned = PlannedBatch(work.table.name, number, ranges)
    stage_table = build_stage_table(session, plan, planned, intermediate=work.intermediate)
    stage_table = replace(stage_table, keys_only=keys_only, of_key=of_key)
    job = build_stage_job(session, number, ranges, [stage_table])
    log.info("staging: %s batch=%s offsets=%s", work.prefix, number, ranges.span)
    run_or_take_over(session, job, lambda is_read: check_same_log(session, work.prefix, ranges, plan, is_read=is_read))
    if find_lacking_columns(session, planned, stage_table):
        raise Unverifiable(
            f"{work.prefix}: records have fields that the table has no column for; add the columns, or run: "
            f"tidegate flush {work.table.pipeline.name}"
        )
    return read_staged_batch(session, planned, stage_table)


def _stage_tail(work: LogComparison) -> StagedBatch | None:
    """Stage the keys behind the position whose later records may tell already.

    Compaction may have taken an earlier record meanwhile. Deletes, and changes of history, are remembered before they
    are published, and beyond a rollback.
    """
    session = work.session
    topics = tuple(work.position.offsets)
    if not work.table.spec.remembers:
        topics = session.broker.filter_compacted(topics)
    end = session.broker.read_log(topics, session.pipeline.source.isolation).end if topics else {}
    ranges = find_missing_ranges({topic: work.position.offsets[topic] for topic in topics}, end)
    return stage_again(work, 2, ranges, keys_only=True) if ranges.span else None


def _add_limits(work: LogComparison, staged: StagedBatch, tail: StagedBatch | None) -> LogComparison:
    limits = list(work.limits)
    if staged.counts.gaps:
        limits.append(f"offsets={staged.counts.gaps} without a record: compacted, aborted, or of transactions")
    if tail is not None and tail.counts.dead_lettered:
        limits.append(f"records={tail.counts.dead_lettered} behind the position cannot be read")
    return replace(work, limits=tuple(limits))


def compare(work: LogComparison, staged: StagedBatch, tail: StagedBatch | None) -> tuple[Verification, dict[str, Any]]:
    """Compare the table at its snapshot with what is staged of the log.

    Return what was found, and the values of statements about the differing buckets.
    """
    values = build_values(work, staged, tail)
    sql = work.table.sql
    if staged.counts.dead_lettered:
        (unexplained,) = ask_spark(work, staged, (sql.render("verify_letters", **values),))
        if unexplained:
            raise Unverifiable(
                f"{work.prefix}: records={unexplained} cannot be decoded any more, and no waiting dead letter names "
                "them, so nobody can tell which rows they made; put format and schema back as they were"
            )
    (answer,) = ask_spark(work, staged, (sql.render("verify_buckets", **values),))
    checksums = json.loads(answer)
    values["buckets"] = checksums["buckets"]
    counts = dict.fromkeys((*KINDS, "copied"), 0)
    differences: list[Difference] = []
    if values["buckets"]:
        names = ("verify_counts", "verify_differences")
        counted, found = ask_spark(work, staged, tuple(sql.render(name, **values) for name in names))
        counts = json.loads(counted)
        differences = list(parse_differences(json.loads(found)))
    verification = Verification(
        table=work.table.name,
        at_ms=work.session.now_ms(),
        position=work.position.offsets,
        snapshot_id=work.table.require_state().snapshot_id or 0,
        sample_per_million=work.sample_per_million,
        limits=work.limits,
        differences=tuple(differences[:MAX_DIFFERENCES]),
        **{**counts, "equal": counts["equal"] + checksums["equal"]},
    )
    return verification, values


def build_values(work: LogComparison, staged: StagedBatch, tail: StagedBatch | None) -> dict[str, Any]:
    """Return the values of the statements that compare; `Unverifiable` if Spark cannot compare such a key."""
    table = work.table
    spec = table.resolved
    state = table.require_state()
    merge_input = build_merge_input(table, staged, "main")
    form = name_fold(spec, is_folded=is_folded(spec, staged))
    types = dict(state.struct.fields)
    flag = merge_input.get("flag")
    shows_flag = flag is not None and flag not in UNREADABLE_COLUMNS
    history = _list_history_values(work, staged, merge_input)
    row_key = [*dict(merge_input["keys"]), *history["versions"][:1]]
    own_values = [name for name in merge_input["values"] if name in types and _is_comparable(name, types[name])]
    own_values += history["versions"]
    if other := next((name for name in row_key if not _is_comparable(name, types[name])), None):
        raise Unverifiable(
            f"{work.prefix}: verify does not know the type or name of key column={other}; compare it by hand"
        )
    columns = [*dict(merge_input["keys"]), *own_values, *([flag] if shows_flag and flag else [])]
    typed_columns = [(name, types[name]) for name in columns]
    return {
        **merge_input,
        **history,
        "form": form,
        "row_key": row_key,
        "row_leaves": [*merge_input["leaves"], *((name,) for name in history["versions"][:1])],
        "source": work.intermediate,
        "values": own_values,
        "deletes": None,
        "flag": flag,
        "shows_flag": shows_flag,
        "written": [*merge_input["values"], *([flag] if flag else [])],
        "groups": bool(spec.sequence_groups),
        "columns": columns,
        "typed_columns": typed_columns,
        "hashed_columns": [text for name, kind in typed_columns for text in render_hashed(table, name, kind, of="s")],
        "binary_columns": [name for name, kind in typed_columns if kind == Primitive("BINARY")],
        "table_snapshot_id": state.snapshot_id,
        "last_snapshot_id": (tail or staged).snapshot_id,
        "seen_parts": [*staged.parts, *(tail.parts if tail else ())],
        "bucket_count": BUCKETS,
        "sample_per_million": work.sample_per_million,
        **_find_readable_letters(work),
        "forgets": spec.remembers_deletes,
        **_describe_what_is_gone(work, tail, form),
        "kinds": KINDS,
        "max_differences": MAX_DIFFERENCES,
        "max_characters": MAX_CHARACTERS,
    }


def _describe_what_is_gone(work: LogComparison, tail: StagedBatch | None, form: str) -> dict[str, bool]:
    is_plain = form == "last" and not (tail and tail.counts.dead_lettered)
    may_lack_deletes = is_plain and bool(work.limits) and work.table.spec.delete
    if may_lack_deletes:
        # brokers compact by the key's bytes: of a key in two forms a delete may expire, and an earlier row stay
        may_lack_deletes = bool(work.session.broker.filter_compacted(tuple(work.position.offsets)))
    return {"is_complete": not work.limits, "is_plain": is_plain, "may_lack_deletes": may_lack_deletes}


def _list_history_values(work: LogComparison, staged: StagedBatch, merge_input: MergeInput) -> dict[str, Any]:
    """Return what laying out versions takes, and `versions`: the columns of their begin, end and currency, or none."""
    table = work.table
    spec = table.resolved
    if spec.history is None:
        return {"versions": []}
    changes = resource_names.name_changes_table(spec)
    is_there = table.session.tables.claim(changes, describe_memory(spec)) is not None
    head = table.session.commits.read_head(changes, "main") if is_there else None
    layout = list_layout_values(spec, merge_input)
    return {
        **{name: value for name, value in layout.items() if name != "change_expressions"},  # nothing is remembered
        **list_change_values(spec, staged),
        "versions": [table.require_state().struct.get_own_name(name) for name in spec.history.columns],
        "is_log_alone": True,
        "changes_snapshot_id": head.snapshot_id if head else None,
    }


def _find_readable_letters(work: LogComparison) -> dict[str, Any]:
    letters = find_letters(work)
    if letters["letters"] and not work.session.commits.has_branches(work.letters):
        raise Unverifiable(
            f"{work.prefix}: its dead letters={work.letters} are in BigQuery, where Spark cannot read them; "
            "compare it by hand"
        )
    return letters


def find_letters(work: LogComparison) -> dict[str, Any]:
    """Return the table of dead letters, and the snapshot at which all statements read it; None for no letter.

    `ids` are those of the topics that the table follows: letters of deleted topics stay.
    """
    session = work.session
    found = {"letters": None, "letters_snapshot_id": None, "ids": find_known_topic_ids(work.position.topic_ids)}
    if session.tables.claim(work.letters, describe_dead_letters(work.table.pipeline)) is None:
        return found
    if not session.commits.has_branches(work.letters):
        return {**found, "letters": work.letters}
    head = session.commits.read_head(work.letters, "main")
    return {**found, "letters": work.letters, "letters_snapshot_id": head.snapshot_id} if head else found


def _is_comparable(name: str, kind: DataType) -> bool:
    # a UUID is spelled otherwise in the table than in the record
    return name not in UNREADABLE_COLUMNS and drop_forms(kind) == kind


def ask_spark(work: LogComparison, staged: StagedBatch, queries: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the one value that answers each query; they look at one snapshot of the scratch table."""
    session = work.session
    attempt = session.new_attempt()
    audit_property = resource_names.name_audit_property(staged.attempt)
    texts = (work.scratch,) * len(queries)
    questions = JobQuestions(queries, table=work.intermediate, property=audit_property, attempt=attempt, texts=texts)
    pipeline = session.pipeline.name
    session.engine.run(
        StatementsJob(pipeline, staged.batch, (), conf=UTC_CONF, questions=questions, table=work.table.name)
    )
    answers = session.staging.read_job_answers(work.intermediate, staged.attempt)
    if answers is None or answers.attempt != attempt:
        raise RetryLater(
            f"{work.prefix}: Spark left no answer, as another verification of the table runs; run it again"
        )
    return answers.broken


def parse_differences(entries: Iterable[dict[str, Any]]) -> Iterator[Difference]:
    """Read the answer of `verify_differences`."""
    for entry in entries:
        kind, key = entry["kind"], entry["key"]
        if kind == "different":
            for column in entry["columns"]:
                values = {side: column.get(side) for side in ("table", "log")}
                yield Difference(kind=kind, key=key, column=column["column"], **values)
        else:
            of_table = entry.get("table")
            several = f"{entry['rows']} rows: {of_table}" if entry["rows"] > 1 else of_table
            yield Difference(kind=kind, key=key, column=None, table=several, log=entry.get("log"))


def keep_verification(work: LogComparison, verification: Verification) -> None:
    facts = {key: value for key, value in verification.counts.items() if key != "table"}
    name = resource_names.name_pipeline_property(work.session.pipeline.name, VERIFIED_PROPERTY)
    statement = work.table.sql.render(
        "keep_verification", target=work.table.name, property=name, verification=json.dumps(facts)
    )
    work.session.engine.run(StatementsJob(work.session.pipeline.name, 0, (statement,), table=work.table.name))
