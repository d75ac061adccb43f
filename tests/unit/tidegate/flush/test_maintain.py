"""maintain: what is worth rewriting, what must never expire, and what a failure in part tells."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fakes import World, build_pipeline
from fakes.counted import Calls
from tidegate.errors import ConfigurationError, GiveUp, RetryLater
from tidegate.flush.flush import flush
from tidegate.flush.maintain import EXPECTED_COMMITS_MEANWHILE, list_maintained_tables, maintain, needs_compaction
from tidegate.jobs.maintain_job import MaintainJob
from tidegate.model.table_state import TableFiles
from tidegate.spec.runtime import Maintenance

NAME, INTERMEDIATE = "lake.shop.orders", "lake.shop.orders_shop_tmp"
PIPELINE = build_pipeline(maintenance=Maintenance(keep_snapshots=1))


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    for key in "abcdef":
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"})
        flush(world.open_session(PIPELINE))
    return world


def publish_one_more(world: World) -> None:
    world.broker.produce("orders", {"id": "z"}, {"id": "z", "name": "x"})
    flush(world.open_session(PIPELINE))


def list_statements(world: World, table: str = NAME, pipeline=PIPELINE) -> dict[str, dict]:
    maintain(world.open_session(pipeline), table)
    (job,) = [job for job in world.engine.jobs if isinstance(job, MaintainJob)][-1:]
    return {name: json.loads(text) for name, text in job.statements.items()}


def test_every_table_of_a_pipeline_that_exists_is_maintained(world: World) -> None:
    assert list_maintained_tables(world.open_session(PIPELINE)) == [NAME, INTERMEDIATE]
    assert list_maintained_tables(World().open_session(PIPELINE)) == []


def test_list_of_what_is_maintained_measures_no_table(world: World) -> None:
    """A measurement opens hundreds of manifests; each table is measured when its turn comes."""
    calls = Calls()
    list_maintained_tables(world.open_session(PIPELINE, calls.count_call))
    assert calls.by_step["flush"]["tables.read_files"] == 0


def test_table_that_does_not_exist_is_told() -> None:
    with pytest.raises(GiveUp, match="no such table"):
        maintain(World().open_session(PIPELINE), NAME)


def test_rows_position_and_tag_stay_and_snapshots_go(world: World) -> None:
    rows, before = world.read_rows(NAME), world.destination.read_state(NAME, "shop")
    results = maintain(world.open_session(PIPELINE), NAME)
    after = world.destination.read_state(NAME, "shop")
    assert results.compacted
    assert results.before.data_files > results.after.data_files
    assert world.read_rows(NAME) == rows
    assert (after.position, after.is_rolled_back) == (before.position, False)


def test_maintenance_twice_finds_nothing_left_to_rewrite(world: World) -> None:
    maintain(world.open_session(PIPELINE), NAME)
    assert not maintain(world.open_session(PIPELINE), NAME).compacted


def test_of_an_intermediate_table_only_orphans_are_removed(world: World) -> None:
    assert list(list_statements(world, INTERMEDIATE)) == ["orphans"]


@pytest.mark.parametrize(("table", "statements"), [(NAME, ["compact", "expire"]), (INTERMEDIATE, [])])
def test_files_of_other_tables_below_its_location_are_taken_for_no_orphans(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, table: str, statements: list[str]
) -> None:
    read_files = world.destination.read_files

    def measure(name: str, exact: bool = False) -> TableFiles | None:
        files = read_files(name)
        return files and replace(files, nested_tables=("lake.shop.orders_2025",) if exact else ())

    monkeypatch.setattr(world.destination, "read_files", measure)
    assert list(list_statements(world, table)) == statements
    assert f"table={table}: tables=lake.shop.orders_2025 have their files below its location" in caplog.text
    assert maintain(world.open_session(PIPELINE), table).orphans_removed == 0


@pytest.mark.parametrize(("table", "statements"), [(NAME, ["compact"]), (INTERMEDIATE, [])])
def test_nothing_is_removed_from_a_table_whose_files_others_may_use(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, table: str, statements: list[str]
) -> None:
    read_files = world.destination.read_files
    monkeypatch.setattr(
        world.destination,
        "read_files",
        lambda name, exact=False: replace(read_files(name, exact), forbids_file_deletion=True),
    )
    assert list(list_statements(world, table)) == statements
    assert f"table={table}: its property gc.enabled says that other tables may use its files" in caplog.text


@pytest.mark.parametrize(("table", "statements"), [(NAME, ["compact", "expire"]), (INTERMEDIATE, [])])
def test_orphans_are_not_looked_for_where_no_file_is(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, table: str, statements: list[str]
) -> None:
    """Iceberg's procedure lists the location, which is not there: each maintenance failed."""
    read_files = world.destination.read_files
    monkeypatch.setattr(
        world.destination, "read_files", lambda name, exact=False: replace(read_files(name, exact), has_location=False)
    )
    assert list(list_statements(world, table)) == statements
    assert "orphans stay" not in caplog.text


def test_orphans_are_looked_for_where_only_new_files_lie_elsewhere(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The paths were set long after the first files."""
    read_files = world.destination.read_files
    paths = ("write.data.path", "write.metadata.path")
    monkeypatch.setattr(
        world.destination,
        "read_files",
        lambda name, exact=False: replace(read_files(name, exact), paths_elsewhere=paths),
    )
    assert list(list_statements(world, NAME)) == ["compact", "expire", "orphans"]
    assert f"orphans stay where write.data.path or write.metadata.path puts files: pipeline=shop table={NAME}" in (
        caplog.text
    )


def test_limits_are_counted_back_from_now(world: World) -> None:
    world.clock.ms = 10 * 86_400_000
    publish_one_more(world)
    statements = list_statements(world)
    assert statements["expire"]["older_than"] == "1970-01-06 00:00:00"
    assert statements["orphans"]["older_than"] == "1970-01-08 00:00:00"


@pytest.mark.parametrize(
    ("kept_snapshots", "kept_ms", "older_than"),
    [
        (0, 0, "1970-04-06 00:00:00"),
        (3, 86_400_000, "1970-04-06 00:00:00"),
        (40, 90 * 86_400_000, "1970-01-11 00:00:00"),
        (40, 2**63 - 1, "1970-01-01 00:00:00"),
    ],
)
def test_what_the_table_itself_keeps_longer_does_not_expire(
    world: World, monkeypatch: pytest.MonkeyPatch, kept_snapshots: int, kept_ms: int, older_than: str
) -> None:
    world.clock.ms = 100 * 86_400_000
    publish_one_more(world)
    read_files = world.destination.read_files

    def measure(name: str, exact: bool = False) -> TableFiles | None:
        files = read_files(name)
        return files and replace(files, kept_snapshots=kept_snapshots, kept_ms=kept_ms)

    monkeypatch.setattr(world.destination, "read_files", measure)
    expire = list_statements(world)["expire"]
    retained = max(kept_snapshots, EXPECTED_COMMITS_MEANWHILE + 1)
    assert (expire["older_than"], expire["retain_last"]) == (older_than, retained)


def test_snapshots_between_main_and_the_last_published_one_are_kept(world: World) -> None:
    for _ in range(30):
        world.destination.append_foreign_rows(NAME)
    assert list_statements(world)["expire"]["retain_last"] == 31 + EXPECTED_COMMITS_MEANWHILE
    assert not world.destination.read_state(NAME, "shop").is_rolled_back


@pytest.mark.guard(
    "expiry keeps the snapshots between a branch and the last publish",
    file="plugins/tidegate/flush/maintain.py",
    text="ms if at_most_ms is None else min(ms, at_most_ms)",
    off="ms",
)
def test_snapshots_that_others_add_during_a_long_compaction_do_not_cut_the_last_published_one_off(world: World) -> None:
    world.clock.ms += 3_600_000
    publish_one_more(world)
    for _ in range(5):
        world.destination.append_foreign_rows(NAME)
    world.clock.ms += 30 * 86_400_000  # a pipeline that has been quiet for long
    before, maintained = world.destination.read_state(NAME, "shop"), world.engine._maintain

    def slowly(name: str, statement: dict) -> dict:
        outcome = maintained(name, statement)
        if name == "compact":
            for _ in range(10 * EXPECTED_COMMITS_MEANWHILE):
                world.destination.append_foreign_rows(NAME)
        return outcome

    world.engine._maintain = slowly
    snapshots = len(world.destination.tables[NAME].snapshots)
    assert maintain(world.open_session(PIPELINE), NAME).compacted
    after = world.destination.read_state(NAME, "shop")
    assert (after.position, after.is_rolled_back) == (before.position, False)
    assert (
        len(world.destination.tables[NAME].snapshots) == 1 + 5 + 1 + 10 * EXPECTED_COMMITS_MEANWHILE
    )  # what is older still goes
    assert snapshots > 6


def test_each_way_out_of_a_rollback_is_left_until_somebody_takes_one(world: World) -> None:
    for _ in range(2):
        world.destination.append_foreign_rows(NAME)
    rolled_back_to = world.destination.read_state(NAME, "shop").snapshot_id
    publish_one_more(world)
    publish_one_more(world)
    world.destination.rollback(NAME, rolled_back_to)
    for _ in range(50):
        world.destination.append_foreign_rows(NAME)
    before = (world.destination.read_state(NAME, "shop"), world.destination.find_rollback(NAME, "shop"))
    world.clock.ms += 30 * 86_400_000
    for _ in range(50):
        world.destination.append_foreign_rows(NAME)
        world.clock.ms += 3_600_000
    assert "expire" in list_statements(world)
    after, rollback = world.destination.read_state(NAME, "shop"), world.destination.find_rollback(NAME, "shop")
    assert (after.position, after.is_untraceable) == (before[0].position, False)
    assert rollback.returning_snapshots == before[1].returning_snapshots


@pytest.mark.parametrize(("age_days", "expires"), [(29, False), (31, True), (None, True)])
def test_retention_of_a_branch_that_would_cut_the_last_published_snapshot_off_lets_nothing_expire(
    world: World, age_days: int | None, expires: bool
) -> None:
    world.clock.ms += 30 * 86_400_000

    class OwnRetention:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.destination, name)

        def read_files(self, table: str, exact: bool = False) -> TableFiles:
            age_ms = None if age_days is None else age_days * 86_400_000
            return replace(world.destination.read_files(table), branch_age_ms=age_ms)

    maintain(world.open_session(PIPELINE, destination=OwnRetention()), NAME)
    (job,) = [job for job in world.engine.jobs if isinstance(job, MaintainJob)]
    assert ("expire" in job.statements) is expires


@pytest.mark.parametrize(
    ("compact", "files", "is_needed"),
    [
        ("never", TableFiles(small_files=99, max_small_files_per_partition=99, delete_files=99), False),
        ("always", TableFiles(data_files=1, rows=1), True),
        ("auto", TableFiles(data_files=4, small_files=4, max_small_files_per_partition=4, rows=9), False),
        ("auto", TableFiles(data_files=5, small_files=5, max_small_files_per_partition=5, rows=9), True),
        ("auto", TableFiles(data_files=50, small_files=50, max_small_files_per_partition=1, rows=9), False),
        ("auto", TableFiles(data_files=1, rows=1000, delete_files=9, deleted_rows=100), False),
        ("auto", TableFiles(data_files=1, rows=1000, delete_files=10, deleted_rows=10), True),
        ("auto", TableFiles(data_files=1, rows=1000, delete_files=1, deleted_rows=101), True),
        ("auto", TableFiles(), False),
    ],
)
def test_files_are_rewritten_where_it_is_measured_to_be_worth_it(compact, files, is_needed) -> None:
    assert needs_compaction(Maintenance(compact=compact), files) is is_needed


def test_maintenance_counts_all_small_files_and_not_those_of_the_newest_manifests_alone(world: World) -> None:
    def read_files(table: str, exact: bool = False) -> TableFiles:
        return TableFiles(data_files=9, small_files=9, max_small_files_per_partition=5 if exact else 4, rows=9)

    world.destination.read_files = read_files
    maintain(world.open_session(PIPELINE), NAME)
    (job,) = [job for job in world.engine.jobs if isinstance(job, MaintainJob)]
    assert "compact" in job.statements


class _Told(World):
    """A world whose Spark leaves the given outcome instead of its own."""

    def __init__(self, outcome: dict) -> None:
        super().__init__()
        self.outcome = outcome

    def run(self, job: MaintainJob) -> None:
        outcome_text = json.dumps({"attempt": job.attempt, **self.outcome})
        self.destination.tables[job.table].properties[job.property] = outcome_text


def test_right_that_the_store_refused_to_a_procedure_is_for_a_person() -> None:
    refusal = "Job aborted: the object store: s3:PutObject: Access Denied (Service: S3, Status Code: 403)"
    engine = _Told({"compact": {"failed": refusal}, "expire": {"failed": "conflicting commit"}})
    engine.destination.create(NAME, ())
    with pytest.raises(ConfigurationError, match=r"maintenance: compact: Spark was refused a right by .* s3:PutObject"):
        maintain(engine.open_session(PIPELINE, engine=engine), NAME)


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ({"compact": {"failed": "conflicting commit"}, "expire": {"rows": 1}}, "compact: conflicting commit"),
        ({"attempt": "another"}, "another maintenance ran at the same time"),
    ],
)
def test_what_failed_is_told_and_tried_again(outcome: dict, message: str) -> None:
    world = _Told(outcome)
    world.destination.create(NAME, ())
    with pytest.raises(RetryLater, match=message):
        maintain(world.open_session(PIPELINE, engine=world), NAME)
