"""Every merge statement on a server that answers like BigQuery: batches of random records in, the model's rows out."""

import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bigquery_hands import BigQueryHands
from examples import choose_part
from fakes import World, build_pipeline, build_table, grouped
from fakes.one_at_a_time import compute_rows as expected_by_sequence
from fakes.versions import Change
from fakes.versions import compute_versions as expected_versions
from tidegate.adapters.bigquery import pruning
from tidegate.adapters.bigquery.commit import AUDIT_FAILED, render_transaction
from tidegate.merge.audits import prepare_audits
from tidegate.merge.statements import render_merge_statements
from tidegate.model.batch import Counts, StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import describe_positions
from tidegate.schema.data_types import Column
from tidegate.spec.table import Create, History, Table
from tidegate.table.columns import list_destination_columns, stages_kept_columns
from tidegate.table.queue import combine_batches
from tidegate.table.session import TableSession
from unit.scenarios import test_model, test_partial_updates, test_sequence_groups
from unit.tidegate.adapters.bigquery.test_commit import list_intermediate_columns
from warehouse import PROJECT

NAME, TMP, POSITIONS = "lake.shop.orders", "lake.shop.orders_shop_tmp", "lake.shop.orders_tidegate_position"
UNCHANGED = "__unchanged"
DAY = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Record:
    """A decoded record as the stage job would write it; `row` is None for a tombstone."""

    key: dict[str, Any]
    row: dict[str, Any] | None = None
    op: str = "u"
    sequence: dict[str, Any] | None = None
    kept_names: list[str] = field(default_factory=list)
    timestamp: datetime | None = None
    partition: int = 0


class Bench:
    """One destination on the server, from empty."""

    def __init__(self, table: Table, endpoint: str, folder: Path) -> None:
        self.table, self.pipeline = table, build_pipeline(table)
        self.hands = BigQueryHands(endpoint, folder, NAME, TMP)
        sql = self.sql = self.hands.googlesql
        self.session = replace(World().open_session(self.pipeline), sql=sql, **vars(self.hands.port))
        columns = list_destination_columns(table)
        parts = list_intermediate_columns(self.pipeline, table)
        values = {
            **parts,
            "shape": "0af3",
            "batch": 1,
            "dead_letters": False,
            "properties": {},
            "kept": stages_kept_columns(table),
        }
        create = {name: getattr(table.create, name) for name in ("partition_by", "cluster_by", "properties")}
        self.hands.sql(sql.render("create_table", table=NAME, columns=columns, **create))
        self.hands.sql(sql.render("create_intermediate", table=TMP, **values))
        self.hands.sql(sql.render("create_positions", table=POSITIONS, own=describe_positions(NAME)))
        self.hands.sql(sql.render("seed_position", table=POSITIONS, pipeline="shop", version=1, properties="{}"))
        self.offsets, self.batches = itertools.count(), itertools.count(1)
        self.versions, self.queued = itertools.count(1), itertools.count()

    def flush(self, records: Sequence[Record], truncated_at: int | None = None) -> str:
        """Stage and publish one batch; the script. The source table was emptied at the offset `truncated_at`."""
        return self.publish(self.stage(records, truncated_at))

    def flush_as_one(self, batches: Sequence[Sequence[Record]]) -> str:
        """Stage several batches, each at lower offsets than the one before it, and publish them as one; the script."""
        staged = []
        for batch in batches:
            self.offsets = itertools.count(1000 - 100 * next(self.queued))
            staged.append(self.stage(batch))
        return self.publish(combine_batches(staged))

    def stage(self, records: Sequence[Record], truncated_at: int | None = None) -> StagedBatch:
        number, client = next(self.batches), self.hands.client
        staged = [self._build_staged_row(record, number) for record in records]
        target = client.get_table(f"{PROJECT}.shop.orders_shop_tmp")
        from google.cloud.bigquery import LoadJobConfig

        client.load_table_from_json(staged, target, job_config=LoadJobConfig(schema=target.schema)).result()
        deletes = [record for record in records if record.op == "d"]
        counts = Counts(len(records), len(records), len(records))
        return StagedBatch(
            NAME, number, f"a{number}", 0, Ranges.from_dict({}), counts, deletes=len(deletes),
            unsequenced_deletes=sum(record.sequence is None for record in deletes),
            kept=sum(bool(record.kept_names) for record in records), truncated_at=truncated_at,
        )  # fmt: skip

    def publish(self, batch: StagedBatch) -> str:
        version = next(self.versions)
        script = render_transaction(
            self.sql, positions=POSITIONS, pipeline="shop", version=version, attempt=f"a{version}", properties={},
            statements=render_merge_statements(TableSession(self.session, self.table), batch, "b"),
            audits=self._render_audits(batch),
        )  # fmt: skip
        self.hands.client.query(script).result()
        return script

    def _render_audits(self, batch: StagedBatch) -> list[tuple[str, str]]:
        audits = prepare_audits(TableSession(self.session, self.table), batch, "b", batch.attempt)
        return list(zip(audits.request.queries, audits.texts, strict=True)) if audits else []

    def _build_staged_row(self, record: Record, number: int) -> dict[str, Any]:
        offset = next(self.offsets)
        at = (record.timestamp or DAY + timedelta(seconds=offset)).isoformat()
        more = {"sequence": record.sequence} if self.table.sequence_by else {}
        more |= {"kept": record.kept_names} if stages_kept_columns(self.table) else {}
        return {
            "key": record.key, "value": record.row, "op": record.op, "topic": "orders", "partition": record.partition,
            "offset": offset, "timestamp": at, "partition_time": at, "i": 0,
            "batch_number": number, "attempt": f"a{number}", **more,
        }  # fmt: skip

    def read_rows(self) -> list[str]:
        return sort_rows(self.hands.read_rows(NAME))


def sort_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


def cut_batches(records: list[Any], chance: random.Random, batches: int) -> list[list[Any]]:
    at = sorted(chance.sample(range(1, len(records)), batches - 1))
    return [records[low:high] for low, high in itertools.pairwise([0, *at, len(records)])]


# with deletes it is the longer statement
@pytest.mark.repeats("test_table_equals_the_model_after_batches_of_any_records[upsert_delete]", "upsert")
# statements: each stands in a golden file, and the model of rows is walked in memory
@pytest.mark.repeats("unit/sql/test_bigquery_golden.py::test_statement_reads_as_the_golden_file", "append", "delete")
@pytest.mark.parametrize("mode", test_model.MODES)
def test_table_equals_the_model_after_batches_of_any_records(mode: str, bigquery: str, tmp_path: Path) -> None:
    """Keys of two columns, one of them NULL now and then."""
    chance = random.Random(mode)
    table = build_table(NAME, mode, keys=("id", "part"), columns=test_model.COLUMNS)
    bench = Bench(table, bigquery, tmp_path)
    keys = [(id, part) for id in range(3) for part in (None, "a")]
    changes = [(chance.choice(keys), chance.choice([None, n, n])) for n in range(24)]
    first, *queue = (
        [
            Record({"id": key[0], "part": key[1]}, None if n is None else {"id": key[0], "part": key[1], "n": n},
                   "d" if n is None else "u")
            for key, n in batch if n is not None or table.delete
        ]
        for batch in cut_batches(changes, chance, 4)
    )  # fmt: skip
    bench.flush(first)
    bench.flush_as_one(queue)
    assert bench.read_rows() == sort_rows(test_model.compute_rows(mode, changes))


# statements: each stands in a golden file, and the model of rows is walked in memory
@pytest.mark.repeats("unit/sql/test_bigquery_golden.py::test_statement_reads_as_the_golden_file")
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("kind", ["partial", "unchanged", "update"])
def test_columns_keep_their_values_as_in_the_model(kind: str, soft: bool, bigquery: str, tmp_path: Path) -> None:
    chance = random.Random(kind)
    (table,) = test_partial_updates.build_partial_pipeline(kind, deletes="soft" if soft else "hard").tables
    bench = Bench(table, bigquery, tmp_path)
    values = [None, test_partial_updates.UNCHANGED_MARK, "x", "y"]
    if kind == "partial":
        values.remove(test_partial_updates.UNCHANGED_MARK)
    changes = [
        (chance.choice("kl"), chance.choice([None, *[tuple(chance.choices(values, k=2)) for _ in range(3)]]))
        for _ in range(24)
    ]
    first, *queue = (
        [build_partial_record(kind, key, value) for key, value in batch] for batch in cut_batches(changes, chance, 4)
    )
    bench.flush(first)
    bench.flush_as_one(queue)
    assert bench.read_rows() == sort_rows(test_partial_updates.compute_rows(kind, soft, changes))


def build_partial_record(kind: str, key: str, value: tuple[Any, ...] | None) -> Record:
    if value is None:
        return Record({"id": key}, None, "d")
    named = dict(zip("ab", value, strict=True))
    kept_names = [name for name, given in named.items() if given == test_partial_updates.UNCHANGED_MARK]
    return Record({"id": key}, {"id": key, **named, **dict.fromkeys(kept_names)}, "u", kept_names=kept_names)


# statements: each stands in a golden file, and the model of rows is walked in memory
@pytest.mark.repeats("unit/sql/test_bigquery_golden.py::test_statement_reads_as_the_golden_file")
@pytest.mark.parametrize("shape", test_sequence_groups.SHAPES)
def test_groups_have_the_values_of_their_highest_sequences_as_in_the_model(
    shape: tuple[str, str], bigquery: str, tmp_path: Path
) -> None:
    """Keys of two partitions, sequences that are late, alike and NULL."""
    chance = random.Random(repr(shape))
    bench = Bench(replace(test_sequence_groups.build_grouped_table(*shape), name=NAME), bigquery, tmp_path)
    changes: list[grouped.Change] = []
    for number in range(48):
        values = {n: chance.choice([None, 1, 2, 3] if n in grouped.GROUPS else [None, "p", "q"]) for n in grouped.NAMES}
        is_delete = shape[0] == "upsert_delete" and number > 4 and chance.random() < 0.2
        changes.append((chance.randrange(4), None if is_delete else values))
    flushed: list[grouped.Change] = []
    for batch in cut_batches(changes, chance, 4):
        bench.flush([build_grouped_record(key, values) for key, values in batch])
        flushed += batch
        assert bench.read_rows() == sort_rows(grouped.compute_rows(shape[1] == "soft", flushed))
    values = {name: "z" for name in grouped.NAMES if name not in grouped.GROUPS}
    later = [[(key, {**values, "va": 3, "vb": key}), (key, values)] for key in range(3)] + [[(0, None), (0, values)]]
    later = [[change for change in batch if shape[0] == "upsert_delete" or change[1]] for batch in later]
    bench.flush_as_one([[build_grouped_record(key, values) for key, values in batch] for batch in later])
    flushed += [change for batch in later for change in batch]
    assert bench.read_rows() == sort_rows(grouped.compute_rows(shape[1] == "soft", flushed))


def build_grouped_record(key: int, values: dict[str, Any] | None) -> Record:
    row = None if values is None else {"id": key, **values}
    return Record({"id": key}, row, "d" if values is None else "u", partition=key % 2)


@pytest.mark.repeats(
    "test_highest_sequence_stands_as_in_the_model[upsert_delete-soft]", "upsert_delete-hard", "upsert-hard"
)
@pytest.mark.parametrize(
    ("mode", "deletes"), [("upsert_delete", "hard"), ("upsert_delete", "soft"), ("upsert", "hard")]
)
def test_highest_sequence_stands_as_in_the_model(mode: str, deletes: str, bigquery: str, tmp_path: Path) -> None:
    chance = random.Random(f"{mode} {deletes}")
    columns = tuple(Column(name, "INT") for name in ("id", "n", "lsn", "sub"))
    bench = Bench(
        build_table(NAME, mode, columns=columns, sequence_by=("lsn", "sub"), deletes=deletes), bigquery, tmp_path
    )
    kinds = ["upsert", "upsert", "delete", "tombstone"]
    changes = [
        (chance.randrange(3), chance.choice(kinds), (chance.choice([0, 1, 2, 3, None]), chance.choice([None, 0])), n)
        for n in range(30)
    ]
    first, *queue = (
        [build_sequenced_record(*change) for change in batch if change[1] == "upsert" or mode != "upsert"]
        for batch in cut_batches(changes, chance, 4)
    )
    bench.flush(first)
    bench.flush_as_one(queue)
    assert bench.read_rows() == sort_rows(expected_by_sequence(mode, deletes, changes))


def build_sequenced_record(id: int, kind: str, sequence: tuple[Any, Any], n: int) -> Record:
    numbers = dict(zip(("lsn", "sub"), sequence, strict=True))
    if kind == "upsert":
        return Record({"id": id}, {"id": id, "n": n, **numbers}, "u", numbers)
    has_sequence = kind == "delete" and any(value is not None for value in sequence)
    return Record({"id": id}, None, "d", numbers if has_sequence else None)


def convert_to_time(at: int | None) -> datetime | None:
    return None if at is None else DAY + timedelta(days=at)


@pytest.mark.repeats("test_versions_are_laid_out_as_in_the_model_and_reading_again_changes_nothing[True]", "False")
@pytest.mark.parametrize("timed", [True, False])
def test_versions_are_laid_out_as_in_the_model_and_reading_again_changes_nothing(
    timed: bool, bigquery: str, tmp_path: Path
) -> None:
    """Times out of order, often equal, values that often repeat. The second batch reads a half of the first one again.

    The third comes when no delete is remembered any more.
    """
    chance = random.Random(timed)
    create = Create(partition_by=("months(valid_from)",), cluster_by=("id",))
    given = {"sequence_by": ("at", "sub")} if timed else {}
    columns = tuple(Column(n, k) for n, k in VERSIONED.items())
    bench = Bench(build_table(NAME, columns=columns, history=History(), create=create, **given), bigquery, tmp_path)
    keys = [key for key in choose_part(range(16), 0, 2) for _ in range(chance.randint(1, 8))]
    chance.shuffle(keys)
    kinds = ["upsert", "upsert", "upsert", "delete", *(["tombstone"] if timed else [])]
    changes: list[Change] = []
    for number, key in enumerate(keys):
        time, place = chance.randrange(6), (chance.choice([None, 0, 1]) if timed else 0)
        timestamp = chance.randrange(6) if timed else time
        changes.append((key, chance.choice(kinds), (time * 12, place), timestamp * 12, f"{number % 3 // 2}"))
    quarter, half = len(changes) // 4, len(changes) // 2
    bench.flush([build_versioned_record(change, timed) for change in changes[:half]])
    assert read_versions(bench) == compute_versions(changes[:half])
    bench.offsets = itertools.count(quarter)
    second = [build_versioned_record(change, timed) for change in changes[quarter:]]
    script = bench.publish(combine_batches([bench.stage(second[:half]), bench.stage(second[half:])]))
    assert read_versions(bench) == compute_versions(changes)
    assert " BETWEEN " in script
    bench.hands.port.tables.forget_deletes(f"{NAME}_changes", int((DAY + timedelta(days=999)).timestamp() * 1000))
    assert bench.hands.read_rows(f"{NAME}_changes") == []
    last = [c for c in changes if c[1] == "upsert"][-1]
    bench.flush([build_versioned_record((last[0], "upsert", (900, 0), 900, "new"), timed)])
    closed = [row for row in compute_versions(changes) if row[0] != last[0]]
    assert [row for row in read_versions(bench) if row[0] != last[0]] == closed
    assert [row for row in read_versions(bench) if row[0] == last[0]][:-1] == [
        (*row[:3], min(row[3], convert_to_time(900))) for row in compute_versions(changes) if row[0] == last[0]
    ]


def test_version_that_is_read_again_has_the_values_that_the_file_reads_now(bigquery: str, tmp_path: Path) -> None:
    """As after a corrected `select` and a rebase, while its change is still remembered."""
    columns = tuple(Column(n, k) for n, k in VERSIONED.items())
    table = build_table(NAME, columns=columns, history=History(), sequence_by=("at", "sub"))
    bench = Bench(table, bigquery, tmp_path)
    for value in ("wrong", "right"):
        bench.offsets = itertools.count()
        bench.flush([build_versioned_record((1, "upsert", (12, 0), 12, value), True)])
    assert [row[:2] for row in read_versions(bench)] == [(1, "right")]


VERSIONED = {"id": "INT", "v": "STRING", "tags": "ARRAY<STRING>", "x": "DOUBLE", "at": "TIMESTAMP", "sub": "INT"}
FOREVER = DAY + timedelta(days=9999)


def build_versioned_record(change: Change, timed: bool) -> Record:
    id, kind, (at, sub), timestamp, value = change
    order = {"at": None, "sub": None} if kind == "tombstone" else {"at": str(convert_to_time(at)), "sub": sub}
    row = {"id": id, "v": value, "tags": ["x", value], "x": None, **(order if timed else {})}
    is_row = kind == "upsert"
    return Record(
        {"id": id}, row if is_row else None, "u" if is_row else "d", order, timestamp=convert_to_time(timestamp)
    )


def read_versions(bench: Bench) -> list[tuple[Any, ...]]:
    rows = bench.hands.read_rows(NAME)
    assert all(row["is_current"] == (row["valid_to"] is None) for row in rows)
    assert all(row["tags"] == ["x", row["v"]] for row in rows)
    return sorted((r["id"], r["v"], r["valid_from"], r["valid_to"] or FOREVER) for r in rows)


def compute_versions(changes: list[Change]) -> list[tuple[Any, ...]]:
    versions = expected_versions(changes)
    return sorted(
        (key, value, convert_to_time(begin), convert_to_time(end) or FOREVER) for key, value, begin, end in versions
    )


# the same folded statement, whose ungrouped column keeps its value when none comes
# rows that move between daily partitions, and deletes that do not tell theirs
@pytest.mark.repeats("test_batch_of_many_partitions_is_merged_in_parts[upsert_delete]", "create0", "create1", "create2")
@pytest.mark.parametrize(
    "create",
    [
        Create(partition_by=("days(at)",), cluster_by=("id",)),
        Create(partition_by=("months(day)",)),
        Create(partition_by=("days(_PARTITIONTIME)",), cluster_by=("name", "id")),
    ],
)
def test_rows_are_found_in_whatever_partition_they_lie(create: Create, bigquery: str, tmp_path: Path) -> None:
    """Their partition column changes with every record, so that old partitions are looked up by key."""
    chance = random.Random(repr(create))
    columns = (Column("id", "BIGINT"), Column("name", "STRING"), Column("at", "TIMESTAMP"), Column("day", "DATE"))
    bench = Bench(build_table(NAME, columns=columns, create=create), bigquery, tmp_path)
    standing: dict[int, dict[str, Any]] = {}
    for number in range(4):
        records = []
        for id in [*chance.sample(range(12), 6), number + 20]:
            at = DAY + timedelta(days=chance.randrange(60), hours=number)
            row = {"id": id, "name": f"{id} {number}", "at": at.isoformat(), "day": at.date().isoformat()}
            is_gone = chance.random() < 0.25
            records.append(Record({"id": id}, None if is_gone else row, "d" if is_gone else "u"))
            standing.pop(id, None) if is_gone else standing.update({id: {**row, "at": at, "day": at.date()}})
        script = bench.flush(records)
    assert bench.read_rows() == sort_rows(list(standing.values()))
    assert " BETWEEN " in script


# the same folded statement, whose ungrouped column keeps its value when none comes
# rows that move between daily partitions, and deletes that do not tell theirs
@pytest.mark.guard(
    "BigQuery: a part of a large batch holds whole keys",
    file="include/sql/bigquery/_staged.sql",
    text="{% if leaves is defined %}FIRST_VALUE",
    off="{% if false %}FIRST_VALUE",
    case="upsert_delete",
)
@pytest.mark.repeats("test_batch_of_many_partitions_is_merged_in_parts[upsert_delete]", "append")
@pytest.mark.parametrize("mode", ["append", "upsert_delete"])
def test_batch_of_many_partitions_is_merged_in_parts(
    mode: str, bigquery: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five days and of none, two at a time; a key has several, rows move, and deletes do not tell their day."""
    monkeypatch.setattr(pruning, "MAX_STATEMENT_PARTITIONS", 3)
    monkeypatch.setattr(pruning, "PARTITIONS_PER_PART", 2)
    monkeypatch.setattr(pruning, "MAX_UNBOUNDED_APPEND_ROWS", 3)
    create = Create(partition_by=("days(at)",), cluster_by=("id",))
    columns = (Column("id", "BIGINT"), Column("at", "TIMESTAMP"))
    bench = Bench(build_table(NAME, mode, columns=columns, create=create), bigquery, tmp_path)
    days = [*((DAY + timedelta(days=7 * n)).isoformat() for n in range(5)), None]
    first = [(0, days[3]), *((id, days[id % 6]) for id in range(12))]
    second = [(id, days[(id + 1) % 6]) for id in range(4)]
    deleted_ids = [4, 5, 99] if mode == "upsert_delete" else []
    scripts = [bench.flush([Record({"id": id}, {"id": id, "at": at}) for id, at in first])]
    records = [
        *(Record({"id": id}, {"id": id, "at": at}) for id, at in second),
        *(Record({"id": id}, op="d") for id in deleted_ids),
    ]
    scripts.append(bench.flush(records))
    rows = sorted((row["id"], row["at"].isoformat() if row["at"] else "") for row in bench.hands.read_rows(NAME))
    expected = [*first, *second] if mode == "append" else [*{**dict(first), **dict(second)}.items()]
    assert rows == sorted((id, at or "") for id, at in expected if id not in deleted_ids)
    assert [script.count(f"INTO {bench.hands.name(NAME)}") for script in scripts] == [4, 2 if mode == "append" else 3]


@pytest.mark.repeats("unit/tidegate/adapters/bigquery/test_truncates.py::test_parts_leave_no_row_of_any_partition")
@pytest.mark.parametrize(("kept", "limit"), [(False, 2), (True, 4000)])
def test_truncate_leaves_the_rows_of_the_records_behind_it_alone(
    kept: bool, limit: int, bigquery: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five days have rows, and one row has no day; a statement changes `limit` days."""
    monkeypatch.setattr(pruning, "MAX_STATEMENT_PARTITIONS", limit)
    monkeypatch.setattr(pruning, "PARTITIONS_PER_PART", limit)
    monkeypatch.setattr(pruning, "MAX_UNBOUNDED_APPEND_ROWS", 3)
    create = Create(partition_by=("days(at)",))
    columns = (Column("id", "BIGINT"), Column("name", "STRING"), Column("at", "TIMESTAMP"))
    table = build_table(NAME, columns=columns, create=create, **({"unavailable": UNCHANGED} if kept else {}))
    bench = Bench(table, bigquery, tmp_path)
    days = [*((DAY + timedelta(days=7 * n)).isoformat() for n in range(5)), None]

    def build_record(id: int, name: str, day: int) -> Record:
        is_kept = name == UNCHANGED
        row = {"id": id, "name": None if is_kept else name, "at": days[day]}
        return Record({"id": id}, row, kept_names=["name"] if is_kept else [])

    bench.flush([build_record(id, "old", id) for id in range(6)])
    bench.flush([build_record(id, "newer", id) for id in (1, 5)])
    behind = [build_record(9, "new", 2), build_record(1, "new", 0), build_record(9, "newest", 1)]
    behind += [
        build_record(8, "x", 5),
        build_record(7, UNCHANGED if kept else "z", 3),
        Record({"id": 8}, op="d"),
        build_record(6, "y", 5),
    ]
    script = bench.flush([build_record(1, "before", 1), build_record(20, "before", 4), *behind], truncated_at=9)
    stored = bench.hands.read_rows(NAME)
    rows = sorted((row["id"], row["name"], row["at"].isoformat() if row["at"] else "") for row in stored)
    assert rows == [(1, "new", days[0]), (6, "y", ""), (7, None if kept else "z", days[3]), (9, "newest", days[1])]
    parts = [script.count(f"{word} {bench.hands.name(NAME)}") for word in ("DELETE FROM", "INSERT INTO")]
    assert parts == ([1, 1] if limit == 4000 else [3, 3])


@pytest.mark.repeats(
    "unit/tidegate/adapters/bigquery/test_pruning.py::test_record_that_leaves_the_partition_column_out_does_not_tell_its_partition"
)
def test_record_without_its_partition_column_updates_the_row_that_is_there(bigquery: str, tmp_path: Path) -> None:
    """A key keeps its partition for ever, and a partial update does not tell which; beside it a new key."""
    create = Create(partition_by=("days(at)",), properties={"partition_column": "immutable"})
    columns = (Column("id", "BIGINT"), Column("name", "STRING"), Column("at", "TIMESTAMP"))
    bench = Bench(build_table(NAME, columns=columns, create=create, partial_updates=True), bigquery, tmp_path)
    days = [(DAY + timedelta(days=40 * id)).isoformat() for id in range(3)]
    bench.flush([Record({"id": id}, {"id": id, "name": f"{id}", "at": days[id]}) for id in (0, 1)])
    new = {"id": 2, "name": "2", "at": days[2]}
    bench.flush([Record({"id": 0}, {"id": 0, "name": "changed", "at": None}), Record({"id": 2}, new)])
    rows = sorted((row["id"], row["name"], row["at"].isoformat()) for row in bench.hands.read_rows(NAME))
    assert rows == [(0, "changed", days[0]), (1, "1", days[1]), (2, "2", days[2])]


# statements: each stands in a golden file, and the model of rows is walked in memory
@pytest.mark.repeats("unit/sql/test_bigquery_golden.py::test_statement_reads_as_the_golden_file")
@pytest.mark.parametrize("deletes", ["hard", "soft"])
@pytest.mark.parametrize("audit", ["n >= 0", "SELECT COUNT(*) < 3 FROM {table}"])
def test_batch_that_breaks_an_audit_changes_nothing(audit: str, deletes: str, bigquery: str, tmp_path: Path) -> None:
    """A condition checks the rows that the batch writes. A query checks the table after the batch."""
    from google.api_core.exceptions import GoogleAPIError

    columns = (Column("id", "BIGINT"), Column("n", "INT"))
    bench = Bench(build_table(NAME, columns=columns, deletes=deletes, audits=(audit,)), bigquery, tmp_path)
    bench.flush([Record({"id": id}, {"id": id, "n": id}) for id in (1, 2)])
    before = bench.read_rows()
    broken = [Record({"id": 1}, {"id": 1, "n": 5}), *(Record({"id": id}, {"id": id, "n": -1}) for id in (3, 4))]
    with pytest.raises(GoogleAPIError, match=AUDIT_FAILED):
        bench.flush(broken)
    assert bench.read_rows() == before
    assert len(before) == 2
