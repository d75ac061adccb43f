"""What every destination behind the port does, over {memory, Iceberg, BigQuery}: publish, staged batches, clean-up."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from contract_words import (
    COLUMNS,
    DELETES,
    FIRST,
    OWN_DELETES,
    OWN_STAGED,
    PIPELINE,
    SECOND,
    STAGED,
    START,
    TABLE,
    build_summary,
    render_outcome,
)
from fakes import MemoryDestination, build_pipeline, build_table, format_3
from fakes.lake import build_destination
from file_replacement import replace_files
from lake_servers import list_files
from tidegate.errors import CommitRefused, GiveUp, RetryLater, TidegateError
from tidegate.model import resource_names
from tidegate.model.batch import COST_COUNTS, RECORD_COUNTS, Counts
from tidegate.model.offsets import Offsets, Ranges
from tidegate.model.ownership import SHAPE_PROPERTY, Ownership, TableKind
from tidegate.model.position import Position
from tidegate.model.table_state import SnapshotLine, TableCommit, TableState
from tidegate.ports.destination import Destination
from tidegate.schema.data_types import Column

UNMARKED: dict[str, str] = {}


@dataclass
class Kit:
    """A destination behind its ports, and the hands of Spark and of foreign writers."""

    port: Destination
    create: Callable[[], None]
    append: Callable[..., None]  # rows onto a branch, as a merge would, with a summary
    touch: Callable[[], None]  # a foreign change of metadata alone
    forget_properties: Callable[[], None]
    rollback: Callable[[int], None]
    replace_table: Callable[[], None]
    expire: Callable[[int], None]
    stage: Callable[..., None]
    count: Callable[[str, str], None]  # an attempt's counts, which a stage job writes last
    finish: Callable[[str, str], None]  # the same, and the worker that lets the attempt count
    note: Callable[..., None]  # a backfill's intermediate table, with what it was made for, and its mark if it has one
    unmark: Callable[[str], None]  # take the mark of a table away
    make_staging: Callable[[str, str], None]  # an empty intermediate table of that shape
    read_rows: Callable[[str], list]
    remember: Callable[[dict[str, int]], None]  # deletes by key, with the milliseconds of their records
    columns: tuple[Column, ...] = COLUMNS  # as the table tells them
    insert: Callable[[list], str] | None = None  # a statement that a publish runs, where there are no branches
    load: Callable[[str], Any] | None = None
    bytes_on_disk: Callable[[str], list[Path]] | None = None
    files_below: Callable[[str], list[Path]] | None = None

    def state(self, pipeline: str = PIPELINE) -> TableState:
        state = self.port.tables.read_state(TABLE, pipeline)
        assert state is not None
        return state

    def seed_table(self) -> "Kit":
        self.create()
        self.port.commits.seed(TABLE, PIPELINE, START)
        return self

    def merge_branch(
        self, position: Position, pipeline: str = PIPELINE, attempt: str = "m1", *, carries_position: bool = True
    ) -> TableCommit:
        """Cut, one snapshot on the branch, and the commit that would swap it in; a backfill's carries no position."""
        if self.insert is not None:
            return self.build_table_commit(position, pipeline, attempt)
        state, branch = self.state(pipeline), resource_names.name_branch(pipeline, position.batch, attempt)
        self.port.commits.start_branch(TABLE, state, branch)
        carried = position.to_properties(pipeline) if carries_position else {}
        self.append(branch, [{"id": attempt, "n": 1}], {**carried, "tidegate.attempt": attempt})
        head = self.port.commits.read_head(TABLE, branch)
        return TableCommit(
            table=TABLE,
            uuid=state.uuid,
            schema_id=state.schema_id,
            cut=state.snapshot_id,
            branch=branch,
            head=head.snapshot_id,
            properties=position.to_properties(pipeline),
            tag=resource_names.name_tag(pipeline),
        )

    def build_table_commit(self, position: Position, pipeline: str, attempt: str) -> TableCommit:
        """The commit that merges and swaps in one, where there are no branches."""
        if self.state(pipeline).snapshot_id is None:
            self.port.commits.seed(TABLE, pipeline, START)
        state = self.state(pipeline)
        return TableCommit(
            table=TABLE,
            uuid=state.uuid,
            schema_id=state.schema_id,
            cut=state.snapshot_id,
            branch=resource_names.name_branch(pipeline, position.batch, attempt),
            head=state.snapshot_id + 1,
            properties=position.to_properties(pipeline),
            tag=resource_names.name_tag(pipeline),
            pipeline=pipeline,
            attempt=attempt,
            statements=(self.insert([{"id": attempt, "n": 1}]),),
        )


def build_memory_kit() -> Kit:
    lake = MemoryDestination()
    port = build_destination(lake)

    def stage(batch: int, attempt: str, rows: int, bad: int = 0, finished: bool = True) -> None:
        lake.create(STAGED, ()).properties.update(OWN_STAGED.properties)
        remaining_rows = [r for r in lake.tables[STAGED].read_rows() if r["batch_number"] != batch]
        added = [{"batch_number": batch, "attempt": attempt, "n": n} for n in range(rows)]
        lake.add_snapshot(STAGED, "main", (*remaining_rows, *added), build_summary(batch, attempt))
        if finished:
            finish(attempt, render_outcome(rows, bad))

    def count(attempt: str, outcome: str) -> None:
        lake.tables[STAGED].properties[resource_names.name_counted_property(attempt)] = outcome

    def finish(attempt: str, outcome: str) -> None:
        count(attempt, outcome)
        port.staging.complete_attempt(STAGED, 0, attempt, {})

    def remember(deletes: dict[str, int]) -> None:
        table = lake.create(DELETES, ())
        table.properties.update(OWN_DELETES.properties)
        rows = table.read_rows()
        lake.add_snapshot(DELETES, "main", (*rows, *({"id": i, "timestamp": ms} for i, ms in deletes.items())), {})

    def append(ref: str, rows: list, summary: dict) -> None:
        lake.add_snapshot(TABLE, ref, (*lake.tables[TABLE].read_rows(ref), *rows), summary)

    return Kit(
        port=port,
        create=lambda: lake.create(TABLE, COLUMNS),
        append=append,
        touch=lambda: lake.tables[TABLE].properties.update(comment="x"),
        forget_properties=lambda: setattr(lake.tables[TABLE], "properties", {}),
        rollback=lambda snapshot: lake.rollback(TABLE, snapshot),
        replace_table=lambda: lake.replace(TABLE),
        expire=lambda snapshot: lake.expire(TABLE, snapshot),
        stage=stage,
        count=count,
        finish=finish,
        note=lambda table, text, own=UNMARKED: lake.create(table, ()).properties.update(
            {resource_names.BACKFILL_PROPERTY: text, **own}
        ),
        unmark=lambda table: setattr(lake.tables[table], "properties", {}),
        make_staging=lambda table, shape: lake.create(table, ()).properties.update(
            {SHAPE_PROPERTY: shape, **OWN_STAGED.properties}
        ),
        read_rows=lambda table: lake.tables[table].read_rows(),
        remember=remember,
    )


def build_iceberg_kit(folder: Path, properties: dict[str, str] | None = None, version: int = 2) -> Kit:  # noqa: PLR0915 (one closure for each verb of the kit)
    import pyarrow as pa
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType
    from tidegate.adapters.iceberg.catalog import Catalogs
    from tidegate.adapters.iceberg.destination import build_iceberg_destination

    local = {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder / 'warehouse'}"}
    properties = properties or local
    catalog = (catalogs := Catalogs({"lake": properties})).catalog("lake")
    port = build_iceberg_destination(catalogs)
    catalog.create_namespace("shop")
    schema = Schema(NestedField(1, "id", StringType()), NestedField(2, "n", IntegerType()))
    remembered = Schema(NestedField(1, "id", StringType()), NestedField(2, "timestamp", TimestamptzType()))
    staged_schema = Schema(NestedField(1, "batch_number", LongType()), NestedField(2, "n", LongType()))
    by_batch = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "batch_number"))

    def load(table: str = TABLE) -> Any:
        return catalog.load_table(table.removeprefix("lake."))

    def create() -> None:
        catalog.create_table("shop.orders", schema, properties={"format-version": "2"})
        if version == 3:
            format_3.upgrade(catalogs, TABLE)

    def append(ref: str, rows: list, summary: dict) -> None:
        format_3.append_rows(load(), ref, rows, summary)

    def stage(
        batch: int,
        attempt: str,
        rows: int,
        bad: int = 0,
        finished: bool = True,
        *,
        pipeline: str = PIPELINE,
        viewed: bool = False,
    ) -> None:
        catalog.create_table_if_not_exists(
            STAGED.removeprefix("lake."), staged_schema, partition_spec=by_batch, properties=OWN_STAGED.properties
        )
        arrow = pa.Table.from_pylist(
            [{"batch_number": batch, "n": n} for n in range(rows)], schema=staged_schema.as_arrow()
        )
        table = load(STAGED)
        replaced = [task.file for task in table.scan(f"batch_number = {batch}").plan_files()]
        viewed_mark = {resource_names.VIEWED_SUMMARY: "true"} if viewed else {}
        replace_files(table, replaced, arrow, build_summary(batch, attempt, pipeline) | viewed_mark)
        if finished:
            finish(attempt, render_outcome(rows, bad))

    def count(attempt: str, outcome: str) -> None:
        with load(STAGED).transaction() as transaction:
            transaction.set_properties({resource_names.name_counted_property(attempt): outcome})

    def finish(attempt: str, outcome: str) -> None:
        count(attempt, outcome)
        port.staging.complete_attempt(STAGED, 0, attempt, {})

    def remember(deletes: dict[str, int]) -> None:
        rows = [{"id": id, "timestamp": datetime.fromtimestamp(ms / 1000, UTC)} for id, ms in deletes.items()]
        table = catalog.create_table_if_not_exists(
            DELETES.removeprefix("lake."), remembered, properties=OWN_DELETES.properties
        )
        table.append(pa.Table.from_pylist(rows, schema=remembered.as_arrow()))

    def touch() -> None:
        with load().transaction() as transaction:
            transaction.set_properties(comment="x")

    def forget_properties() -> None:
        with load().transaction() as transaction:
            transaction.remove_properties(*(p for p in load().properties if p.startswith("tidegate.")))

    def unmark(table: str) -> None:
        with load(table).transaction() as transaction:
            transaction.remove_properties(*(p for p in load(table).properties if p.startswith("tidegate.")))

    def replace_table() -> None:
        catalog.drop_table("shop.orders")
        create()

    def list_data_files(table: str) -> list[Path]:
        return list_files(properties, f"{load(table).location()}/data")

    return Kit(
        port=port,
        create=create,
        append=append,
        touch=touch,
        forget_properties=forget_properties,
        rollback=lambda snapshot: load().manage_snapshots().set_current_snapshot(snapshot).commit(),
        replace_table=replace_table,
        expire=lambda snapshot: load().maintenance.expire_snapshots().by_id(snapshot).commit(),
        stage=stage,
        count=count,
        finish=finish,
        note=lambda table, text, own=UNMARKED: catalog.create_table(
            table.removeprefix("lake."), staged_schema, properties={resource_names.BACKFILL_PROPERTY: text, **own}
        ),
        unmark=unmark,
        make_staging=lambda table, shape: catalog.create_table(
            table.removeprefix("lake."), staged_schema, properties={SHAPE_PROPERTY: shape, **OWN_STAGED.properties}
        ),
        read_rows=lambda table: load(table).scan().to_arrow().to_pylist(),
        remember=remember,
        load=load,
        bytes_on_disk=list_data_files,
        files_below=partial(list_files, properties),
    )


def build_bigquery_kit(folder: Path, endpoint: str) -> Kit:
    from bigquery_hands import BigQueryHands

    hands = BigQueryHands(endpoint, folder, TABLE, STAGED)

    def stage(batch: int, attempt: str, rows: int, bad: int = 0, finished: bool = True) -> None:
        hands.stage(
            batch, attempt, rows, build_summary(batch, attempt), render_outcome(rows, bad) if finished else None
        )

    def refuse_snapshots(*_: Any) -> None:
        raise AssertionError("BigQuery has no snapshots")

    return Kit(
        port=hands.port,
        create=hands.create,
        append=hands.append,
        touch=hands.touch,
        forget_properties=refuse_snapshots,
        rollback=refuse_snapshots,
        replace_table=hands.replace_table,
        expire=refuse_snapshots,
        stage=stage,
        count=hands.count,
        finish=hands.finish,
        note=hands.note,
        unmark=hands.unmark,
        make_staging=hands.make_staging,
        read_rows=hands.read_rows,
        remember=lambda deletes: hands.remember(DELETES, deletes),
        columns=(Column("id", "STRING"), Column("n", "BIGINT")),
        insert=hands.insert,
        bytes_on_disk=lambda _: hands.bytes_on_disk(),
    )


def require_branches(test: Callable[..., None]) -> Callable[..., None]:
    """A behaviour of destinations that have branches, and snapshots to go back to."""
    test.needs_branches = True  # type: ignore[attr-defined]
    return test


def write_documents(test: Callable[..., None]) -> Callable[..., None]:
    """A behaviour of which commits to a table of format 3 go through code of their own: `pyiceberg_private`."""
    test.writes_documents = True  # type: ignore[attr-defined]
    return test


def find_quick(test: Callable[..., None]) -> str:
    """The behaviour on a table of format 2, or the one behind which that stands."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "repeats" and "iceberg" in mark.args[1:]]
    return marks[0].args[0] if marks else f"{test.__name__}[iceberg]"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kit" in metafunc.fixturenames:
        # BigQuery's run in the part of a run that has its server
        marks = {
            "iceberg": [pytest.mark.real],
            "iceberg_3": [pytest.mark.real],
            "bigquery": [pytest.mark.real, pytest.mark.xdist_group("bigquery")],
        }
        if not hasattr(metafunc.function, "writes_documents"):  # the same code as on a table of format 2
            marks["iceberg_3"].append(pytest.mark.repeats(find_quick(metafunc.function)))
        real = [pytest.param(name, marks=marks[name]) for name in marks]
        chosen = real[:2] if hasattr(metafunc.function, "needs_branches") else real
        metafunc.parametrize("kit", ["memory", *chosen], indirect=True)


@pytest.fixture
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Kit:
    if request.param == "bigquery":
        return build_bigquery_kit(tmp_path, request.getfixturevalue("bigquery"))
    version = 3 if request.param == "iceberg_3" else 2
    return build_memory_kit() if request.param == "memory" else build_iceberg_kit(tmp_path, version=version)


def read_ids(kit: Kit) -> list[str]:
    return sorted(row["id"] for row in kit.read_rows(TABLE))


def list_attempts(kit: Kit) -> set[str]:
    """The attempts that snapshots of the intermediate table are of."""
    snapshots = kit.load(STAGED).snapshots() if kit.load else kit.port.tables.tables[STAGED].snapshots.values()
    return {s.summary["tidegate.attempt"] for s in snapshots if s.summary.get("tidegate.attempt")}


# state and seed


def test_missing_table_has_no_state_and_a_new_one_neither_snapshot_nor_position(kit: Kit) -> None:
    assert kit.port.tables.read_state(TABLE, PIPELINE) is None
    assert kit.port.tables.count_rows(TABLE) is None
    kit.create()
    state = kit.state()
    assert (state.snapshot_id, state.position, state.highest_batch, state.is_rolled_back) == (None, None, 0, False)
    assert state.columns == kit.columns


@write_documents
def test_seeded_table_is_empty_and_carries_the_starting_position_and_a_second_seed_is_refused(kit: Kit) -> None:
    state = kit.seed_table().state()
    assert (state.position, state.recorded_position, state.is_rolled_back) == (START, START, False)
    assert kit.port.commits.read_head(TABLE, resource_names.name_tag(PIPELINE)).snapshot_id == state.snapshot_id
    assert kit.port.commits.read_head(TABLE, "tidegate_shop_1_a") is None
    with pytest.raises(CommitRefused):
        kit.port.commits.seed(TABLE, PIPELINE, FIRST)
    assert kit.state() == state
    assert (kit.read_rows(TABLE), kit.port.tables.count_rows(TABLE)) == ([], 0)


@require_branches
def test_table_of_others_with_rows_has_no_position_of_ours(kit: Kit) -> None:
    kit.create()
    kit.append("main", [{"id": "x", "n": 0}], {})
    state = kit.state()
    assert state.snapshot_id is not None
    assert (state.position, state.is_rolled_back) == (None, False)


# cut


@write_documents
@require_branches
def test_branch_is_cut_at_main_and_refused_where_one_is_there_already_or_the_table_was_replaced(kit: Kit) -> None:
    branch, other = "tidegate_shop_1_a", "tidegate_shop_1_b"
    state = kit.seed_table().state()
    kit.port.commits.start_branch(TABLE, state, branch)
    assert kit.port.commits.read_head(TABLE, branch).snapshot_id == state.snapshot_id
    with pytest.raises(CommitRefused):
        kit.port.commits.start_branch(TABLE, state, branch)
    kit.port.commits.append_empty(TABLE, branch, {"tidegate.attempt": "a"})
    head = kit.port.commits.read_head(TABLE, branch)
    assert (head.parent_id, head.summary["tidegate.attempt"]) == (state.snapshot_id, "a")
    assert kit.state().snapshot_id == state.snapshot_id
    kit.replace_table()
    for name in (branch, other):
        with pytest.raises(CommitRefused):
            kit.port.commits.start_branch(TABLE, state, name)


@pytest.mark.guard(
    "a branch is cut where the position was read",
    file="plugins/tidegate/adapters/iceberg/commit.py",
    text="        *_require_branch_at(table, target, snapshot_id),\n",
    off="",
    case="iceberg",
)
@require_branches
def test_cut_is_refused_when_main_moved(kit: Kit) -> None:
    state = kit.seed_table().state()
    kit.append("main", [{"id": "foreign", "n": 0}], {})
    with pytest.raises(CommitRefused):
        kit.port.commits.start_branch(TABLE, state, "tidegate_shop_1_a")
    assert kit.port.commits.read_head(TABLE, "tidegate_shop_1_a") is None


# what a batch remembers


@pytest.mark.guard(
    "what others remember meanwhile is kept",
    file="plugins/tidegate/adapters/iceberg/commit.py",
    text="if main is not None and all(",
    off="if main is None and all(",
    case="iceberg",
)
@require_branches
def test_memory_becomes_main_once_unless_main_has_moved_or_the_branch_is_gone(kit: Kit) -> None:
    table_commit = kit.seed_table().merge_branch(FIRST, attempt="m1")
    late = kit.merge_branch(FIRST, attempt="m2")
    empty = "tidegate_shop_1_m3"
    for _ in range(2):  # a lost answer is sent again
        kit.port.commits.fast_forward(TABLE, table_commit.branch, "m1")
        assert (read_ids(kit), kit.state().snapshot_id) == (["m1"], table_commit.head)
    for _ in range(2):
        with pytest.raises(CommitRefused):
            kit.port.commits.fast_forward(TABLE, late.branch, "m2")
        kit.port.commits.drop_branch(TABLE, late.branch)
    kit.port.commits.start_branch(TABLE, kit.state(), empty)
    kit.port.commits.fast_forward(TABLE, empty, "m3")
    assert (read_ids(kit), kit.port.commits.read_head(TABLE, empty)) == (["m1"], None)


# note


@require_branches
def test_note_sets_properties_of_the_pipeline_moves_nothing_and_is_refused_in_a_table_that_was_replaced(
    kit: Kit,
) -> None:
    state = kit.seed_table().state()
    kit.port.commits.note(TABLE, state, {f"tidegate.{PIPELINE}.held": "{}"})
    after = kit.state()
    assert after.marks[f"tidegate.{PIPELINE}.held"] == "{}"
    assert (after.snapshot_id, after.position) == (state.snapshot_id, state.position)
    kit.port.commits.note(TABLE, after, {f"tidegate.{PIPELINE}.held": ""})
    assert kit.state().marks[f"tidegate.{PIPELINE}.held"] == ""
    last = kit.state()
    kit.replace_table()
    for seen in (state, last):
        with pytest.raises(CommitRefused):
            kit.port.commits.note(TABLE, seen, {f"tidegate.{PIPELINE}.held": "{}"})


@pytest.mark.guard(
    "what waits for an approval is noted of the main that it was compared with",
    file="plugins/tidegate/adapters/iceberg/commit.py",
    text="            requirements += _require_branch_at(loaded_table, self._branch(table), state.snapshot_id)\n",
    off="            pass\n",
    case="iceberg",
)
@require_branches
def test_note_is_refused_when_main_moved(kit: Kit) -> None:
    state = kit.seed_table().state()
    kit.append("main", [{"id": "foreign", "n": 0}], {})
    with pytest.raises(CommitRefused):
        kit.port.commits.note(TABLE, state, {f"tidegate.{PIPELINE}.held": "{}"})
    assert f"tidegate.{PIPELINE}.held" not in kit.state().marks


@pytest.mark.guard(
    "of two people who decide at once, the second is told of the first",
    file="plugins/tidegate/adapters/iceberg/commit.py",
    text="if loaded_table.properties.get(name) != state.marks.get(name)]",
    off="if False]",
    case="iceberg",
)
@require_branches
def test_note_is_refused_when_another_one_was_faster(kit: Kit) -> None:
    state = kit.seed_table().state()
    name = f"tidegate.{PIPELINE}.held"
    kit.port.commits.note(TABLE, state, {f"tidegate.{PIPELINE}.decision": "{}"})
    kit.port.commits.note(TABLE, state, {name: "first"})  # each is compared with itself
    with pytest.raises(CommitRefused):
        kit.port.commits.note(TABLE, state, {name: "second"})
    assert kit.state().marks[name] == "first"
    kit.port.commits.note(TABLE, kit.state(), {name: "second"})
    assert kit.state().marks[name] == "second"


# publish


@write_documents
def test_publish_moves_main_tag_and_position_of_its_pipeline_alone_and_drops_the_branch(kit: Kit) -> None:
    assert kit.port.tables.list_pipelines(TABLE) == ()
    kit.seed_table()
    assert kit.port.tables.list_pipelines(TABLE) == (PIPELINE,)
    table_commit = kit.merge_branch(FIRST)
    assert read_ids(kit) == []  # what is on a branch is not in the table
    kit.port.commits.publish(table_commit)
    state = kit.state()
    assert (state.snapshot_id, state.position, state.highest_batch) == (table_commit.head, FIRST, 1)
    assert kit.port.commits.read_head(TABLE, resource_names.name_tag(PIPELINE)).snapshot_id == table_commit.head
    assert kit.port.commits.read_head(TABLE, table_commit.branch) is None
    assert read_ids(kit) == ["m1"]
    kit.port.commits.publish(kit.merge_branch(SECOND, pipeline="other", attempt="o1"))
    assert kit.state(PIPELINE).position == FIRST
    assert kit.state("other").position == SECOND
    assert not kit.state(PIPELINE).is_rolled_back
    assert kit.port.tables.list_pipelines(TABLE) == ("other", PIPELINE)
    assert read_ids(kit) == ["m1", "o1"]


@require_branches
def test_publish_without_a_tag_moves_main_and_leaves_position_and_tag(kit: Kit) -> None:
    kit.seed_table().port.commits.publish(kit.merge_branch(FIRST))
    tagged = kit.port.commits.read_head(TABLE, resource_names.name_tag(PIPELINE)).snapshot_id
    other = replace(
        kit.merge_branch(SECOND, attempt="m2", carries_position=False),
        tag=None,
        properties={resource_names.name_pipeline_property(PIPELINE, "note"): "x"},
    )
    kit.port.commits.publish(other)
    state = kit.state()
    assert (state.snapshot_id, state.position, state.is_rolled_back) == (other.head, FIRST, False)
    assert kit.port.commits.read_head(TABLE, resource_names.name_tag(PIPELINE)).snapshot_id == tagged
    assert state.marks == {
        **FIRST.to_properties(PIPELINE),
        resource_names.name_pipeline_property(PIPELINE, "note"): "x",
    }


def assert_refused(kit: Kit, table_commit: TableCommit) -> None:
    before = kit.state()
    with pytest.raises(CommitRefused):
        kit.port.commits.publish(table_commit)
    assert kit.state() == before


@pytest.mark.guard(
    "compare-and-swap: another run's publish",
    file="plugins/tidegate/adapters/iceberg/commit.py",
    text="        *_require_branch_at(table, target, expected_snapshot_id),\n",
    off="",
    case="iceberg",
)
@pytest.mark.guard(
    "BigQuery: the transaction asserts the position's version",
    file="include/sql/bigquery/publish.sql",
    text=") = 1 AS {{ moved | text }};",
    off=") >= 0 AS {{ moved | text }};",
    case="bigquery",
)
@write_documents
def test_publish_is_refused_when_another_publish_moved_the_position_or_the_table_was_replaced(kit: Kit) -> None:
    """Another writer's change of metadata before a publish, and its rows behind it, refuse none and are no rollback."""
    ours, theirs = kit.seed_table().merge_branch(FIRST, attempt="m1"), kit.merge_branch(FIRST, attempt="m2")
    kit.touch()
    kit.port.commits.publish(theirs)
    assert kit.state().position == FIRST
    assert_refused(kit, ours)
    assert read_ids(kit) == ["m2"]
    kit.append("main", [{"id": "foreign", "n": 0}], {})
    before = kit.state()
    assert (before.is_rolled_back, before.position) == (False, FIRST)
    kit.replace_table()
    assert kit.state().uuid != before.uuid
    assert kit.state().position is None
    assert_refused(kit, ours)
    assert kit.read_rows(TABLE) == []


@pytest.mark.guard(
    "compare-and-swap: main is still the cut",
    file="plugins/tidegate/adapters/iceberg/commit.py",
    text="        *_require_branch_at(table, target, expected_snapshot_id),\n",
    off="",
    case="iceberg",
)
@write_documents
@require_branches
def test_publish_is_refused_when_a_foreign_writer_moved_main(kit: Kit) -> None:
    table_commit = kit.seed_table().merge_branch(FIRST)
    kit.append("main", [{"id": "foreign", "n": 0}], {})
    assert_refused(kit, table_commit)
    assert read_ids(kit) == ["foreign"]


@pytest.mark.guard(
    "the branch is still what was checked",
    file="plugins/tidegate/adapters/iceberg/commit.py",
    text="        AssertRefSnapshotId(ref=table_commit.branch, snapshot_id=table_commit.head),\n",
    off="",
    case="iceberg",
)
@require_branches
def test_publish_is_refused_when_the_branch_moved_after_it_was_checked(kit: Kit) -> None:
    table_commit = kit.seed_table().merge_branch(FIRST)
    kit.append(table_commit.branch, [{"id": "late", "n": 0}], {})
    assert_refused(kit, table_commit)
    assert read_ids(kit) == []


@require_branches
def test_publish_is_refused_when_the_branch_is_gone_and_the_second_time(kit: Kit) -> None:
    table_commit = kit.seed_table().merge_branch(FIRST)
    kit.port.commits.drop_branches(TABLE, PIPELINE, 1, keep_all)
    assert_refused(kit, table_commit)
    table_commit = kit.merge_branch(FIRST, attempt="m2")
    kit.port.commits.publish(table_commit)
    assert_refused(kit, table_commit)
    assert read_ids(kit) == ["m2"]


@pytest.mark.guard(
    "the schema is still the merged one",
    file="plugins/tidegate/adapters/iceberg/commit.py",
    text="        AssertCurrentSchemaId(current_schema_id=table_commit.schema_id),\n",
    off="",
    case="iceberg",
)
@write_documents
@require_branches
def test_publish_is_refused_when_the_schema_changed(kit: Kit) -> None:
    table_commit = kit.seed_table().merge_branch(FIRST)
    kit.port.tables.evolve(TABLE, (*COLUMNS, Column("more", "STRING")), add=True, widen=True, relax=True)
    assert_refused(kit, table_commit)


# rollback


@pytest.mark.guard(
    "a rollback is detected by the tag",
    file="plugins/tidegate/adapters/iceberg/table_state.py",
    text="rolled_back = recorded is not None and (",
    off="rolled_back = recorded is None and (",
    case="iceberg",
)
@require_branches
def test_rollback_is_noticed_and_the_ancestors_position_told(kit: Kit) -> None:
    kit.seed_table().port.commits.publish(kit.merge_branch(FIRST))
    first = kit.state().snapshot_id
    kit.port.commits.publish(kit.merge_branch(SECOND, attempt="m2"))
    kit.rollback(first)
    state = kit.state()
    assert (state.is_rolled_back, state.position, state.recorded_position, state.highest_batch) == (
        True,
        FIRST,
        SECOND,
        2,
    )


def publish_and_roll_back(kit: Kit) -> tuple[int, int]:
    """Two batches, rolled back to the first; the snapshots of both."""
    kit.seed_table().port.commits.publish(kit.merge_branch(FIRST))
    first = kit.state().snapshot_id
    kit.port.commits.publish(kit.merge_branch(SECOND, attempt="m2"))
    second = kit.state().snapshot_id
    kit.rollback(first)
    return first, second


@write_documents
@require_branches
def test_what_a_rollback_took_is_found_and_comes_back_in_one_commit(kit: Kit) -> None:
    first, second = publish_and_roll_back(kit)
    commits = kit.port.commits
    rollback = commits.find_rollback(TABLE, PIPELINE)
    assert (rollback.current_snapshot_id, rollback.tagged_snapshot_id, rollback.is_traceable) == (first, second, True)
    assert ([snapshot.snapshot_id for snapshot in rollback.returning_snapshots], rollback.discarded_snapshots) == (
        [second],
        (),
    )
    assert (rollback.rows_now, rollback.rows_then) == (1, 2)
    commits.undo_rollback(TABLE, PIPELINE, rollback, {f"tidegate.{PIPELINE}.actions": "[]"})
    state = kit.state()
    assert (state.snapshot_id, state.is_rolled_back, state.position) == (second, False, SECOND)
    assert state.marks[f"tidegate.{PIPELINE}.actions"] == "[]"
    assert commits.find_rollback(TABLE, PIPELINE) is None


@pytest.mark.guard(
    "a rollback is undone only while main is as in the preview",
    file="plugins/tidegate/adapters/iceberg/commit.py",
    text="            *_require_branch_at(loaded_table, target, rollback.current_snapshot_id),\n",
    off="",
    case="iceberg",
)
@require_branches
def test_rollback_is_not_undone_where_main_moved_after_it_was_shown(kit: Kit) -> None:
    first, second = publish_and_roll_back(kit)
    preview = kit.port.commits.find_rollback(TABLE, PIPELINE)
    kit.append("main", [{"id": "foreign", "n": 0}], {})
    foreign = kit.state().snapshot_id
    with pytest.raises(CommitRefused):
        kit.port.commits.undo_rollback(TABLE, PIPELINE, preview, {})
    assert kit.state().snapshot_id == foreign
    rollback = kit.port.commits.find_rollback(TABLE, PIPELINE)
    assert [(snapshot.snapshot_id, snapshot.rows, snapshot.pipeline) for snapshot in rollback.discarded_snapshots] == [
        (foreign, 1, "")
    ]
    assert [snapshot.snapshot_id for snapshot in rollback.returning_snapshots] == [second]
    assert first not in (rollback.current_snapshot_id, rollback.tagged_snapshot_id)


@pytest.mark.guard(
    "a rollback is undone only while the tag is as in the preview",
    file="plugins/tidegate/adapters/iceberg/commit.py",
    text="            AssertRefSnapshotId(ref=resource_names.name_tag(pipeline), snapshot_id=tagged),\n",
    off="",
    case="iceberg",
)
@require_branches
def test_rollback_is_not_undone_where_the_tag_moved_after_it_was_shown(kit: Kit) -> None:
    first, _ = publish_and_roll_back(kit)
    preview = kit.port.commits.find_rollback(TABLE, PIPELINE)
    kit.port.commits.publish(kit.merge_branch(replace(SECOND, batch=3), attempt="m3"))
    third = kit.state().snapshot_id
    kit.rollback(first)
    with pytest.raises(CommitRefused):
        kit.port.commits.undo_rollback(TABLE, PIPELINE, preview, {})
    assert kit.state().snapshot_id == first
    assert kit.port.commits.find_rollback(TABLE, PIPELINE).tagged_snapshot_id == third


@require_branches
def test_rollback_to_where_no_ancestor_carries_a_position_tells_none(kit: Kit) -> None:
    seed = kit.seed_table().state().snapshot_id
    kit.append("main", [{"id": "foreign", "n": 0}], {})
    foreign = kit.state().snapshot_id
    kit.port.commits.publish(kit.merge_branch(FIRST))
    kit.rollback(foreign)
    kit.expire(seed)
    state = kit.state()
    assert (state.is_rolled_back, state.position, state.recorded_position, state.is_untraceable) == (
        True,
        None,
        FIRST,
        False,
    )


@require_branches
def test_history_that_expired_between_main_and_the_tag_tells_no_position_to_go_back_to(kit: Kit) -> None:
    kit.seed_table().port.commits.publish(kit.merge_branch(FIRST))
    kit.append("main", [{"id": "f1", "n": 0}], {})
    between = kit.state().snapshot_id
    kit.append("main", [{"id": "f2", "n": 0}], {})
    assert (kit.state().is_rolled_back, kit.state().is_untraceable) == (False, False)
    kit.expire(between)
    state = kit.state()
    assert (state.is_rolled_back, state.position, state.recorded_position) == (True, None, FIRST)


@require_branches
def test_position_property_that_somebody_removed_is_found_in_the_tagged_snapshot(kit: Kit) -> None:
    kit.seed_table().port.commits.publish(kit.merge_branch(FIRST))
    kit.append("main", [{"id": "foreign", "n": 0}], {})
    kit.forget_properties()
    state = kit.state()
    assert (state.is_rolled_back, state.position, state.highest_batch) == (False, FIRST, 1)


@write_documents
@require_branches
def test_position_survives_the_expiry_of_the_snapshots_that_carried_it(kit: Kit) -> None:
    seed = kit.seed_table().state().snapshot_id
    kit.port.commits.publish(kit.merge_branch(FIRST))
    kit.port.commits.publish(kit.merge_branch(SECOND, attempt="m2"))
    kit.expire(seed)
    assert (kit.state().is_rolled_back, kit.state().position) == (False, SECOND)


# branches


def keep_all(backfill: str) -> bool:
    """No backfill is gone."""
    return False


def drop_all(backfill: str) -> bool:
    """Each backfill is gone."""
    return True


@write_documents
@require_branches
def test_stale_branches_are_dropped_newer_and_foreign_ones_kept_and_one_goes_by_its_name(kit: Kit) -> None:
    state = kit.seed_table().state()
    branches = [resource_names.name_branch(PIPELINE, n, "a") for n in (1, 2, 3)] + [
        resource_names.name_branch("other", 1, "a"),
        resource_names.name_branch(PIPELINE, 3, "ab"),
    ]
    for branch in branches:
        kit.port.commits.start_branch(TABLE, state, branch)

    def list_heads() -> list[bool]:
        return [kit.port.commits.read_head(TABLE, branch) is not None for branch in branches]

    assert kit.port.commits.drop_branches(TABLE, PIPELINE, 2, keep_all) == 2
    assert list_heads() == [False, False, True, True, True]
    assert kit.port.commits.drop_branches(TABLE, PIPELINE, 2, keep_all) == 0
    for _ in range(2):  # gone twice is gone
        kit.port.commits.drop_branch(TABLE, branches[2])
        assert list_heads() == [False, False, False, True, True]


@require_branches
def test_snapshots_of_an_attempt_are_known_when_no_branch_leads_to_them(kit: Kit) -> None:
    table_commit = kit.seed_table().merge_branch(FIRST, attempt="m1")
    kit.merge_branch(FIRST, attempt="m2")
    kit.port.commits.drop_branch(TABLE, table_commit.branch)
    assert kit.port.commits.find_snapshots(TABLE, "m1") == [table_commit.head]
    assert kit.port.commits.find_snapshots(TABLE, "m3") == []


@require_branches
def test_snapshot_that_the_table_has_left_is_told_from_one_that_it_stands_on_or_never_had(kit: Kit) -> None:
    kit.seed_table()
    kit.port.commits.publish(kit.merge_branch(FIRST, attempt="m1"))
    before = kit.state().snapshot_id
    kit.port.commits.publish(kit.merge_branch(SECOND, attempt="m2"))
    attribute = "tidegate.attempt"
    assert kit.port.commits.list_rolled_back(TABLE, attribute) == frozenset()
    kit.rollback(before)
    assert kit.port.commits.list_rolled_back(TABLE, attribute) == {"m2"}
    assert kit.port.commits.list_rolled_back(f"{TABLE}_that_is_not_there", attribute) == frozenset()


@require_branches
def test_positions_are_told_of_the_snapshots_that_the_table_stands_on_and_others_are_gone(kit: Kit) -> None:
    def read_line() -> tuple[list[Offsets], frozenset[int], bool]:
        line = kit.port.commits.read_snapshot_line(TABLE, PIPELINE)
        assert not any(carried.is_batch for carried in line.positions), "no merge has counted what it wrote"
        is_staying = {carried.snapshot_id for carried in line.positions} <= line.staying
        return [carried.offsets for carried in line.positions], line.gone, is_staying

    kit.seed_table()
    kit.port.commits.publish(kit.merge_branch(FIRST, attempt="m1"))
    before = kit.state().snapshot_id
    kit.port.commits.publish(kit.merge_branch(SECOND, attempt="m2"))
    last = kit.state().snapshot_id
    assert read_line() == ([START.offsets, FIRST.offsets, SECOND.offsets], frozenset(), True)
    kit.rollback(before)
    assert read_line() == ([START.offsets, FIRST.offsets], frozenset({last}), True)
    assert last not in kit.port.commits.read_snapshot_line(TABLE, PIPELINE).staying
    assert kit.port.commits.read_snapshot_line(f"{TABLE}_that_is_not_there", PIPELINE) == SnapshotLine()


@pytest.mark.guard(
    "a clean-up drops branches and no tag",
    file="plugins/tidegate/adapters/iceberg/table_state.py",
    text=" if ref.snapshot_ref_type == SnapshotRefType.BRANCH]",
    off="]",
    case="iceberg",
)
@require_branches
def test_tag_of_a_pipeline_whose_name_reads_like_a_batch_of_ours_is_no_branch_to_drop(kit: Kit) -> None:
    """Pipeline `shop_2024_q1` has the tag `tidegate_shop_2024_q1`, which reads like batch 2024 of `shop`."""
    pipelines = ("shop_2024_q1", "shop_backfill_1_7_q1")
    kit.seed_table()
    for pipeline in pipelines:
        kit.port.commits.publish(kit.merge_branch(FIRST, pipeline, attempt=f"of_{pipeline}"))
    stale = resource_names.name_branch(PIPELINE, 2024, "a")
    kit.port.commits.start_branch(TABLE, kit.state(), stale)
    assert kit.port.commits.drop_branches(TABLE, PIPELINE, 9_999, drop_all) == 1
    kit.port.history.forget_backfill(TABLE, PIPELINE, "1")
    assert kit.port.commits.read_head(TABLE, stale) is None
    assert [kit.state(pipeline).is_rolled_back for pipeline in pipelines] == [False, False]


# evolve


@write_documents
@require_branches
def test_evolving_is_additive_and_idempotent(kit: Kit) -> None:
    kit.create()
    wanted = (Column("id", "STRING"), Column("n", "BIGINT"), Column("more", "STRING"))
    assert len(kit.port.tables.evolve(TABLE, wanted, add=True, widen=True, relax=True)) == 2
    assert kit.port.tables.evolve(TABLE, wanted, add=True, widen=True, relax=True) == []
    assert kit.state().columns == wanted


@pytest.mark.repeats(
    "contract/test_bigquery.py::test_columns_are_added_and_relaxed_once_and_a_change_that_bigquery_cannot_make_changes_nothing",
    "bigquery",
)
def test_narrower_column_is_no_change(kit: Kit) -> None:
    kit.create()
    kit.port.tables.evolve(TABLE, (COLUMNS[0], Column("n", "BIGINT")), add=True, widen=True, relax=True)
    assert kit.port.tables.evolve(TABLE, COLUMNS, add=True, widen=True, relax=True) == []


@require_branches
def test_incompatible_or_forbidden_change_gives_up_and_changes_nothing(kit: Kit) -> None:
    kit.create()
    before = kit.state()
    for columns, allowed in (
        ((COLUMNS[0], Column("n", "STRING")), {"add": True, "widen": True}),
        ((*COLUMNS, Column("more", "INT")), {"add": False, "widen": True}),
        ((COLUMNS[0], Column("n", "BIGINT")), {"add": True, "widen": False}),
    ):
        with pytest.raises(GiveUp):
            kit.port.tables.evolve(TABLE, columns, relax=True, **allowed)
    assert kit.state() == before


# staged batches


def test_staged_batches_come_oldest_first_with_ranges_and_counts_of_their_newest_attempts(kit: Kit) -> None:
    assert kit.port.staging.list_staged(STAGED, TABLE) == []  # there is no table yet
    assert kit.port.staging.read_staged_outcome(STAGED, "a") is None
    assert kit.port.staging.find_highest_batch(STAGED) == 0
    assert kit.port.staging.clean_up(STAGED, 5) == {}
    kit.stage(1, "a1", 2)
    kit.stage(1, "a2", 3)
    kit.stage(2, "a3", 4)
    first, second = kit.port.staging.list_staged(STAGED, TABLE)
    assert (first.batch, first.attempt, first.table, first.counts) == (1, "a2", TABLE, Counts(10, 10, 3, ignored=7))
    assert (second.batch, second.ranges, second.cluster_id) == (2, Ranges({"t": {0: (0, 10)}}), "c")
    assert kit.port.staging.find_highest_batch(STAGED) == 2
    rows = [row for row in kit.read_rows(STAGED) if row["batch_number"] == 1]
    assert sum(row.get("attempt", "a2") == "a2" for row in rows) == 3


@pytest.mark.repeats(
    "contract/test_bigquery.py::test_of_several_batches_only_that_is_staged_again_whose_rows_went", "bigquery"
)
def test_last_batch_reads_the_rows_of_those_ahead_of_it_also_behind_a_clean_up(kit: Kit) -> None:
    for number in range(1, 5):
        kit.stage(number, f"a{number}", number - 1)
    batches = kit.port.staging.list_staged(STAGED, TABLE)
    assert kit.port.staging.holds_rows(STAGED, batches)
    kit.port.staging.clean_up(STAGED, 1)
    kit.stage(5, "a5", 1)
    kit.port.staging.clean_up(STAGED, 1)
    assert [staged.batch for staged in kit.port.staging.list_staged(STAGED, TABLE)] == [2, 3, 4, 5]
    assert kit.port.staging.holds_rows(STAGED, kit.port.staging.list_staged(STAGED, TABLE))
    assert kit.port.staging.holds_rows(STAGED, batches[1:])


@pytest.mark.guard(
    "a snapshot holds a batch only in the files that its own attempt added",
    file="plugins/tidegate/adapters/iceberg/staging.py",
    text="                if manifest.content != ManifestContent.DATA or entry.snapshot_id != staged[number]:\n",
    off="                if False:\n",
    case="iceberg-ends0",
)
@require_branches
@pytest.mark.parametrize("ends", [{"finished": False}, {"bad": 1}])
def test_last_batch_does_not_read_rows_that_an_attempt_that_is_never_merged_has_written_over(
    kit: Kit, ends: dict[str, Any]
) -> None:
    """Also once the clean-up has removed that attempt."""
    for number in (1, 2):
        kit.stage(number, f"a{number}", 3)
    kit.stage(1, "killed", 3, **ends)
    kit.stage(3, "a3", 1)
    for _ in range(2):
        first, second, third = kit.port.staging.list_staged(STAGED, TABLE)
        assert (first.attempt, second.attempt, third.attempt) == ("a1", "a2", "a3")
        assert kit.port.staging.holds_rows(STAGED, [first, second])
        assert kit.port.staging.holds_rows(STAGED, [second, third])
        assert not kit.port.staging.holds_rows(STAGED, [first, second, third])
        kit.port.staging.clean_up(STAGED, 0)


@pytest.mark.repeats(
    "test_attempt_that_is_never_merged_leaves_its_number_free_and_goes_with_the_next_clean_up[bigquery]", "bigquery"
)
@pytest.mark.guard(
    "rows without counts are not staged",
    file="plugins/tidegate/adapters/iceberg/staging.py",
    text=("if outcome is None or outcome.bad:\n        return None\n"),
    off=(
        "outcome = outcome or StageOutcome(read=0, staged=0, superseded=0, filtered=0, ignored=0, "
        "dead_lettered=0, bad=0, timestamps={})\n"
    ),
    case="iceberg",
)
def test_attempt_that_did_not_finish_or_met_a_bad_record_is_not_staged(kit: Kit) -> None:
    kit.stage(1, "a1", 3, finished=False)
    kit.port.staging.complete_attempt(STAGED, 1, "a1", build_summary(1, "a1"))
    kit.stage(2, "a2", 3, bad=1)
    assert kit.port.staging.list_staged(STAGED, TABLE) == []
    assert kit.port.staging.read_staged_outcome(STAGED, "a1") is None, "there are no counts to complete"
    assert kit.port.staging.read_staged_outcome(STAGED, "a2").bad == 1


@pytest.mark.repeats(
    "test_counts_that_arrive_after_the_clean_up_of_their_batch_go_with_the_next_one[bigquery]", "bigquery"
)
def test_attempt_whose_job_has_left_its_counts_is_not_staged_before_a_worker_lets_it_count(kit: Kit) -> None:
    kit.stage(1, "open", 3)
    kit.stage(2, "counted", 2, finished=False)
    kit.count("counted", render_outcome(2))
    assert [(s.batch, s.attempt) for s in kit.port.staging.list_staged(STAGED, TABLE)] == [(1, "open")]
    assert kit.port.staging.read_staged_outcome(STAGED, "counted") is None
    for _ in range(2):
        kit.port.staging.complete_attempt(STAGED, 2, "counted", build_summary(2, "counted"))
        staged = kit.port.staging.list_staged(STAGED, TABLE)
        assert [(s.batch, s.attempt, s.counts.staged) for s in staged] == [(1, "open", 3), (2, "counted", 2)]


@pytest.mark.repeats("test_counts_that_lack_a_field_are_refused_with_their_attempt_and_the_field[iceberg]", "bigquery")
def test_counts_that_lack_a_field_are_refused_with_their_attempt_and_the_field(kit: Kit) -> None:
    kit.stage(1, "a1", 3, finished=False)
    counts = {name: value for name, value in json.loads(render_outcome(3)).items() if name != "ignored"}

    def finish_and_list() -> None:  # BigQuery reads the counts when it brings the rows in
        kit.finish("a1", json.dumps(counts))
        kit.port.staging.list_staged(STAGED, TABLE)

    with pytest.raises(GiveUp, match="attempt=a1: what its job left behind cannot be read: 'ignored' is missing; no"):
        finish_and_list()


def test_attempt_that_is_never_merged_leaves_its_number_free_and_goes_with_the_next_clean_up(kit: Kit) -> None:
    kit.stage(1, "open", 3)
    kit.stage(2, "unfinished", 2, finished=False)
    kit.stage(4, "bad", 3, bad=1)
    kit.stage(3, "bad too", 2, bad=2)
    assert kit.port.staging.find_highest_batch(STAGED) == 1
    kit.port.staging.clean_up(STAGED, 0)
    assert sorted({row["batch_number"] for row in kit.read_rows(STAGED)} - {2}) == [1]
    assert [kit.port.staging.read_staged_outcome(STAGED, name) is None for name in ("open", "bad", "bad too")] == [
        False,
        True,
        True,
    ]
    assert kit.port.staging.find_highest_batch(STAGED) == 1
    kit.finish("unfinished", render_outcome(2))
    assert kit.port.staging.find_highest_batch(STAGED) == 2
    assert [(s.batch, s.attempt) for s in kit.port.staging.list_staged(STAGED, TABLE)] == [
        (1, "open"),
        (2, "unfinished"),
    ]
    if kit.insert is None:  # no snapshot of theirs is left either
        assert list_attempts(kit) == {"open", "unfinished"}


@pytest.mark.repeats("contract/test_bigquery.py::test_rows_of_two_attempts_at_a_batch_lie_side_by_side", "bigquery")
@pytest.mark.guard(
    "a clean-up removes a later batch only if its attempt is never merged",
    file="plugins/tidegate/adapters/iceberg/staging.py",
    text="and batch > up_to_batch and last[batch] is s]",
    off="and batch > up_to_batch]",
    case="iceberg",
)
def test_attempt_that_follows_a_bad_one_under_its_number_is_kept(kit: Kit) -> None:
    kit.stage(1, "bad", 3, bad=1)
    kit.stage(1, "good", 4)
    kit.port.staging.clean_up(STAGED, 0)
    (staged,) = kit.port.staging.list_staged(STAGED, TABLE)
    assert (staged.attempt, staged.counts.staged, kit.port.staging.find_highest_batch(STAGED)) == ("good", 4, 1)
    assert sum(row.get("attempt", "good") == "good" for row in kit.read_rows(STAGED)) == 4


@pytest.mark.repeats(
    "test_attempt_that_is_never_merged_leaves_its_number_free_and_goes_with_the_next_clean_up[bigquery]", "bigquery"
)
@pytest.mark.repeats(
    "test_attempts_that_were_killed_before_their_counts_leave_one_snapshot_and_go_with_the_next_attempt[iceberg]",
    "iceberg",
)
def test_number_of_attempts_that_were_killed_before_their_counts_is_used_again(kit: Kit) -> None:
    kit.stage(1, "open", 3)
    for run in range(2):
        number = kit.port.staging.find_highest_batch(STAGED) + 1
        kit.stage(number, f"killed-{run}", 2, finished=False)
        kit.port.staging.clean_up(STAGED, 0)
        assert number == 2
    kit.stage(2, "whole", 4)
    assert kit.port.staging.find_highest_batch(STAGED) == 2
    assert [(s.batch, s.attempt) for s in kit.port.staging.list_staged(STAGED, TABLE)] == [(1, "open"), (2, "whole")]
    kit.port.staging.clean_up(STAGED, 0)
    assert [(s.batch, s.attempt) for s in kit.port.staging.list_staged(STAGED, TABLE)] == [(1, "open"), (2, "whole")]


@require_branches
def test_attempts_that_were_killed_before_their_counts_leave_one_snapshot_and_go_with_the_next_attempt(
    kit: Kit,
) -> None:
    kit.stage(1, "open", 3)
    for run in range(4):
        kit.stage(2, f"killed-{run}", 2, finished=False)
        kit.port.staging.clean_up(STAGED, 0)
    assert sorted(row["batch_number"] for row in kit.read_rows(STAGED)) == [1, 1, 1, 2, 2]
    assert list_attempts(kit) == {"open", "killed-3"}
    kit.stage(2, "whole", 4)
    kit.finish("killed-3", render_outcome(2))  # its job slept
    assert [(s.batch, s.attempt) for s in kit.port.staging.list_staged(STAGED, TABLE)] == [(1, "open"), (2, "whole")]


@require_branches
def test_complete_attempt_that_an_unfinished_one_has_written_over_is_kept(kit: Kit) -> None:
    kit.stage(1, "whole", 3)
    kit.stage(1, "killed", 2, finished=False)
    kit.port.staging.clean_up(STAGED, 0)
    assert list_attempts(kit) == {"whole", "killed"}
    assert [(s.batch, s.attempt) for s in kit.port.staging.list_staged(STAGED, TABLE)] == [(1, "whole")]


@pytest.mark.repeats(
    "test_attempt_that_is_never_merged_leaves_its_number_free_and_goes_with_the_next_clean_up[bigquery]", "bigquery"
)
def test_complete_attempt_before_a_bad_one_under_its_number_is_kept_for_a_merge_that_has_begun(kit: Kit) -> None:
    kit.stage(1, "good", 4)
    before = kit.port.staging.list_staged(STAGED, TABLE)
    kit.stage(1, "bad", 3, bad=1)
    kit.port.staging.clean_up(STAGED, 0)
    assert kit.port.staging.list_staged(STAGED, TABLE) == before
    if kit.load:
        assert kit.load(STAGED).scan(snapshot_id=before[0].snapshot_id).to_arrow().num_rows == 4


@pytest.mark.repeats(
    "test_attempt_that_is_never_merged_leaves_its_number_free_and_goes_with_the_next_clean_up[bigquery]", "bigquery"
)
@pytest.mark.repeats(
    "test_attempt_that_is_never_merged_leaves_its_number_free_and_goes_with_the_next_clean_up[iceberg]", "iceberg"
)
def test_bad_attempts_that_follow_each_other_leave_nothing_behind(kit: Kit) -> None:
    for run in range(3):
        number = kit.port.staging.find_highest_batch(STAGED) + 1 if run else 1
        kit.stage(number, f"a{run}", 3 * (run % 2), bad=1)
        kit.port.staging.clean_up(STAGED, 0)
    assert number <= 2
    assert kit.read_rows(STAGED) == []
    if kit.load:
        assert len(kit.load(STAGED).snapshots()) <= 2
    if kit.bytes_on_disk and not kit.load:
        assert kit.bytes_on_disk(STAGED) == []


@pytest.mark.guard(
    "a clean-up keeps unpublished batches",
    file="plugins/tidegate/adapters/iceberg/staging.py",
    text="batch is not None and batch <= up_to_batch)",
    off="batch is not None)",
    case="iceberg",
)
def test_clean_up_removes_old_batches_with_rows_snapshots_and_bytes_and_keeps_the_newer_one(kit: Kit) -> None:
    for batch in (1, 2, 3):
        kit.stage(batch, f"a{batch}", batch)
    *_, newest = kit.port.staging.list_staged(STAGED, TABLE)
    kit.port.staging.clean_up(STAGED, 2)
    assert kit.port.staging.list_staged(STAGED, TABLE) == [newest], "its snapshot too, which a merge may have pinned"
    assert [row["batch_number"] for row in kit.read_rows(STAGED)] == [3, 3, 3]
    assert newest.batch == 3
    assert kit.port.staging.read_staged_outcome(STAGED, "a1") is None
    kit.port.staging.clean_up(STAGED, 3)
    assert kit.read_rows(STAGED) == []
    if kit.bytes_on_disk:  # also those of 1 and 2, which the snapshot of 3 kept alive until now
        assert kit.bytes_on_disk(STAGED) == []


@pytest.mark.repeats(
    "test_clean_up_removes_old_batches_with_rows_snapshots_and_bytes_and_keeps_the_newer_one[iceberg]", "iceberg"
)
@pytest.mark.repeats(
    "test_clean_up_removes_old_batches_with_rows_snapshots_and_bytes_and_keeps_the_newer_one[bigquery]", "bigquery"
)
def test_clean_up_of_everything_leaves_no_row_and_no_byte(kit: Kit) -> None:
    kit.stage(1, "a1", 3)
    kit.stage(1, "a2", 3)
    kit.stage(2, "a3", 1, finished=False)
    kit.port.staging.clean_up(STAGED, 2)
    assert kit.read_rows(STAGED) == []
    if kit.bytes_on_disk:
        assert kit.bytes_on_disk(STAGED) == []


@pytest.mark.repeats(
    "test_clean_up_removes_old_batches_with_rows_snapshots_and_bytes_and_keeps_the_newer_one[bigquery]", "bigquery"
)
def test_clean_up_is_harmless_twice_and_without_rows_and_the_highest_number_is_remembered(kit: Kit) -> None:
    kit.stage(4, "a4", 3)
    for _ in range(2):
        kit.port.staging.clean_up(STAGED, 4)
        assert kit.port.staging.find_highest_batch(STAGED) == 4
    kit.stage(5, "a5", 2)
    assert [s.batch for s in kit.port.staging.list_staged(STAGED, TABLE)] == [5]
    kit.stage(6, "a6", 0)
    kit.port.staging.clean_up(STAGED, 6)
    assert kit.read_rows(STAGED) == []
    kit.port.staging.clean_up(STAGED, 3)
    assert kit.port.staging.find_highest_batch(STAGED) == 6, "a clean-up of older batches does not lower it"


def test_counts_that_arrive_after_the_clean_up_of_their_batch_go_with_the_next_one(kit: Kit) -> None:
    """Stage jobs that slept between their rows and their counts, while another run published the batch."""
    for attempt in ("counted", "finished"):
        kit.stage(1, attempt, 3, finished=False)
    kit.port.staging.clean_up(STAGED, 1)
    kit.stage(2, "open", 2)
    kit.count("counted", render_outcome(3))
    with suppress(RetryLater):  # where files are loaded: there are none any more
        kit.finish("finished", render_outcome(3))
    kit.port.staging.clean_up(STAGED, 1)
    for attempt in ("counted", "finished"):
        with suppress(RetryLater):
            kit.port.staging.complete_attempt(STAGED, 1, attempt, build_summary(1, attempt))
        assert kit.port.staging.read_staged_outcome(STAGED, attempt) is None
    assert [s.attempt for s in kit.port.staging.list_staged(STAGED, TABLE)] == ["open"]


# remembered deletes


@pytest.mark.guard(
    "deletes are forgotten in memories of ours only",
    file="plugins/tidegate/adapters/iceberg/table.py",
    text="    if kind not in MEMORY_KINDS:\n",
    off="    if False:\n",
    case="iceberg",
)
def test_remembered_deletes_are_forgotten_by_time_and_none_without_a_mark(kit: Kit) -> None:
    assert kit.port.tables.forget_deletes(DELETES, 9_000) == 0, "nothing was ever deleted"
    kit.remember({"a": 1_000, "b": 5_000})
    kit.remember({"c": 5_001})
    assert kit.port.tables.forget_deletes(DELETES, 5_000) == 1
    assert kit.port.tables.forget_deletes(DELETES, 5_000) == 0
    kit.unmark(DELETES)
    assert kit.port.tables.forget_deletes(DELETES, 9_000) == 0
    assert sorted(row["id"] for row in kit.read_rows(DELETES)) == ["b", "c"]


@pytest.mark.real
def test_forgetting_is_refused_when_a_merge_remembers_more_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remembered deletes that a running merge has read stay: it may have moved a delete's record to a later one."""
    from tidegate.adapters.iceberg import commit as iceberg_commit

    kit = build_iceberg_kit(tmp_path)
    kit.remember({"a": 1_000, "b": 9_000})
    commit = iceberg_commit.commit

    def commit_late(*given: Any) -> None:
        kit.remember({"c": 2_000})
        commit(*given)

    monkeypatch.setattr(iceberg_commit, "commit", commit_late)
    with pytest.raises(CommitRefused):
        kit.port.tables.forget_deletes(DELETES, 5_000)
    assert sorted(row["id"] for row in kit.read_rows(DELETES)) == ["a", "b", "c"]


# ownership


@pytest.mark.repeats("test_table_of_somebody_else_is_neither_claimed_nor_touched[bigquery]", "bigquery")
def test_table_of_ours_is_known_by_its_mark(kit: Kit) -> None:
    assert kit.port.tables.claim(STAGED, OWN_STAGED) is None
    kit.stage(1, "a1", 2)
    assert kit.port.tables.claim(STAGED, OWN_STAGED) is not None
    with pytest.raises(GiveUp, match=f"table={STAGED} is needed as kind=intermediate pipeline=a .*it is marked as"):
        kit.port.tables.claim(STAGED, Ownership(TableKind.INTERMEDIATE, "a", "shop.orders_shop"))


@pytest.mark.guard(
    "a table without our mark is not ours",
    file="plugins/tidegate/adapters/iceberg/table_state.py",
    text="    check_mark(name, owner, owner.properties, properties)\n",
    off="",
    case="iceberg",
)
@pytest.mark.guard(
    "only an intermediate table of ours is dropped",
    file="plugins/tidegate/adapters/iceberg/staging.py",
    text="        check_removable(table, (TableKind.INTERMEDIATE,))\n",
    off="",
    case="iceberg",
)
@pytest.mark.guard(
    "only intermediate tables of ours are cleaned up",
    file="plugins/tidegate/adapters/iceberg/staging.py",
    text="    check_removable(table, STAGING_KINDS)\n",
    off="",
    case="iceberg",
)
def test_table_of_somebody_else_is_neither_claimed_nor_touched(kit: Kit) -> None:
    kit.note(STAGED, "theirs")
    kit.note(DELETES, "theirs")
    for table, own in ((STAGED, OWN_STAGED), (DELETES, OWN_DELETES)):
        with pytest.raises(GiveUp, match=f"table={table} .* it is not a table that Tidegate made; nothing was changed"):
            kit.port.tables.claim(table, own)
    for remove in (lambda: kit.port.staging.drop(STAGED), lambda: kit.port.staging.clean_up(STAGED, 9)):
        with pytest.raises(GiveUp, match="nothing was removed"):
            remove()
    assert kit.port.tables.forget_deletes(DELETES, 9_000) == 0
    assert (kit.read_rows(STAGED), kit.read_rows(DELETES)) == ([], [])


# backfills


@require_branches
def test_staging_shows_what_the_newest_snapshot_holds_and_no_batch_that_an_unfinished_attempt_overwrote(
    kit: Kit,
) -> None:
    assert kit.port.staging.read_staging(STAGED, TABLE) is None
    kit.stage(1, "a1", 2)
    kit.stage(2, "a2", 5)
    kit.stage(1, "a3", 1)
    staging = kit.port.staging.read_staging(STAGED, TABLE)
    assert [(s.batch, s.attempt, s.snapshot_id) for s in staging.batches] == [
        (1, "a3", staging.snapshot_id), (2, "a2", staging.snapshot_id),
    ]  # fmt: skip
    kit.stage(1, "a4", 1, finished=False)  # the newest snapshot does not have the rows that were counted
    assert [s.batch for s in kit.port.staging.read_staging(STAGED, TABLE).batches] == [2]
    assert [s.batch for s in kit.port.staging.list_staged(STAGED, TABLE)] == [1, 2]


@pytest.mark.repeats(
    "test_clean_up_removes_old_batches_with_rows_snapshots_and_bytes_and_keeps_the_newer_one[bigquery]", "bigquery"
)
def test_dropped_intermediate_table_is_gone_with_its_files(kit: Kit) -> None:
    kit.stage(1, "a1", 2)
    place = kit.load(STAGED).location() if kit.load else ""
    folder = kit.bytes_on_disk(STAGED)[0].parents[2] if kit.bytes_on_disk and not kit.load else None
    kit.port.staging.drop(STAGED)
    kit.port.staging.drop(STAGED)
    assert kit.port.staging.read_staging(STAGED, TABLE) is None
    assert folder is None or not folder.exists()
    assert kit.files_below is None or kit.files_below(place) == []


@pytest.mark.repeats(
    "test_clean_up_removes_old_batches_with_rows_snapshots_and_bytes_and_keeps_the_newer_one[bigquery]", "bigquery"
)
def test_intermediate_table_that_has_changed_since_stays(kit: Kit) -> None:
    kit.stage(1, "a1", 2)
    assert not kit.port.staging.drop_unused(STAGED, 0)
    assert kit.port.staging.read_staging(STAGED, TABLE) is not None
    # where Spark does not write it, staged rows expire by themselves
    is_dropped = kit.insert is None
    assert kit.port.staging.drop_unused(STAGED, 4_000_000_000_000) == is_dropped
    assert (kit.port.staging.read_staging(STAGED, TABLE) is None) == is_dropped
    assert not kit.port.staging.drop_unused(STAGED, 4_000_000_000_000)


def test_backfills_of_a_table_are_found_by_the_names_of_their_tables(kit: Kit) -> None:
    assert kit.port.history.list_backfills(TABLE, PIPELINE) == []
    kit.create()
    kit.note(f"{TABLE}_{PIPELINE}_backfill_1_tmp", "one")
    kit.note(f"{TABLE}_other_backfill_2_tmp", "two")
    kit.note(f"{TABLE}_{PIPELINE}_tmp", "three")
    for number, own in ((3, replace(OWN_STAGED, pipeline=f"{PIPELINE}_backfill_3")), (4, OWN_STAGED)):
        marks = own.labels if kit.insert is not None else own.properties
        kit.note(f"{TABLE}_{PIPELINE}_backfill_{number}_tmp", f"of {own.pipeline}", marks)
    assert kit.port.history.list_backfills(TABLE, PIPELINE) == [f"of {PIPELINE}"]


@pytest.mark.guard(
    "slices that were applied under another pipeline file do not count",
    file="plugins/tidegate/adapters/iceberg/history.py",
    text="        if properties.get(SHAPE_PROPERTY) != shape:\n",
    off="        if False:\n",
    case="iceberg",
)
def test_slices_that_are_applied_stand_in_the_backfills_own_table_for_its_shape(kit: Kit) -> None:
    table = f"{TABLE}_{PIPELINE}_backfill_1_tmp"
    assert kit.port.history.list_applied_slices(table, "0af3") == frozenset()
    for _ in range(2):
        kit.make_staging(table, "0af3")
        assert kit.port.history.list_applied_slices(table, "0af3") == frozenset()
        for number in (12, 3, 3):
            kit.port.history.mark_applied(table, number)
        assert (
            kit.port.history.list_applied_slices(table, "0af3"),
            kit.port.history.list_applied_slices(table, "other"),
        ) == (
            {3, 12},
            frozenset(),
        )
        kit.port.staging.drop(table)
    assert kit.port.history.list_applied_slices(table, "0af3") == frozenset()


@write_documents
@require_branches
def test_forget_takes_one_backfills_branches_and_mark_and_nothing_else(kit: Kit) -> None:
    ours = kit.seed_table().merge_branch(FIRST)
    kit.port.commits.publish(
        replace(
            kit.merge_branch(SECOND, attempt="m2", carries_position=False),
            tag=None,
            properties={"tidegate.shop.backfill.1": "x"},
        )
    )
    for branch in (
        resource_names.name_backfill_branch(PIPELINE, "1", number=3, attempt="a"),
        resource_names.name_backfill_branch(PIPELINE, "2", number=3, attempt="a"),
    ):
        kit.port.commits.start_branch(TABLE, kit.state(), branch)
    before = kit.state()
    kit.port.history.forget_backfill(TABLE, PIPELINE, "1")
    kit.port.history.forget_backfill("lake.shop.gone", PIPELINE, "1")
    assert (
        kit.port.commits.read_head(TABLE, resource_names.name_backfill_branch(PIPELINE, "1", number=3, attempt="a"))
        is None
    )
    assert (
        kit.port.commits.read_head(TABLE, resource_names.name_backfill_branch(PIPELINE, "2", number=3, attempt="a"))
        is not None
    )
    assert kit.port.commits.read_head(TABLE, ours.branch) is not None
    assert kit.state() == replace(before, marks={k: v for k, v in before.marks.items() if "backfill" not in k})


@require_branches
def test_clean_up_of_a_flush_leaves_branches_of_a_backfill_that_is_not_gone(kit: Kit) -> None:
    ids = ("0123456789", "abcdefabcd", "replay")
    branches = [resource_names.name_backfill_branch(PIPELINE, backfill, number=1, attempt="a") for backfill in ids]
    branches += [resource_names.name_backfill_branch("other", ids[0], number=1, attempt="a")]
    state = kit.seed_table().state()
    for branch in branches:
        kit.port.commits.start_branch(TABLE, state, branch)
    assert kit.port.commits.drop_branches(TABLE, PIPELINE, 99, keep_all) == 0
    assert kit.port.commits.drop_branches(TABLE, PIPELINE, 0, {*ids[:2]}.__contains__) == 2
    heads = [kit.port.commits.read_head(TABLE, branch) is not None for branch in branches]
    assert heads == [False, False, True, True]
    assert kit.port.commits.drop_branches(TABLE, PIPELINE, 0, drop_all) == 1


# history


def test_history_comes_newest_first_and_is_limited(kit: Kit) -> None:
    control = resource_names.name_control_table(build_pipeline(build_table(TABLE)))
    assert kit.port.history.read_history(control, 5) == []
    for batch in (1, 2, 3):
        kit.port.history.append_history(control, build_history_row(batch))
    assert [row["batch"] for row in kit.port.history.read_history(control, 2)] == [3, 2]
    assert kit.port.history.read_history(control, 1) == [build_history_row(3)]
    # merged as one, so at one time
    merged_as_one = [{**build_history_row(batch), "published_at_ms": 9_999} for batch in (4, 5, 6)]
    kit.port.history.append_history(control, *merged_as_one)
    assert kit.port.history.read_history(control, 4) == [*merged_as_one[::-1], build_history_row(3)]


# on BigQuery it asks for the order alone; files and snapshots are counted on Iceberg
@pytest.mark.repeats("test_history_comes_newest_first_and_is_limited[bigquery]", "bigquery")
def test_history_of_many_batches_is_kept_whole_in_few_files(kit: Kit) -> None:
    control = resource_names.name_control_table(build_pipeline(build_table(TABLE)))
    for batch in range(1, 56):
        kit.port.history.append_history(control, build_history_row(batch))
    assert [row["batch"] for row in kit.port.history.read_history(control, 100)] == list(range(55, 0, -1))
    if kit.load is not None:
        table = kit.load(control)
        assert len(list(table.scan().plan_files())) < 10
        assert len(table.metadata.snapshots) <= 20


UNKNOWN = '{"records": 2, "fields": {"zip": [2, "STRING"]}, "others": 0}'


def build_history_row(batch: int) -> dict[str, Any]:
    numbers = ("span", *RECORD_COUNTS, "inserted", "updated", "deleted", "staged_bytes", *COST_COUNTS)
    return {
        "batch": batch, "published_at_ms": 1000 + batch, "table": TABLE, "attempt": "a", "ranges": "{}", "seconds": 0.5,
        "stage_seconds": 0.25, "staged_snapshot_id": 2**62 + batch, "snapshot_id": 2**62, "valid_through_ms": None,
        "backfill": None, "written_as": "merge", "unknown_fields": UNKNOWN, "run": "dag r1",
        **dict.fromkeys(numbers, 1),
    }  # fmt: skip


@pytest.mark.repeats("test_verbs_on_a_table_that_vanished_tell_what_to_do[iceberg]", "bigquery")
def test_verbs_on_a_table_that_vanished_tell_what_to_do(kit: Kit) -> None:
    table_commit = kit.seed_table().merge_branch(FIRST)
    missing_table = replace(table_commit, table="lake.shop.gone")
    with pytest.raises(TidegateError, match=r"table=lake.shop.gone"):
        kit.port.commits.publish(missing_table)
    if kit.port.commits.has_branches(TABLE):
        with pytest.raises(TidegateError, match=r"table=lake.shop.gone"):
            kit.port.commits.drop_branch("lake.shop.gone", "tidegate_shop_1_a")
        assert kit.port.commits.drop_branches("lake.shop.gone", PIPELINE, 1, keep_all) == 0
