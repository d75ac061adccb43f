"""In-memory doubles of the ports, faithful enough to run whole flushes, and doubles named for the fault they have.

A `World` is one broker, one lake and one clock; `World.ports` gives a runner its ports, with every call passing through
a hook, so that a test can kill the runner, or let another one run, between any two calls.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from itertools import count
from typing import Any

from tidegate import names
from tidegate.batch import StagedBatch
from tidegate.errors import GiveUp, OutcomeUnknown, PositionLost, RetryLater
from tidegate.jobs import Job, MergeJob, StageJob, StageTable
from tidegate.offsets import Offsets, merged
from tidegate.pipeline import Column, KeyFormat, Merge, Pipeline, Source, Table, ValueFormat
from tidegate.ports import CommitRefused, Head, Log, Ports, Publication, TableState
from tidegate.position import Position

Row = dict[str, Any]
SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."
COUNTED = "spark.merge-into.num-target-rows-"
BAD = "not JSON"  # a key or value that no format can read


class Crash(BaseException):
    """The process is gone: no `except Exception` of the product may see it."""


class Clock:
    """Milliseconds that move only when a test, or a write, moves them."""

    def __init__(self, ms: int = 1_000_000) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms

    def tick(self, ms: int = 1) -> int:
        self.ms += ms
        return self.ms


# ---------------------------------------------------------------------------------------------------------- the log


@dataclass(frozen=True)
class Record:
    """One offset of the log. `kind` is data, aborted (seen by read_uncommitted only), control or open."""

    offset: int
    key: Any = None
    value: Any = None
    timestamp: int = 0
    kind: str = "data"


@dataclass
class Partition:
    """An in-memory partition; compaction and retention take records out, offsets stay."""

    records: list[Record] = field(default_factory=list)
    begin: int = 0
    end: int = 0

    def add(self, key: Any, value: Any, timestamp: int, kind: str = "data") -> int:
        self.records.append(Record(self.end, key, value, timestamp, kind))
        self.end += 1
        return self.end - 1

    def stable_end(self, isolation: str) -> int:
        """The last stable offset: a transaction that is still open hides all that follows from read_committed."""
        opened = [r.offset for r in self.records if r.kind == "open"]
        return min([self.end, *opened]) if isolation == "read_committed" else self.end

    def read(self, start: int, end: int, isolation: str) -> list[Record]:
        shown = ("data",) if isolation == "read_committed" else ("data", "aborted", "open")
        return [r for r in self.records if start <= r.offset < end and r.kind in shown]


class MemoryBroker:
    """`tidegate.ports.Broker` over lists, with what tests need to fill and to damage the log."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.cluster_id = "cluster-1"
        self.partitions: dict[str, list[Partition]] = {}
        self.ids: dict[str, str] = {}
        self.groups: dict[str, Offsets] = {}
        self._ids = count(1)

    def create(self, topic: str, partitions: int = 1) -> None:
        """A new topic with an id of its own; an existing one is deleted first."""
        self.partitions[topic] = [Partition() for _ in range(partitions)]
        self.ids[topic] = f"topic-{next(self._ids)}"
        for offsets in self.groups.values():
            offsets.pop(topic, None)

    def grow(self, topic: str, partitions: int) -> None:
        while len(self.partitions[topic]) < partitions:
            self.partitions[topic].append(Partition())

    def produce(self, topic: str, key: Any, value: Any, partition: int = 0, timestamp: int | None = None) -> int:
        return self.partitions[topic][partition].add(key, value, self.clock.tick() if timestamp is None else timestamp)

    def transaction(self, topic: str, rows: list[tuple[Any, Any]], partition: int = 0, ending: str = "commit") -> None:
        """Records in one transaction, ended by commit or abort with a control record, or left open."""
        kind = {"commit": "data", "abort": "aborted", "open": "open"}[ending]
        for key, value in rows:
            self.partitions[topic][partition].add(key, value, self.clock.tick(), kind)
        if ending != "open":
            self.partitions[topic][partition].add(None, None, self.clock.tick(), "control")

    def compact(self, topic: str, partition: int = 0) -> None:
        """Keep the last record of each key only."""
        part = self.partitions[topic][partition]
        last = {json.dumps(r.key): r.offset for r in part.records}
        part.records = [r for r in part.records if last[json.dumps(r.key)] == r.offset]

    def retain_from(self, topic: str, offset: int, partition: int = 0) -> None:
        part = self.partitions[topic][partition]
        part.begin = offset
        part.records = [r for r in part.records if r.offset >= offset]

    def topics(self, pattern: str) -> tuple[str, ...]:
        return tuple(sorted(t for t in self.partitions if re.fullmatch(pattern, t)))

    def log(self, topics: tuple[str, ...], isolation: str) -> Log:
        ids, begin, end = {}, {}, {}
        for topic in topics:
            parts = self._known(topic)
            ids[topic] = self.ids[topic]
            begin[topic] = {p: part.begin for p, part in enumerate(parts)}
            end[topic] = {p: part.stable_end(isolation) for p, part in enumerate(parts)}
        return Log(self.cluster_id if topics else "", ids, begin, end)

    def offsets_at(self, topics: tuple[str, ...], timestamp_ms: int) -> Offsets:
        return {
            topic: {
                p: min((r.offset for r in part.records if r.timestamp >= timestamp_ms), default=part.end)
                for p, part in enumerate(self._known(topic))
            }
            for topic in topics
        }

    def timestamp_of(self, topic: str, partition: int, offset: int) -> int | None:
        later = self.partitions[topic][partition].read(offset, 2**62, "read_committed")
        return later[0].timestamp if later else None

    def committed(self, group: str, topics: tuple[str, ...]) -> Offsets:
        return {t: dict(parts) for t, parts in self.groups.get(group, {}).items() if t in topics}

    def commit(self, group: str, offsets: Offsets) -> None:
        self.groups[group] = merged(self.groups.get(group, {}), offsets)

    def _known(self, topic: str) -> list[Partition]:
        if topic not in self.partitions:
            raise PositionLost(f"topic={topic} does not exist on brokers=memory: create it, or correct source.topics")
        return self.partitions[topic]


# --------------------------------------------------------------------------------------------------------- the lake


@dataclass(frozen=True)
class Snapshot:
    """A whole table at one time; `sequence` orders snapshots over all branches."""

    id: int
    parent: int | None
    summary: dict[str, str]
    rows: tuple[Row, ...]
    ms: int
    sequence: int


@dataclass
class MemoryTable:
    """A table with snapshots, references and properties, as Iceberg keeps them."""

    uuid: str
    columns: tuple[Column, ...]
    schema_id: int = 0
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    refs: dict[str, int] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)

    def rows(self, ref: str = "main") -> list[Row]:
        return [dict(row) for row in self.snapshots[self.refs[ref]].rows] if ref in self.refs else []

    def ancestors(self, ref: str = "main") -> list[Snapshot]:
        chain, current = [], self.refs.get(ref)
        while current is not None and current in self.snapshots:
            chain.append(self.snapshots[current])
            current = self.snapshots[current].parent
        return chain

    def tagged(self, pipeline: str) -> Snapshot | None:
        return self.snapshots.get(self.refs.get(names.tag(pipeline), -1))


class MemoryDestination:
    """`tidegate.ports.Destination` over dicts, with compare-and-swap, and foreign writers for tests."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.tables: dict[str, MemoryTable] = {}
        self.control: dict[str, list[Row]] = {}
        self._ids = count(7_000_000_000_000_000_001)  # beyond what a float can hold, as Iceberg's are
        self._uuids, self._sequence = count(1), count(1)

    # the port

    def state(self, table: str, pipeline: str) -> TableState | None:
        found = self.tables.get(table)
        if found is None:
            return None
        recorded = Position.from_properties(pipeline, found.properties)
        ancestors, tagged = found.ancestors(), found.tagged(pipeline)
        rolled_back = recorded is not None and (tagged is None or tagged.id not in {s.id for s in ancestors})
        carried = (Position.from_properties(pipeline, s.summary) for s in ancestors)
        return TableState(
            uuid=found.uuid,
            snapshot_id=found.refs.get("main"),
            schema_id=found.schema_id,
            position=next((p for p in carried if p), None) if rolled_back else recorded,
            highest_batch=recorded.batch if recorded else 0,
            columns=found.columns,
            rolled_back=rolled_back,
            recorded=recorded,
            snapshot_ms=tagged.ms if tagged else 0,
        )

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        found = self._table(table)
        if "main" in found.refs:
            raise CommitRefused(f"table={table} has a snapshot already")
        self.add_snapshot(table, "main", (), position.to_properties(pipeline))
        found.refs[names.tag(pipeline)] = found.refs["main"]
        found.properties |= position.to_properties(pipeline)

    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        found = self._table(table)
        held, changes = {c.name.lower(): c for c in found.columns}, []
        for column in columns:
            old = held.get(column.name.lower())
            if old is None:
                if not add:
                    raise GiveUp(f"table={table} has no column={column.name} and evolve.add_columns=false")
                held[column.name.lower()] = column
                changes.append(f"added {column.name}")
            elif (old.type, column.type) in (("INT", "BIGINT"), ("FLOAT", "DOUBLE")) and widen:
                held[column.name.lower()] = replace(old, type=column.type)
                changes.append(f"widened {column.name}")
            elif old.type != column.type and (column.type, old.type) not in (("INT", "BIGINT"), ("FLOAT", "DOUBLE")):
                raise GiveUp(f"table={table} column={column.name}: incompatible change to type={column.type}")
        if changes:
            found.columns, found.schema_id = tuple(held.values()), found.schema_id + 1
        return changes

    def cut(self, table: str, state: TableState, branch: str) -> None:
        found = self._table(table)
        if (found.uuid, found.refs.get("main")) != (state.uuid, state.snapshot_id) or branch in found.refs:
            raise CommitRefused(f"table={table}: main has moved")
        found.refs[branch] = found.refs["main"]

    def head(self, table: str, branch: str) -> Head | None:
        found = self._table(table)
        snapshot = found.snapshots.get(found.refs.get(branch, -1))
        return Head(snapshot.id, snapshot.parent, dict(snapshot.summary)) if snapshot else None

    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        self.add_snapshot(table, branch, tuple(self._table(table).rows(branch)), summary)

    def publish(self, publication: Publication) -> None:
        found = self._table(publication.table)
        required = (publication.uuid, publication.cut, publication.head, publication.schema_id)
        standing = (found.uuid, found.refs.get("main"), found.refs.get(publication.branch), found.schema_id)
        if required != standing:
            raise CommitRefused(f"table={publication.table}: required={required} found={standing}")
        found.refs["main"] = found.refs[names.tag(publication.pipeline)] = publication.head
        found.properties |= publication.position.to_properties(publication.pipeline)
        del found.refs[publication.branch]

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int) -> int:
        found = self._table(table)
        numbers = {ref: names.branch_batch(pipeline, ref) for ref in found.refs}
        stale = [ref for ref, number in numbers.items() if number is not None and number <= up_to_batch]
        for ref in stale:
            del found.refs[ref]
        return len(stale)

    def staged(self, intermediate: str, table: str) -> list[StagedBatch]:
        found = self.tables.get(intermediate)
        newest: dict[int, StagedBatch] = {}
        for snapshot in sorted(found.snapshots.values(), key=lambda s: s.sequence) if found else []:
            outcome = self.staged_outcome(intermediate, snapshot.summary.get("tidegate.attempt", ""))
            if outcome is None or outcome["bad"]:
                continue
            asked = json.loads(snapshot.summary["tidegate.staged"])
            span = sum(end - start for parts in asked["ranges"].values() for start, end in parts.values())
            counts = {"span": span, **{n: outcome[n] for n in ("read", "staged", "ignored", "filtered")}}
            batch = int(snapshot.summary["tidegate.batch"])
            attempt = snapshot.summary["tidegate.attempt"]
            known = {"table": table, "batch": batch, "attempt": attempt, "snapshot_id": snapshot.id, "counts": counts}
            newest[batch] = StagedBatch.from_dict({**known, "timestamps": outcome["timestamps"], **asked})
        return [newest[batch] for batch in sorted(newest)]

    def staged_outcome(self, intermediate: str, attempt: str) -> dict[str, Any] | None:
        found = self.tables.get(intermediate)
        text = found.properties.get(names.staged_property(attempt)) if found else None
        return None if text is None else json.loads(text)

    def intermediate_shape(self, intermediate: str) -> str | None:
        found = self.tables.get(intermediate)
        return found.properties.get("tidegate.shape", "") if found else None

    def highest_staged(self, intermediate: str) -> int:
        found = self.tables.get(intermediate)
        summaries = [s.summary for s in found.snapshots.values()] if found else []
        at_creation = int(found.properties.get("tidegate.highest-batch", "0")) if found else 0
        return max([at_creation, *(int(s.get(f"tidegate.{n}", "0")) for s in summaries for n in ("batch", "clean-up"))])

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        found = self.tables.get(intermediate)
        if found is None:
            return {}
        spent = [s for s in found.snapshots.values() if _is_spent(s, up_to_batch)]
        if not spent or all(found.refs.get("main") == s.id and "tidegate.clean-up" in s.summary for s in spent):
            return {"snapshots": len(spent), "files": 0}
        kept = tuple(row for row in found.rows() if row["batch_number"] > up_to_batch)
        self.add_snapshot(intermediate, "main", kept, {"tidegate.clean-up": str(up_to_batch)})
        for snapshot in spent:
            del found.snapshots[snapshot.id]
            found.properties.pop(names.staged_property(snapshot.summary.get("tidegate.attempt", "")), None)
        return {"snapshots": len(spent), "files": len(spent)}

    def record(self, control: str, row: Row) -> None:
        self.control.setdefault(control, []).append(dict(row))

    def history(self, control: str, limit: int) -> list[Row]:
        rows = sorted(self.control.get(control, []), key=lambda r: r["published_at_ms"], reverse=True)
        return rows[:limit]

    def count_rows(self, table: str) -> int | None:
        return len(self.tables[table].rows()) if table in self.tables else None

    # what Spark and foreign writers do

    def create(self, table: str, columns: tuple[Column, ...]) -> MemoryTable:
        """CREATE TABLE IF NOT EXISTS."""
        if table not in self.tables:
            self.tables[table] = MemoryTable(f"00000000-0000-0000-0000-{next(self._uuids):012d}", columns)
        return self.tables[table]

    def add_snapshot(self, table: str, ref: str, rows: tuple[Row, ...], summary: Mapping[str, str]) -> Snapshot:
        found = self._table(table)
        made = Snapshot(
            next(self._ids), found.refs.get(ref), dict(summary), rows, self.clock.tick(), next(self._sequence)
        )
        found.snapshots[made.id] = made
        found.refs[ref] = made.id
        return made

    def foreign_append(self, table: str, *rows: Row) -> Snapshot:
        return self.add_snapshot(table, "main", (*self._table(table).rows(), *rows), {"operation": "append"})

    def rollback(self, table: str, snapshot_id: int) -> None:
        self._table(table).refs["main"] = snapshot_id

    def replace(self, table: str) -> MemoryTable:
        """DROP TABLE and CREATE TABLE of the same name."""
        columns = self.tables.pop(table).columns
        return self.create(table, columns)

    def expire(self, table: str, snapshot_id: int) -> None:
        del self._table(table).snapshots[snapshot_id]

    def _table(self, name: str) -> MemoryTable:
        if name not in self.tables:
            raise GiveUp(f"table={name} does not exist any more; nothing was changed; the next flush plans anew")
        return self.tables[name]


def _is_spent(snapshot: Snapshot, up_to_batch: int) -> bool:
    batch = snapshot.summary.get("tidegate.batch")
    return "tidegate.clean-up" in snapshot.summary or (batch is not None and int(batch) <= up_to_batch)


# ---------------------------------------------------------------------------------------------------- SQL and Spark


class StructuredSql:
    """`tidegate.ports.Sql` that keeps what it was asked for as JSON, so that `MemoryEngine` can do it."""

    def render(self, statement: str, **values: Any) -> str:
        plain = lambda o: asdict(o) if is_dataclass(o) and not isinstance(o, type) else list(o)  # noqa: E731
        return json.dumps({"statement": statement, **values}, default=plain)


class MemoryEngine:
    """`tidegate.ports.Engine` that does in Python what the jobs do in Spark. `conditions` gives SQL texts a meaning."""

    def __init__(self, broker: MemoryBroker, destination: MemoryDestination) -> None:
        self.broker, self.destination = broker, destination
        self.conditions: dict[str, Callable[[Row], bool]] = {}
        self.jobs: list[Job] = []

    def run(self, job: Job) -> None:
        job = type(job).from_json(job.to_json())  # the jobs and the steps share nothing but this text
        self.jobs.append(job)
        if isinstance(job, StageJob):
            for table in job.tables:
                for text in table.create:
                    self._create(json.loads(text))
                self._stage(job, table)
        else:
            summary = {k.removeprefix(SNAPSHOT_PROPERTY): v for k, v in job.conf.items() if SNAPSHOT_PROPERTY in k}
            for text in job.statements:
                statement = json.loads(text)
                if not self._create(statement):
                    self._merge(statement, summary)

    @property
    def merges(self) -> list[MergeJob]:
        """The jobs that merged rows, without those that created tables."""
        return [j for j in self.jobs if isinstance(j, MergeJob) and '"statement": "merge_' in j.statements[0]]

    @property
    def stages(self) -> list[StageJob]:
        return [j for j in self.jobs if isinstance(j, StageJob)]

    def _create(self, statement: dict[str, Any]) -> bool:
        if statement["statement"] == "create_table":
            self.destination.create(statement["table"], tuple(Column(**c) for c in statement["columns"]))
        elif statement["statement"] == "create_intermediate":
            made = self.destination.create(statement["table"], ())
            made.properties |= {"tidegate.shape": statement["shape"], "tidegate.highest-batch": str(statement["batch"])}
        elif statement["statement"] == "drop_intermediate":
            self.destination.tables.pop(statement["table"], None)
        return statement["statement"].startswith(("create_", "drop_"))

    def _stage(self, job: StageJob, table: StageTable) -> None:
        rows: list[Row] = []
        outcome: dict[str, Any] = {"read": 0, "staged": 0, "ignored": 0, "filtered": 0, "bad": 0, "first_bad": None}
        stamps: dict[str, dict[str, int]] = {}
        for topic, partition, start, end in job.ranges:
            for record in self.broker.partitions[topic][partition].read(start, end, job.isolation):
                outcome["read"] += 1
                seen = stamps.setdefault(topic, {})
                seen[str(partition)] = max(record.timestamp, seen.get(str(partition), 0))
                fate, row = self._decode(table, topic, partition, record)
                outcome[fate] += 1
                if fate == "staged":
                    rows.append({**row, "batch_number": job.batch, "attempt": table.attempt})
                elif fate == "bad" and outcome["first_bad"] is None:
                    outcome["first_bad"] = row
        others = [r for r in self.destination.tables[table.intermediate].rows() if r["batch_number"] != job.batch]
        self.destination.add_snapshot(table.intermediate, "main", (*others, *rows), table.summary)
        text = json.dumps({**outcome, "timestamps": stamps})
        self.destination.tables[table.intermediate].properties[table.property] = text

    def _decode(self, table: StageTable, topic: str, partition: int, record: Record) -> tuple[str, Row]:
        at = {"topic": topic, "partition": partition, "offset": record.offset}
        source = record.value if record.key is None else record.key
        if BAD in (record.key, record.value) or (table.key_columns and source is None):
            return "bad", {**at, "reason": "not readable"}
        prefix = table.key.prefix
        key = {c.name: source.get(c.name.removeprefix(prefix)) for c in table.key_columns}
        value = None if record.value is None else {c.name: record.value.get(c.name) for c in table.value_columns}
        shown = {**at, **(value or {})}
        deleted = value is None or (table.delete_when is not None and self.conditions[table.delete_when](shown))
        if table.when is not None and value is not None and not self.conditions[table.when](shown):
            return "filtered", {}
        if deleted and table.ignore_deletes:
            return "ignored", {}
        if value is not None:
            value |= {name: {**at, "timestamp": record.timestamp}.get(k) for name, k in table.metadata.items()}
        return "staged", {"key": key, "value": None if deleted else value, "op": "d" if deleted else "u", **at, "i": 0}

    def _merge(self, statement: dict[str, Any], summary: dict[str, str]) -> None:
        pinned = self.destination.tables.get(statement["source"])
        branch = statement["branch"].removeprefix("branch_")
        target = self.destination.tables.get(statement["target"])
        if pinned is None or statement["snapshot_id"] not in pinned.snapshots:
            raise RetryLater(f"Spark failed in merge: no snapshot={statement['snapshot_id']}")
        if target is None or branch not in target.refs:
            raise RetryLater(f"Spark failed in merge: no branch={branch}")
        rows = [
            r
            for r in pinned.snapshots[statement["snapshot_id"]].rows
            if r["batch_number"] == statement["batch"] and r["attempt"] == statement["attempt"]
        ]
        keys = [column for column, _ in statement["keys"]]
        after, counts = _apply(statement["statement"], target.rows(branch), rows, keys, statement["values"])
        if any(counts.values()):
            words = {"added-records": counts["inserted"]} if statement["statement"] == "merge_append" else {}
            words = words or {COUNTED + name: number for name, number in counts.items()}
            told = {**summary, **{name: str(number) for name, number in words.items()}}
            self.destination.add_snapshot(statement["target"], branch, tuple(after), told)


def _apply(
    statement: str, table: list[Row], staged: list[Row], keys: list[str], values: list[str]
) -> tuple[list[Row], dict[str, int]]:
    """What the statement of that name does; keys are compared null-safe, by Python's own equality."""

    def key_of(row: Row) -> tuple[Any, ...]:
        return tuple(json.dumps(row.get(name)) for name in keys)

    def made(row: Row) -> Row:
        return {**row["key"], **{name: row["value"].get(name) for name in values}}

    ordered = sorted(staged, key=lambda r: (r["offset"], r["i"]))
    counts = {"inserted": 0, "updated": 0, "deleted": 0}
    if statement == "merge_append":
        added = [made(row) for row in ordered if row["op"] != "d"]
        return [*table, *added], {**counts, "inserted": len(added)}
    if statement == "merge_delete":
        last = {key_of(r["key"]): (r["offset"], r["i"]) for r in ordered if r["op"] == "d"}
        kept = [row for row in table if key_of(row) not in last]
        added = [
            made(r) for r in ordered if r["op"] != "d" and (r["offset"], r["i"]) > last.get(key_of(r["key"]), (-1, 0))
        ]
        return [*kept, *added], {"inserted": len(added), "updated": 0, "deleted": len(table) - len(kept)}
    last_of = {key_of(r["key"]): r for r in ordered}
    after = []
    for row in table:
        change = last_of.pop(key_of(row), None)
        if change is None:
            after.append(row)
        elif change["op"] == "d":
            counts["deleted"] += 1
        else:
            counts["updated"] += 1
            after.append({**row, **made(change)})
    added = [made(change) for change in last_of.values() if change["op"] != "d"]
    return [*after, *added], {**counts, "inserted": len(added)}


# ------------------------------------------------------------------------------------------------------- the world

Hook = Callable[[str, str], None]  # (port.method, "before" or "after")


class Watched:
    """A port whose every call passes through a hook, before and after it took effect."""

    def __init__(self, name: str, port: Any, hook: Hook) -> None:
        self._name, self._port, self._hook = name, port, hook

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._port, method)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._hook(f"{self._name}.{method}", "before")
            result = found(*args, **kwargs)
            self._hook(f"{self._name}.{method}", "after")
            return result

        return call


class World:
    """One broker, one lake, one clock, shared by as many runners as a test starts."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.broker = MemoryBroker(self.clock)
        self.destination = MemoryDestination(self.clock)
        self.engine = MemoryEngine(self.broker, self.destination)
        self._attempts = count(1)

    def attempt(self) -> str:
        return f"attempt{next(self._attempts)}"

    def ports(self, pipeline: Pipeline, hook: Hook | None = None, **instead: Any) -> Ports:
        """The ports of one runner; `instead` replaces some by doubles with a fault."""
        chosen = {"broker": self.broker, "destination": self.destination, "engine": self.engine, **instead}
        if hook is not None:
            chosen = {name: Watched(name, port, hook) for name, port in chosen.items()}
        return Ports(pipeline, sql=StructuredSql(), now_ms=self.clock, new_attempt=self.attempt, **chosen)

    def rows(self, table: str) -> list[Row]:
        """The table's rows in an order of their own."""
        found = self.destination.tables.get(table)
        return sorted(found.rows(), key=lambda r: json.dumps(r, sort_keys=True)) if found else []


class CrashAt:
    """A hook that kills the runner at one of its port calls; `calls` counts them."""

    def __init__(self, number: int) -> None:
        self.number, self.calls, self.at = number, 0, ""

    def __call__(self, call: str, when: str) -> None:
        self.calls += 1
        if self.calls == self.number:
            self.at = f"{when} {call}"
            raise Crash(self.at)


class PauseAt:
    """A hook that lets others run, once, while its own runner stands between two calls."""

    def __init__(self, number: int, meanwhile: Callable[[], object]) -> None:
        self.number, self.calls, self.meanwhile = number, 0, meanwhile

    def __call__(self, call: str, when: str) -> None:
        self.calls += 1
        if self.calls == self.number:
            self.meanwhile()


class _Delegating:
    def __init__(self, port: Any) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


class AnswerLostAfterPublish(_Delegating):
    """A catalog that commits the publish and loses the answer, once."""

    lost = False

    def publish(self, publication: Publication) -> None:
        self._port.publish(publication)
        if not self.lost:
            self.lost = True
            raise OutcomeUnknown("the catalog gave no answer")


class AnswerLostBeforePublish(_Delegating):
    """A catalog that never saw the publish, once, and cannot tell."""

    lost = False

    def publish(self, publication: Publication) -> None:
        if not self.lost:
            self.lost = True
            raise OutcomeUnknown("the catalog gave no answer")
        self._port.publish(publication)


class RefusesPublish(_Delegating):
    """A catalog whose table metadata others touch: the first commits are refused though nothing of ours moved."""

    def __init__(self, port: Any, times: int = 1) -> None:
        super().__init__(port)
        self.left = times

    def publish(self, publication: Publication) -> None:
        if self.left:
            self.left -= 1
            raise CommitRefused("metadata changed")
        self._port.publish(publication)


class BusyTable(_Delegating):
    """A table that somebody else appends to just before each of the first publishes."""

    def __init__(self, port: Any, times: int = 1) -> None:
        super().__init__(port)
        self.left = times

    def publish(self, publication: Publication) -> None:
        if self.left:
            self.left -= 1
            self._port.foreign_append(publication.table)
        self._port.publish(publication)


class CannotCleanUp(_Delegating):
    """A store that refuses deletes."""

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        raise OSError("permission denied")


class CannotRecord(_Delegating):
    """A control table that cannot be written."""

    def record(self, control: str, row: Row) -> None:
        raise OSError("permission denied")


class FailsToMerge(_Delegating):
    """Spark that fails every merge into one table while `broken`."""

    def __init__(self, engine: MemoryEngine, table: str) -> None:
        super().__init__(engine)
        self.table, self.broken = table, True

    def run(self, job: Job) -> None:
        if self.broken and isinstance(job, MergeJob) and f'"target": "{self.table}"' in job.statements[0]:
            raise RetryLater(f"Spark failed in merge: table={self.table}")
        self._port.run(job)


class ForgetsToFinish(_Delegating):
    """Spark that dies in every stage job after the rows are written and before the counts are."""

    def run(self, job: Job) -> None:
        self._port.run(job)
        if isinstance(job, StageJob):
            for table in job.tables:
                del self._port.destination.tables[table.intermediate].properties[table.property]


class LosesARecord(_Delegating):
    """Spark whose counts do not add up."""

    def run(self, job: Job) -> None:
        self._port.run(job)
        for table in job.tables if isinstance(job, StageJob) else ():
            properties = self._port.destination.tables[table.intermediate].properties
            outcome = json.loads(properties[table.property])
            properties[table.property] = json.dumps({**outcome, "staged": outcome["staged"] - 1})


# ------------------------------------------------------------------------------------------------------- pipelines


def a_table(name: str = "lake.shop.orders", mode: str = "upsert_delete", **given: Any) -> Table:
    """A destination with key `id` and a value of `id, name`, unless told otherwise."""
    upsert, delete = mode in ("upsert", "upsert_delete"), mode in ("delete", "upsert_delete")
    keys = given.pop("keys", ("id",))
    columns = given.pop("columns", (*(Column(k, "STRING") for k in keys), Column("name", "STRING")))
    key = KeyFormat(fields=tuple(keys), prefix=given.pop("prefix", ""))
    value = ValueFormat(columns=columns, fields_include=given.pop("fields_include", "ALL"))
    return Table(name, given.pop("topics", ("orders",)), key, value, upsert, delete, **given)


def a_pipeline(*tables: Table, name: str = "shop", **given: Any) -> Pipeline:
    """A pipeline over these tables; `source` and everything else of `Pipeline` may be given by name."""
    tables = tables or (a_table(),)
    topics = tuple(dict.fromkeys(topic for table in tables for topic in table.topics))
    asked = {"kafka": "kafka_default", "topics": topics, "topic_pattern": None, "group": f"tidegate-{name}"}
    source = Source(**{**asked, **given.pop("source", {})})
    merge = Merge(max_records=given.pop("max_records", 1_000_000))
    return Pipeline(name, source, tables, merge=merge, **given)
