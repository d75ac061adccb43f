"""What a stage job does, in Python: it stages a batch's rows, finds names of tables, or explains one record."""

import json
from dataclasses import replace
from typing import Any

from tidegate.failpoints import hit_failpoint
from tidegate.jobs.stage_job import StageJob, StageTable
from tidegate.jobs.stage_outcome import DELETE_COUNTS, TRUNCATED_AT, UNCHANGED_COUNTS
from tidegate.model.batch import RECORD_COUNTS, exceeds_tolerance

from fakes.broker import MemoryBroker, Record
from fakes.dead_letters import list_waiting_records
from fakes.grown_values import find_lacking_columns
from fakes.lake import MemoryDestination
from fakes.record_decoder import BAD, RecordDecoder, has_placeholder
from fakes.tables import Row


class StageRunner(RecordDecoder):
    """Runs what a stage job asks for one intermediate table."""

    def __init__(self, broker: MemoryBroker, destination: MemoryDestination) -> None:
        super().__init__(destination)
        self.broker = broker
        self.fixed_values: dict[int, Any] = {}  # by offset: a dead letter's value since its pipeline file was fixed

    def stage_table(self, job: StageJob, table: StageTable) -> None:
        if table.explains or table.outlines:
            text = json.dumps(self._explain_record(job, table) if table.explains else self._outline_records(job, table))
            self.destination.tables[table.intermediate].properties[table.property] = text
            return
        rows, outcome = self.decode_records(job, table)
        rows_of_other_batches = [
            r for r in self.destination.tables[table.intermediate].read_rows() if r["batch_number"] != job.batch
        ]
        self.destination.add_snapshot(table.intermediate, "main", (*rows_of_other_batches, *rows), table.summary)
        hit_failpoint("job.overwritten")
        self.destination.tables[table.intermediate].properties[table.property] = json.dumps(outcome)
        hit_failpoint("job.counted")

    def decode_records(self, job: StageJob, table: StageTable) -> tuple[list[Row], dict[str, Any]]:
        """The rows of a batch, and what became of its records."""
        rows: list[Row] = []
        outcome: dict[str, Any] = {**dict.fromkeys(RECORD_COUNTS, 0), "bad": 0, "first_bad": None}
        outcome |= dict.fromkeys(DELETE_COUNTS, 0) if table.sequence else {}
        outcome |= dict.fromkeys(UNCHANGED_COUNTS, 0) if table.stages_kept else {}
        stamps: dict[str, dict[str, int]] = {}
        values: list[Any] = []
        skipped_count = 0
        for topic, partition, start, end in job.ranges:
            records = self._read_records(job, (topic, partition, start, end))
            whole_records = [record for record in records if not has_placeholder(table, record)]
            last_offsets = {json.dumps(record.key): -1 for record in records}
            last_offsets |= {json.dumps(record.key): record.offset for record in whole_records}
            for record in records:
                outcome["read"] += 1
                timestamps = stamps.setdefault(topic, {})
                timestamps[str(partition)] = max(record.timestamp, timestamps.get(str(partition), 0))
                if table.last_per_raw_key and _is_superseded(table, record, last_offsets[json.dumps(record.key)]):
                    outcome["superseded"] += 1
                    continue
                fate, row = self.decode_record(table, topic, partition, record)
                outcome[fate] += 1
                if fate == "staged":
                    values += [] if row["op"] == "d" else [record.value]
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
        if table.value.adds_columns and not table.keys_only:
            outcome |= find_lacking_columns(table, values)
        return rows, {**outcome, "timestamps": stamps}

    def _read_records(self, job: StageJob, offset_range: tuple[str, int, int, int]) -> list[Record]:
        topic, partition, start, end = offset_range
        if job.letters is None:
            return self.broker.partitions[topic][partition].read(start, end, job.isolation)
        letters = (r for t, p, r in list_waiting_records(self.destination, job) if (t, p) == (topic, partition))
        return [replace(r, value=self.fixed_values.get(r.offset, r.value)) for r in letters if start <= r.offset < end]

    def find_names(self, job: StageJob, table: StageTable) -> None:
        """The names in a batch, left as a property of the table of names."""
        table_names, bad_count, first_bad = set(), 0, None
        for topic, partition, start, end in job.ranges:
            for record in self._read_records(job, (topic, partition, start, end)):
                fate, row = self.decode_record(table, topic, partition, record)
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

    def _explain_record(self, job: StageJob, table: StageTable) -> dict[str, Any]:
        """Of a bad record each field is refused: what `BAD` means is the whole of it."""
        ((topic, partition, start, end),) = job.ranges
        records = self._read_records(job, (topic, partition, start, end))
        if not records:
            return {"found": False}
        fate, row = self.decode_record(table, topic, partition, records[0])
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
            "outlines": [],
        }

    def _outline_records(self, job: StageJob, table: StageTable) -> dict[str, Any]:
        outlines = []
        for topic, partition, start, end in job.ranges:
            for record in self._read_records(job, (topic, partition, start, end)):
                if (topic, partition, record.offset) not in table.outlines:
                    continue
                fate, row = self.decode_record(table, topic, partition, record)
                reason = row.get("reason") if fate == "bad" else None
                place = {"topic": topic, "partition": partition, "offset": record.offset}
                made = None if reason else json.dumps(row.get("value"))
                outlines.append(
                    {**place, "rows": 1, "fate": fate, "reason": reason, "operation": row.get("op"), "row": made}
                )
        verdict = dict.fromkeys(("reason", "stage", "operation", "row"))
        return {"found": True, "rows": 0, "fate": "", **verdict, "fields": [], "outlines": outlines}


def _is_superseded(table: StageTable, record: Record, last_offset: int) -> bool:
    return record.key is not None and record.offset < last_offset and not has_placeholder(table, record)


def _build_dead_letter(record: Record, refusal: Row) -> Row:
    """A record that cannot be read, as it is staged."""
    place = {name: refusal[name] for name in ("topic", "partition", "offset")}
    stage = "key" if record.key == BAD else "value"
    letter = {"key": record.key, "value": record.value, "stage": stage, "message": refusal["reason"]}
    letter |= {"error_class": f"Undecodable{stage.title()}", "headers": None}
    return {"key": None, "value": None, "op": "bad", **place, "timestamp": record.timestamp, "i": 0, "bad": letter}
