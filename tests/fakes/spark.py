"""The port `Engine` and `Sql` in memory: what the jobs and statements do, in Python."""

import json
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from tidegate.errors import RetryLater
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.direct_job import ROWS_NAME, DirectJob, DirectOutcome
from tidegate.jobs.job import Job
from tidegate.jobs.maintain_job import MaintainJob
from tidegate.jobs.merge_job import MergeJob
from tidegate.jobs.stage_job import StageJob, StageTable
from tidegate.jobs.stage_outcome import DELETE_COUNTS, TRUNCATED_AT, UNCHANGED_COUNTS
from tidegate.model.batch import RECORD_COUNTS, exceeds_tolerance
from tidegate.schema.column import Column
from tidegate.spec.projection import Projection
from tidegate.spec.table import Route

from fakes.audits import answer
from fakes.bounds import check_bounds
from fakes.broker import MemoryBroker, Record
from fakes.dead_letters import list_waiting_records, mark_of, write_dead_letters
from fakes.folded import merge_folded, replace_placeholders
from fakes.lake import MemoryDestination
from fakes.sequenced import build_sort_key, merge_sequenced, remember_deletes
from fakes.tables import Row
from fakes.versions import merge_history, remember_changes

SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."
COUNTED = "spark.merge-into.num-target-rows-"
BAD = "not JSON"  # a key or value that no format can read
TRUNCATE = {"op": "t"}  # a value that says that the source table was emptied


class StructuredSql:
    """The port `Sql` that keeps what it was asked for as JSON, so that `MemoryEngine` can do it."""

    def render(self, statement: str, **values: Any) -> str:
        return _AS_JSON.encode({"statement": statement, **values})


def _flatten(value: Any) -> Any:
    """What JSON has no word for, one level deep: its encoder asks again for what lies in it."""
    if is_dataclass(value):
        return {dataclass_field.name: getattr(value, dataclass_field.name) for dataclass_field in fields(value)}
    return list(value)


_AS_JSON = json.JSONEncoder(default=_flatten)


def judge_all(row: Row) -> bool:
    """A plain pass can judge every row: none is unusual."""
    return False


class MemoryEngine:
    """The port `Engine` that does in Python what the jobs do in Spark. `conditions` gives SQL texts a meaning."""

    def __init__(self, broker: MemoryBroker, destination: MemoryDestination) -> None:
        self.broker, self.destination = broker, destination
        self.conditions: dict[str, Callable[[Any], bool]] = {}
        self.selects: dict[str, Callable[..., Row]] = {}  # the same for the texts of `select`
        self.jobs: list[Job] = []
        self.direct: list[DirectJob] = []
        self.unusual: Callable[[Row], bool] = judge_all  # rows that a plain pass cannot judge
        self.mended: dict[int, Any] = {}  # what a dead letter's bytes mean since its pipeline file was corrected

    def run(self, job: Job) -> None:
        job = type(job).from_json(job.to_json())  # the jobs and the steps share nothing but this text
        self.jobs.append(job)
        if isinstance(job, StageJob):
            for table in (*job.tables, *([job.finder] if job.finder else [])):
                for text in table.create:
                    self._create(json.loads(text))
                    hit_failpoint("job.created")
            for table in job.tables:
                self._stage(job, table)
            if job.finder is not None:
                self._find(job, job.finder)
        elif isinstance(job, MaintainJob):
            outcome = {name: self._maintain(name, json.loads(text)) for name, text in job.statements.items()}
            outcome_text = json.dumps({"attempt": job.attempt, **outcome})
            self.destination.tables[job.table].properties[job.property] = outcome_text
        else:
            summary = {k.removeprefix(SNAPSHOT_PROPERTY): v for k, v in job.conf.items() if SNAPSHOT_PROPERTY in k}
            for text in job.statements:
                statement = json.loads(text)
                if statement["statement"] in ("remember_deletes", "remember_changes"):
                    self._remember(statement)
                elif "dead_letters" in statement["statement"]:
                    write_dead_letters(self.destination, statement)
                elif not self._create(statement):
                    self._merge(statement, summary)
                hit_failpoint("job.statement")
            if job.audits is not None:
                answer(job.audits, self.destination, self.conditions)
                hit_failpoint("job.audited")

    def run_direct(self, job: DirectJob) -> DirectOutcome:
        job = DirectJob.from_json(job.to_json())
        self.direct.append(job)
        (table,) = job.stage.tables
        rows, outcome = self._decode_records(job.stage, table)
        statement = {**json.loads(job.statement), "rows": rows}
        summary = {k.removeprefix(SNAPSHOT_PROPERTY): v for k, v in job.conf.items() if SNAPSHOT_PROPERTY in k}
        self._merge(statement, summary)
        hit_failpoint("job.statement")
        outcome_text = json.dumps({"counted": outcome, "unusual": sum(self.unusual(row) for row in rows)})
        return DirectOutcome.from_json(outcome_text, "memory")

    @property
    def merges(self) -> list[MergeJob]:
        """The jobs that merged rows, without those that created tables."""
        return [j for j in self.jobs if isinstance(j, MergeJob) and '"statement": "merge_' in j.statements[-1]]

    @property
    def stages(self) -> list[StageJob]:
        return [j for j in self.jobs if isinstance(j, StageJob)]

    def _maintain(self, name: str, statement: dict[str, Any]) -> dict[str, Any]:
        """Compaction makes one file of all; expiry keeps the last of main and whatever a branch or tag names."""
        table = f"{statement['catalog']}.{statement['table']}"
        memory_table = self.destination.tables[table]
        if name == "compact":
            self.destination.add_snapshot(table, "main", tuple(memory_table.read_rows()), {"compacted": "true"})
        if name == "expire":
            cut_off_ms = datetime.fromisoformat(statement["older_than"]).replace(tzinfo=UTC).timestamp() * 1000
            recent_snapshots = takewhile(
                lambda numbered_snapshot: (
                    numbered_snapshot[0] < statement["retain_last"] or numbered_snapshot[1].ms >= cut_off_ms
                ),
                enumerate(memory_table.ancestors()),
            )
            required_ids = {s.id for _, s in recent_snapshots} | set(memory_table.refs.values())
            for snapshot_id in set(memory_table.snapshots) - required_ids:
                self.destination.expire(table, snapshot_id)
        return {"rows": 0}

    def _create(self, statement: dict[str, Any]) -> bool:
        if statement["statement"] in ("create_table", "create_deletes"):
            memory_table = self.destination.create(statement["table"], tuple(Column(**c) for c in statement["columns"]))
            if "pipeline" in statement:
                memory_table.properties.setdefault("tidegate.created-by", statement["pipeline"])
            if "own" in statement:
                memory_table.properties |= mark_of(statement["own"])
        elif statement["statement"] == "order_table":
            self.destination.tables[statement["table"]].ordered_by = tuple(statement["cluster_by"])
        elif statement["statement"] == "create_intermediate":
            memory_table = self.destination.create(statement["table"], ())
            memory_table.properties |= {
                "tidegate.shape": statement["shape"],
                "tidegate.highest-batch": str(statement["batch"]),
            }
            memory_table.properties |= {**statement.get("properties", {}), **mark_of(statement["own"])}
        elif statement["statement"] == "drop_intermediate":
            self.destination.tables.pop(statement["table"], None)
        return statement["statement"].startswith(("create_", "drop_", "order_"))

    def _explain(self, job: StageJob, table: StageTable) -> dict[str, Any]:
        """Of a bad record each field is refused: what `BAD` means is the whole of it."""
        ((topic, partition, start, end),) = job.ranges
        records = self._records(job, (topic, partition, start, end))
        if not records:
            return {"found": False}
        fate, row = self._decode(table, topic, partition, records[0])
        reason = row.get("reason") if fate == "bad" else None
        value = records[0].value if isinstance(records[0].value, dict) else {}
        fields = [
            {"part": "value", "name": c.name, "type": c.type, "found": value.get(c.name), "accepted": reason is None}
            for c in table.value_columns
        ]
        explanation = {"found": True, "rows": 1, "fate": fate, "reason": reason, "stage": "value" if reason else None}
        decoded_text = None if reason else json.dumps(row.get("value"))
        return {
            **explanation,
            "operation": row.get("op"),
            "row": decoded_text,
            "fields": [{**f, "reason": reason} for f in fields],
        }

    def _stage(self, job: StageJob, table: StageTable) -> None:
        if table.explains:
            text = json.dumps(self._explain(job, table))
            self.destination.tables[table.intermediate].properties[table.property] = text
            return
        rows, outcome = self._decode_records(job, table)
        rows_of_other_batches = [
            r for r in self.destination.tables[table.intermediate].read_rows() if r["batch_number"] != job.batch
        ]
        self.destination.add_snapshot(table.intermediate, "main", (*rows_of_other_batches, *rows), table.summary)
        hit_failpoint("job.overwritten")
        self.destination.tables[table.intermediate].properties |= {table.property: json.dumps(outcome), **table.marks}
        hit_failpoint("job.counted")

    def _decode_records(self, job: StageJob, table: StageTable) -> tuple[list[Row], dict[str, Any]]:
        """The rows of a batch, and what became of its records."""
        rows: list[Row] = []
        outcome: dict[str, Any] = {**dict.fromkeys(RECORD_COUNTS, 0), "bad": 0, "first_bad": None}
        outcome |= dict.fromkeys(DELETE_COUNTS, 0) if table.sequence else {}
        outcome |= dict.fromkeys(UNCHANGED_COUNTS, 0) if table.stages_kept else {}
        stamps: dict[str, dict[str, int]] = {}
        skipped_count = 0
        for topic, partition, start, end in job.ranges:
            records = self._records(job, (topic, partition, start, end))
            whole_records = [record for record in records if not _has_placeholder(table, record)]
            last_offsets = {json.dumps(record.key): -1 for record in records}
            last_offsets |= {json.dumps(record.key): record.offset for record in whole_records}
            for record in records:
                outcome["read"] += 1
                timestamps = stamps.setdefault(topic, {})
                timestamps[str(partition)] = max(record.timestamp, timestamps.get(str(partition), 0))
                if table.last_per_raw_key and _is_superseded(table, record, last_offsets[json.dumps(record.key)]):
                    outcome["superseded"] += 1
                    continue
                fate, row = self._decode(table, topic, partition, record)
                outcome[fate] += 1
                if fate == "staged":
                    if row["op"] == "t":
                        outcome[TRUNCATED_AT] = record.offset
                    if table.sequence and row["op"] == "d":
                        outcome["deletes"] += 1
                        outcome["unsequenced_deletes"] += row["sequence"] is None
                    if table.stages_kept:
                        outcome["kept"] += bool(row["kept"])
                    value = None if table.keys_only else row["value"]
                    rows.append({**row, "value": value, "batch_number": job.batch, "attempt": table.attempt})
                elif fate == "bad":
                    is_listed = table.skips is None or (topic, partition, record.offset) in table.skips
                    skipped_count += is_listed
                    if table.skips is None or not is_listed:
                        outcome["first_bad"] = outcome["first_bad"] or row
                    if table.set_aside is not None and is_listed:
                        rows.append(
                            {**_build_dead_letter(record, row), "batch_number": job.batch, "attempt": table.attempt}
                        )
        hit_failpoint("job.decoded")
        if table.set_aside is not None:
            outcome["dead_lettered"], outcome["bad"] = skipped_count, outcome["bad"] - skipped_count
            outcome["bad"] = skipped_count if exceeds_tolerance(skipped_count, table.set_aside) else outcome["bad"]
        return rows, {**outcome, "timestamps": stamps}

    def _records(self, job: StageJob, offset_range: tuple[str, int, int, int]) -> list[Record]:
        topic, partition, start, end = offset_range
        if job.letters is None:
            return self.broker.partitions[topic][partition].read(start, end, job.isolation)
        letters = (r for t, p, r in list_waiting_records(self.destination, job) if (t, p) == (topic, partition))
        return [replace(r, value=self.mended.get(r.offset, r.value)) for r in letters if start <= r.offset < end]

    def _find(self, job: StageJob, table: StageTable) -> None:
        """The names in a batch, left as a property of the table of names."""
        table_names, bad_count, first_bad = set(), 0, None
        for topic, partition, start, end in job.ranges:
            for record in self._records(job, (topic, partition, start, end)):
                fate, row = self._decode(table, topic, partition, record)
                if fate == "staged":
                    table_names.add(table.naming.name_of({**row["value"], "topic": topic}))
                elif fate == "bad":
                    bad_count, first_bad = bad_count + 1, first_bad or row
        names_outcome = {
            "attempt": table.attempt,
            "names": sorted(table_names),
            "bad": bad_count,
            "first_bad": first_bad,
        }
        self.destination.tables[table.intermediate].properties[table.property] = json.dumps(names_outcome)
        hit_failpoint("job.named")

    def _decode(self, table: StageTable, topic: str, partition: int, record: Record) -> tuple[str, Row]:
        place = {"topic": topic, "partition": partition, "offset": record.offset}
        source = record.value if record.key is None else record.key
        if table.value.applies_truncates and record.value == TRUNCATE:
            row = {"key": None, "value": None, "op": "t", "kept": [], "sequence": None}
            return "staged", {**row, **place, "i": 0, "timestamp": record.timestamp}
        if BAD in (record.key, record.value) or (table.key_columns and source is None):
            return "bad", {**place, "reason": "not readable"}
        prefix = table.key.prefix
        key = {c.name: source.get(c.name.removeprefix(prefix)) for c in table.key_columns}
        value = None if record.value is None else {c.name: record.value.get(c.name) for c in table.value_columns}
        value_fields = {
            name: field_value
            for name, field_value in (value or {}).items()
            if field_value is not None or name not in key
        }
        visible_fields = {**place, **dict.fromkeys(value or ()), **key, **value_fields}
        is_retracted = value is not None and self._is_retracted(table, visible_fields)
        is_delete = value is None or (
            table.delete_when is not None and self.conditions[table.delete_when](visible_fields)
        )
        is_delete = is_delete or is_retracted
        misfit = _find_misfit(table, record, key, None if is_delete else value)
        if misfit:
            return "bad", {**place, "reason": misfit}
        if value is not None and not self._is_chosen(table, visible_fields, is_retracted):
            return "filtered", {}
        fate = _judge_name(table, None if value is None else visible_fields)
        if fate or (is_delete and table.ignore_deletes):
            return fate or "ignored", {**place, "reason": "names no table"} if fate == "bad" else {}
        metadata_values = {name: {**place, "timestamp": record.timestamp}.get(k) for name, k in table.metadata.items()}
        decoded_value, unchanged_columns = (None, []) if is_delete else replace_placeholders(table, value or {})
        output_value = None if decoded_value is None else {**decoded_value, **metadata_values}
        if table.select is not None and output_value is not None and not table.keys_only:
            output_value = self._selected(table.select, {**place, "timestamp": record.timestamp, **output_value, **key})
        row = {"key": key, "value": output_value, "op": "d" if is_delete else "u"}
        row["kept"] = unchanged_columns
        row["sequence"] = _get_sequence(table, is_delete, {**(value or {}), **metadata_values})
        return "staged", {**row, **place, "i": 0, "timestamp": record.timestamp}

    def _selected(self, projection: Projection, visible_fields: Row) -> Row:
        """A row made by what the test says the text means, with the dimensions' rows at their pinned snapshots."""
        snapshots = {
            d.alias: self.destination.tables[d.table].snapshots.get(d.snapshot_id) for d in projection.dimensions
        }
        dimension_rows = {
            alias: [] if snapshot is None else list(snapshot.rows) for alias, snapshot in snapshots.items()
        }
        selected_values = self.selects[projection.text](visible_fields, **dimension_rows)
        return {column.name: selected_values.get(column.name) for column in projection.columns}

    def _is_retracted(self, table: StageTable, visible_fields: Row) -> bool:
        """Whether the condition's answer makes the record a delete."""
        return bool(table.retracts) and json.dumps(self.conditions[table.when](visible_fields)) in table.retracts

    def _is_chosen(self, table: StageTable, visible_fields: Row, is_retracted: bool) -> bool:
        """Whether a row meets the table's condition, or is retracted by it, and the route."""
        if table.when is not None and not is_retracted and not self.conditions[table.when](visible_fields):
            return False
        return table.route is None or _is_routed(table.route, visible_fields)

    def _staged(self, statement: dict[str, Any]) -> list[Row]:
        if "rows" in statement:  # of a direct batch
            assert statement["rows_name"] == ROWS_NAME
            rows = [row for row in statement["rows"] if row["op"] != "bad"]
            target_columns = [column for column, field in statement["keys"] if field is None]
            rows = [{**row, "key": {target_columns[0]: row["key"]}} for row in rows] if target_columns else rows
            return [_rename_columns(row, statement) for row in rows]
        source_table = self.destination.tables.get(statement["source"])
        if source_table is None or statement["snapshot_id"] not in source_table.snapshots:
            raise RetryLater(f"Spark failed in merge: no snapshot={statement['snapshot_id']}")
        staged_rows = [r for r in source_table.snapshots[statement["snapshot_id"]].rows if r["op"] != "bad"]
        target_columns = [column for column, field in statement["keys"] if field is None]
        staged_rows = (
            [{**row, "key": {target_columns[0]: row["key"]}} for row in staged_rows] if target_columns else staged_rows
        )
        rows = [
            r for r in staged_rows if (r["batch_number"], r["attempt"]) == (statement["batch"], statement["attempt"])
        ]
        rows = [r for r in rows if r["offset"] > statement.get("truncated_at", -1)]
        if statement.get("guarded"):
            rows = _drop_superseded_rows(
                rows, [r for r in staged_rows if r["batch_number"] > statement["batch"]], statement
            )
        return [_rename_columns(row, statement) for row in rows]

    def _remember(self, statement: dict[str, Any]) -> None:
        has_history = statement["statement"] == "remember_changes"
        memory = statement["changes" if has_history else "deletes"]
        memory_table, target = self.destination.tables[memory], self.destination.tables[statement["target"]]
        rows = target.read_rows(statement["branch"].removeprefix("branch_")) if statement["asks_rows"] else []
        remember = remember_changes if has_history else remember_deletes
        new_rows = remember(statement, memory_table.read_rows(), self._staged(statement), rows)
        self.destination.add_snapshot(memory, "main", tuple(new_rows), {})

    def _merge(self, statement: dict[str, Any], summary: dict[str, str]) -> None:
        rows = self._staged(statement)
        branch = statement["branch"].removeprefix("branch_")
        target = self.destination.tables.get(statement["target"])
        if target is None or branch not in target.refs:
            raise RetryLater(f"Spark failed in merge: no branch={branch}")
        keys = [column for column, _ in statement["keys"]]
        if statement["statement"].startswith("merge_truncate"):
            is_folded = statement["statement"] == "merge_truncate_folded"
            upsert_statement = {**statement, "statement": "merge_upsert_delete"}
            merged_rows, _ = (
                merge_folded(statement, [], rows) if is_folded else _apply(upsert_statement, [], rows, keys)
            )
            summary_counts = {"added-records": len(merged_rows), "deleted-records": len(target.read_rows(branch))}
            snapshot_summary = {**summary, **{name: str(number) for name, number in summary_counts.items()}}
            self.destination.add_snapshot(statement["target"], branch, tuple(merged_rows), snapshot_summary)
            return
        check_bounds(statement, [row["key"] for row in rows])
        if statement["statement"] == "merge_sequenced":
            remembered_rows = self.destination.tables[statement["deletes"]].read_rows() if statement["deletes"] else []
            merged_rows, counts = merge_sequenced(statement, target.read_rows(branch), rows, remembered_rows)
        elif statement["statement"] == "merge_history":
            facts = self.destination.tables[statement["changes"]].read_rows()
            merged_rows, counts = merge_history(statement, target.read_rows(branch), rows, facts)
        elif statement["statement"] == "merge_folded":
            merged_rows, counts = merge_folded(statement, target.read_rows(branch), rows)
        else:
            merged_rows, counts = _apply(statement, target.read_rows(branch), rows, keys)
        if any(counts.values()):
            is_insert = statement["statement"] in ("merge_append", "merge_new")
            summary_counts = {"added-records": counts["inserted"]} if is_insert else {}
            summary_counts = summary_counts or {COUNTED + name: number for name, number in counts.items()}
            snapshot_summary = {**summary, **{name: str(number) for name, number in summary_counts.items()}}
            self.destination.add_snapshot(statement["target"], branch, tuple(merged_rows), snapshot_summary)


def _judge_name(table: StageTable, visible_fields: Row | None) -> str | None:
    """Bad where names are looked for and the row makes none, filtered where it names another table."""
    if table.naming is None or visible_fields is None:
        return None
    table_name = table.naming.name_of(visible_fields)
    if table.naming.name is None:
        return "bad" if table_name is None else None
    return None if table_name == table.naming.name else "filtered"


def _find_misfit(table: StageTable, record: Record, key: Row, value: Row | None) -> str | None:
    """Why a record that can be read is bad all the same."""
    for name in table.verified if record.key is not None and record.value is not None else ():
        if key[table.key.prefix + name] != record.value.get(name):
            return f"the key and the value differ in field {name}"
    _, unchanged_columns = replace_placeholders(table, value or {})
    if table.has_history and table.sequence and value is not None and value.get(table.sequence[0], 0) is None:
        return f"{table.sequence[0]} is NULL"
    unchanged_columns = (
        unchanged_columns
        if table.sequence or table.has_history
        else [name for name in unchanged_columns if name.casefold() in table.grouped]
    )
    return f"the value of {unchanged_columns[0]} is not in the event" if unchanged_columns else None


def _has_placeholder(table: StageTable, record: Record) -> bool:
    """Whether the placeholder of an unchanged value is somewhere in the record's value."""
    return table.value.unavailable is not None and table.value.unavailable in json.dumps(record.value)


def _is_superseded(table: StageTable, record: Record, last_offset: int) -> bool:
    return record.key is not None and record.offset < last_offset and not _has_placeholder(table, record)


def _get_sequence(table: StageTable, is_delete: bool, row: Row) -> list[Any] | None:
    sequence_values = [row.get(name) for name in table.sequence if name not in table.metadata]
    has_sequence = not sequence_values or any(value is not None for value in sequence_values)
    has_sequence = has_sequence or table.has_history
    return [row.get(name) for name in table.sequence] if table.sequence and (has_sequence or not is_delete) else None


def _rename_columns(row: Row, statement: dict[str, Any]) -> Row:
    """A staged row under the table's names, where a column was renamed."""
    key = dict(zip((column for column, _ in statement["keys"]), row["key"].values(), strict=True))
    if row["value"] is None:
        return {**row, "key": key}
    candidates = {
        column: [row["value"].get(name) for name in re.findall("`([^`]+)`", sql)]
        for column, sql in statement.get("expressions", {}).items()
    }
    value = {column: next((v for v in values if v is not None), None) for column, values in candidates.items()}
    return {**row, "key": key, "value": {**row["value"], **value}}


def _build_dead_letter(record: Record, refusal: Row) -> Row:
    """A record that cannot be read, as it is staged."""
    place = {name: refusal[name] for name in ("topic", "partition", "offset")}
    stage = "key" if record.key == BAD else "value"
    letter = {"key": record.key, "value": record.value, "stage": stage, "message": refusal["reason"]}
    letter |= {"error_class": f"Undecodable{stage.title()}", "headers": None}
    return {"key": None, "value": None, "op": "bad", **place, "timestamp": record.timestamp, "i": 0, "bad": letter}


def _is_routed(route: Route, visible_fields: Row) -> bool:
    value = visible_fields.get(route.field)
    if value is None:
        return False
    return str(value) in route.names if route.pattern is None else re.fullmatch(route.pattern, str(value)) is not None


def _drop_superseded_rows(rows: list[Row], later_rows: list[Row], statement: dict[str, Any]) -> list[Row]:
    """What a backfill may apply: keys that no later slice and no record up to the position supersedes."""

    def key(row: Row) -> str:
        return json.dumps(row["key"], sort_keys=True)

    highest: dict[str, Any] = {}
    for row in rows:
        if row["sequence"] is not None:
            highest[key(row)] = max(highest.get(key(row), []), build_sort_key(row["sequence"]) or [])

    def supersedes(row: Row) -> bool:
        highest_sequence = highest.get(key(row)) if "sequence" in statement else None
        return (
            highest_sequence is None or row["sequence"] is None or build_sort_key(row["sequence"]) >= highest_sequence
        )

    last_rows = {key(row): row for row in sorted(rows, key=lambda row: row["offset"])}

    def is_later(row: Row) -> bool:
        last_row = last_rows.get(key(row))
        return last_row is None or row["topic"] != last_row["topic"] or row["offset"] > last_row["offset"]

    candidates = (row for row in later_rows if "by_offset" not in statement or is_later(row))
    superseded = {key(row) for row in candidates if supersedes(row)}
    return [r for r in rows if key(r) not in superseded]


def _apply(
    request: dict[str, Any], table: list[Row], staged_rows: list[Row], keys: list[str]
) -> tuple[list[Row], dict[str, int]]:
    """What the statement does; keys are compared null-safe, by Python's own equality."""
    statement, values = request["statement"], request["values"]

    def key_of(row: Row) -> tuple[Any, ...]:
        return tuple(json.dumps(row.get(name)) for name in keys)

    def build_row(row: Row) -> Row:
        return {**row["key"], **{name: row["value"].get(name) for name in values}}

    changes = sorted(staged_rows, key=lambda r: (r["offset"], r["i"]))
    counts = {"inserted": 0, "updated": 0, "deleted": 0}
    if statement == "merge_append":
        new_rows = [build_row(row) for row in changes if row["op"] != "d"]
        return [*table, *new_rows], {**counts, "inserted": len(new_rows)}
    if statement == "merge_new":  # what is there is not looked at: a key that is there is there twice
        new_rows = [build_row(row) for row in {key_of(r["key"]): r for r in changes}.values() if row["op"] != "d"]
        return [*table, *new_rows], {**counts, "inserted": len(new_rows)}
    if statement == "merge_delete":
        last_deletes = {key_of(r["key"]): (r["offset"], r["i"]) for r in changes if r["op"] == "d"}
        remaining_rows = [row for row in table if key_of(row) not in last_deletes]
        new_rows = [
            build_row(r)
            for r in changes
            if r["op"] != "d" and (r["offset"], r["i"]) > last_deletes.get(key_of(r["key"]), (-1, 0))
        ]
        return [*remaining_rows, *new_rows], {
            "inserted": len(new_rows),
            "updated": 0,
            "deleted": len(table) - len(remaining_rows),
        }
    last_changes = {key_of(r["key"]): r for r in changes}
    if statement in ("backfill_append", "backfill_delete"):  # one row for a key that has none
        current_keys = {key_of(row) for row in table}
        last_changes = {key: r for key, r in last_changes.items() if r["op"] == "d" or key not in current_keys}
    if statement == "merge_soft_delete":
        return _delete_softly(request["flag"], table, changes, key_of, build_row)
    merged_rows = []
    for row in table:
        change = last_changes.pop(key_of(row), None)
        if change is None:
            merged_rows.append(row)
        elif change["op"] == "d":
            counts["deleted"] += 1
        else:
            counts["updated"] += 1
            merged_rows.append({**row, **build_row(change)})
    new_rows = [build_row(change) for change in last_changes.values() if change["op"] != "d"]
    return [*merged_rows, *new_rows], {**counts, "inserted": len(new_rows)}


def _delete_softly(
    flag: str, table: list[Row], changes: list[Row], key_of: Callable[[Row], Any], build_row: Callable[[Row], Row]
) -> tuple[list[Row], dict[str, int]]:
    rows_by_key = {key_of(row): row for row in table}
    keys_before = set(rows_by_key)
    deletion_flags = {key_of(r["key"]): r["op"] == "d" for r in changes}
    upserts = {key_of(r["key"]): r for r in changes if r["op"] != "d"}
    rows_by_key |= {key: {**rows_by_key.get(key, {}), **build_row(row)} for key, row in upserts.items()}
    rows_by_key |= {
        key: {**rows_by_key[key], flag: is_delete} for key, is_delete in deletion_flags.items() if key in rows_by_key
    }
    counts = {
        "inserted": len(set(rows_by_key) - keys_before),
        "updated": len(keys_before & set(deletion_flags)),
        "deleted": 0,
    }
    return list(rows_by_key.values()), counts
