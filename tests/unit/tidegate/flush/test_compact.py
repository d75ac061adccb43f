"""compact: behind which batches tables are looked at, what is then rewritten, and what is left to maintenance."""

import json

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.flush.clean_up import DISABLED_COUNT, CleanUpReport, CompactionReport, clean_up, compact, is_due
from tidegate.flush.flush import flush
from tidegate.jobs.maintain_job import MaintainJob
from tidegate.model.table_state import TableFiles
from tidegate.spec.runtime import Maintenance

NAME = "lake.shop.orders"
PIPELINE = build_pipeline(maintenance=Maintenance(compact_every=3))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    return world


def publish(world: World, *keys: str) -> None:
    for key in keys:
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"})
        flush(world.open_session(PIPELINE))


def list_maintain_jobs(world: World) -> list[MaintainJob]:
    return [job for job in world.engine.jobs if isinstance(job, MaintainJob)]


class _Measured(World):
    """A world whose table consists of the files that a test says, and whose Spark answers as it says."""

    def __init__(self, files: TableFiles | None, **outcome: dict) -> None:
        super().__init__()
        self.measured, self.outcome, self.asked = files, outcome, dict[str, dict]()
        self.destination.create(NAME, ())
        self.destination.read_files = lambda _: self.measured

    def run(self, job: MaintainJob) -> None:
        self.asked = {name: json.loads(text) for name, text in job.statements.items()}
        statement_counts = {name: {"rows": 0} for name in job.statements}
        outcome_text = json.dumps({"attempt": job.attempt, **statement_counts, **self.outcome})
        self.destination.tables[job.table].properties[job.property] = outcome_text

    def compacts(self, pipeline=PIPELINE) -> tuple[CompactionReport, dict[str, dict]]:
        (report,) = compact(self.open_session(pipeline, engine=self), [NAME])
        return report, self.asked


def test_clean_up_tells_behind_every_so_many_batches_that_the_table_should_be_measured(world: World) -> None:
    due_flags = []
    for key in "abcdefg":
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"})
        session = world.open_session(PIPELINE)
        clean = session.staging.clean_up
        cleanups: list[dict[str, int]] = []
        session.staging.clean_up = lambda *arguments, clean=clean, cleanup_counts=cleanups: (
            cleanup_counts.append(clean(*arguments)) or cleanup_counts[-1]
        )
        flush(session)
        due_flags.append(is_due(PIPELINE.maintenance, len(due_flags) + 1, cleanups[0]["batches"]))
        session.staging.clean_up = clean
    assert due_flags == [False, False, True, False, False, True, False]


def test_a_run_that_publishes_nothing_finds_nothing_due(world: World) -> None:
    publish(world, "a", "b", "c")
    (report,) = clean_up(world.open_session(PIPELINE))
    assert (report.published, report.needs_compaction) == (3, False)


@pytest.mark.parametrize(
    ("published", "batches", "due"),
    [(3, 1, True), (4, 1, False), (4, 2, True), (5, 2, False), (8, 3, True), (9, 0, False), (2, 2, False)],
)
def test_queues_of_batches_are_due_where_they_pass_the_number(published: int, batches: int, due: bool) -> None:
    assert is_due(PIPELINE.maintenance, published, batches) is due


def test_tables_that_take_turns_become_due_alike(world: World, clean_up_reports: list[CleanUpReport]) -> None:
    """Their batches have numbers of one row: one table's are all odd, and none of them is a tenth."""
    copy = build_table("lake.shop.copy", topics=("payments",))
    pipeline = build_pipeline(build_table(NAME), copy, maintenance=Maintenance(compact_every=10))
    world.broker.create("payments")
    due: dict[str, list[int | None]] = {NAME: [], copy.name: []}
    for number in range(44):
        world.broker.produce(("orders", "payments")[number % 2], {"id": "a"}, {"id": "a", "name": str(number)})
        flush(world.open_session(pipeline))
    for report in clean_up_reports:
        due[report.table] += [report.published] if report.needs_compaction else []
    assert due == {NAME: [11, 21, 31, 41], copy.name: [10, 20, 30, 40]}


@pytest.mark.parametrize(
    "settings", [Maintenance(compact_every=0), Maintenance(compact_every=-1), Maintenance(compact="never")]
)
def test_nothing_is_due_where_the_clock_alone_or_nothing_compacts(settings: Maintenance) -> None:
    assert not settings.follows_flushes
    assert not any(is_due(settings, number, 1) for number in range(1, 40))


def test_rows_position_and_tag_stay(world: World) -> None:
    publish(world, *"abcdef")
    rows, before = world.read_rows(NAME), world.destination.read_state(NAME, "shop")
    (result,) = compact(world.open_session(PIPELINE), [NAME])
    after = world.destination.read_state(NAME, "shop")
    assert result.maintenance_report is not None
    assert result.is_compacted
    assert result.maintenance_report.before.data_files > result.maintenance_report.after.data_files == 1
    assert (world.read_rows(NAME), after.position, after.is_rolled_back) == (rows, before.position, False)
    assert compact(world.open_session(PIPELINE), [NAME]) == [CompactionReport(table=NAME)]


def test_snapshots_and_orphans_are_left_to_maintenance(world: World) -> None:
    publish(world, *"abcdef")
    compact(world.open_session(PIPELINE), [NAME])
    assert [list(job.statements) for job in list_maintain_jobs(world)] == [["compact"]]


@pytest.mark.parametrize(
    ("files", "expected_actions"),
    [
        (TableFiles(), []),
        (TableFiles(data_files=4, small_files=4, max_small_files_per_partition=4, rows=9, delete_files=4), []),
        (TableFiles(data_files=5, small_files=5, max_small_files_per_partition=5, rows=9), ["compact"]),
        (TableFiles(data_files=9, small_files=9, max_small_files_per_partition=4, rows=9), []),
        (TableFiles(data_files=9, small_files=9, max_small_files_per_partition=9, rows=9, delete_files=9), ["compact"]),
        (
            TableFiles(data_files=9, small_files=9, max_small_files_per_partition=9, rows=9, delete_files=10),
            ["compact"],
        ),
        (TableFiles(data_files=9, small_files=8, max_small_files_per_partition=8, rows=9, delete_files=9), ["compact"]),
        (
            TableFiles(data_files=9, small_files=8, max_small_files_per_partition=8, rows=9, delete_files=10),
            ["compact", "deletes"],
        ),
        (TableFiles(data_files=1, rows=1000, delete_files=5, deleted_rows=100), ["deletes"]),
        (TableFiles(data_files=1, rows=1000, delete_files=1, deleted_rows=101), ["compact"]),
        (TableFiles(data_files=1, rows=1000, manifests=50), ["manifests"]),
        (TableFiles(data_files=1, rows=1000, manifests=49), []),
        (TableFiles(data_files=1, rows=1000, manifests=99, full_manifests=50), []),
        (TableFiles(data_files=1, rows=1000, manifests=100, full_manifests=50), ["manifests"]),
        (TableFiles(data_files=1, rows=1000, manifests=400, full_manifests=340), []),
    ],
)
def test_what_is_rewritten_follows_what_is_measured(files: TableFiles, expected_actions: list[str]) -> None:
    report, requests = _Measured(files).compacts()
    assert list(requests) == expected_actions
    assert report.is_compacted is ("compact" in expected_actions)


def test_large_files_are_rewritten_for_the_share_of_their_deletes_and_never_for_the_number_of_delete_files() -> None:
    _, requests = _Measured(TableFiles(data_files=1, rows=1000, delete_files=99, deleted_rows=101)).compacts()
    assert (requests["compact"]["delete_files"], requests["compact"]["deleted_share"]) == (DISABLED_COUNT, 0.1)


def test_a_branch_is_not_rewritten() -> None:
    branched = build_pipeline(build_table(branch="audit"))
    report, requests = _Measured(TableFiles(data_files=9, small_files=9, max_small_files_per_partition=9)).compacts(
        branched
    )
    assert (report, requests) == (CompactionReport(table=NAME), {})


def test_a_table_that_is_gone_has_nothing_to_rewrite() -> None:
    assert _Measured(None).compacts() == (CompactionReport(table=NAME), {})


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ({"compact": {"failed": "conflicting commit"}}, "compact: conflicting commit"),
        ({"attempt": "another"}, "another maintenance ran at the same time"),
    ],
)
def test_a_failure_is_told_and_fails_no_flush(outcome: dict, message: str, caplog) -> None:
    report, _ = _Measured(
        TableFiles(data_files=5, small_files=5, max_small_files_per_partition=5), **outcome
    ).compacts()
    assert not report.is_compacted
    assert message in report.failed
    assert "compaction failed, a later flush tries again: pipeline=shop table=lake.shop.orders" in caplog.text


def test_one_table_that_cannot_be_looked_at_holds_up_no_other() -> None:
    world = _Measured(TableFiles(data_files=5, small_files=5, max_small_files_per_partition=5))

    def files(table: str) -> TableFiles | None:
        if table == "lake.shop.broken":
            raise OSError("the catalog does not answer")
        return world.measured

    world.destination.read_files = files
    result = compact(world.open_session(PIPELINE, engine=world), ["lake.shop.broken", NAME])
    assert [(one.failed is not None, one.is_compacted) for one in result] == [(True, False), (False, True)]
    assert list(world.asked) == ["compact"]
