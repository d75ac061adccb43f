"""Every point of every step, every fault, in memory: the next runs give what an uninterrupted one gives.

Protocol, what must hold: 1. The same walk on real components: tests/crash, and a covering set in tests/integration.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from crash.memory import (
    NAMED,
    SHAPES,
    SITUATIONS,
    TOPIC,
    Run,
    Situation,
    approve_until_current,
    arrange_approved_batch,
    arrange_batch_without_rows,
    arrange_changed_file_ahead,
    arrange_held_batch,
    arrange_later_batch,
    arrange_rollback_ahead,
    arrange_staged_ahead,
    build_crash_pipeline,
    build_world,
    die,
    drain,
    list_leftovers,
    list_passed_points,
    read_outcome,
    rest,
    run_both_clocks,
    set_two_clocks,
)
from crash.points import Broken, Journey, Point, build_fault, choose_cases, list_cases
from examples import choose_walk_cases
from fakes import Crash, World
from tidegate.errors import TidegateError
from tidegate.flush.flush import flush
from tidegate.reprocess.rebase import propose_moves, rebase_position
from tidegate.spec.pipeline import Pipeline, RollbackPolicy
from tidegate.spec.table import Approve

ROOT = Path(__file__).parents[2]

# Every call by which a step touches the world, and every place inside of jobs, over all situations below. A step that
# learns a new call, or a job a new effect, is listed here, and some situation must reach it.
POINTS = {
    "plan": [
        "broker.read_log", "staging.find_highest_batch", "staging.list_signed_attempts", "staging.list_staged",
        "tables.read_state",
    ],
    "stage": [
        "broker.read_log", "commits.append_empty", "commits.start_branch", "commits.has_branches",
        "commits.read_head",
        "tables.claim", "staging.find_landing_folder", "staging.complete_attempt",
        "commits.publish", "commits.seed", "staging.list_staged",
        "tables.read_state", "engine.run", "job.counted", "job.created", "job.decoded",
        "job.named", "job.overwritten", "tables.list_folder_limits",
    ],
    "merge": [
        "commits.append_empty", "staging.read_job_answers", "tables.find_bounds", "tables.claim",
        "commits.start_branch",
        "dead_letters.count_letters_of_others", "tables.evolve", "commits.has_branches",
        "commits.read_head",
        "commits.publish", "commits.fast_forward", "commits.note",
        "commits.seed", "commits.find_snapshots", "tables.read_state", "engine.run", "job.audited",
        "job.statement",
    ],
    "batch_history": ["history.append_history"],
    # between two merges of a queue, and where records name tables, which are looked for once
    "flush": ["staging.holds_rows", "staging.list_staged", "tables.read_state", "tables.list_tables"],
    "commit_offsets": [
        "broker.commit", "broker.read_topic_ids", "staging.list_staged", "tables.read_state", "group.committed",
    ],
    "clean_up": [
        "staging.clean_up", "commits.drop_branches", "tables.forget_deletes",
        "commits.has_branches", "tables.list_pipelines", "tables.read_state",
    ],
    "heartbeat": [
        "broker.commit", "broker.read_end_offsets", "broker.read_log", "broker.read_newest_timestamps",
        "broker.read_topic_ids",
        "staging.list_staged", "tables.read_state", "tables.read_property",
        "commits.list_rolled_back",
        "group.committed",
    ],
    "rebase": [
        "broker.read_log", "commits.append_empty", "commits.start_branch", "commits.has_branches",
        "commits.read_head",
        "commits.publish",
        "staging.find_highest_batch",
        "staging.list_staged", "tables.read_state",
    ],
}  # fmt: skip

# Every place inside of a job or an adapter, by file.
PLACES = {
    "jobs/tidegate_spark/merge/maintain_job.py": ["job.maintained"],
    "jobs/tidegate_spark/merge/job.py": ["job.audited", "job.statement"],
    "jobs/tidegate_spark/publish/job.py": ["job.compared", "job.produced"],
    "jobs/tidegate_spark/stage/job.py": [
        "job.counted",
        "job.counts_left",
        "job.created",
        "job.decoded",
        "job.named",
        "job.overwritten",
        "job.rows_left",
    ],
    "plugins/tidegate/adapters/bigquery/destination.py": ["job.statement"],
    "plugins/tidegate/adapters/bigquery/catalog.py": [
        "bigquery.answered",
        "bigquery.sent",
    ],
    "plugins/tidegate/adapters/bigquery/history.py": ["history.appended", "history.opened"],
    "plugins/tidegate/adapters/bigquery/commit.py": ["bigquery.positions_created"],
    "plugins/tidegate/adapters/bigquery/staging.py": [
        "bigquery.landed",
        "bigquery.load_sent",
        "bigquery.loaded",
        "bigquery.marked",
        "bigquery.partition_dropped",
        "bigquery.signed",
        "clean_up.removed",
    ],
    "plugins/tidegate/adapters/iceberg/commit.py": ["catalog.committed"],
    "plugins/tidegate/adapters/iceberg/history.py": [
        "history.appended",
        "history.expired",
        "history.opened",
    ],
    "plugins/tidegate/adapters/iceberg/staging.py": ["clean_up.removed"],
    "plugins/tidegate/adapters/kafka/broker.py": ["group.committed"],
}


def interrupt_run(situation: Situation, pipeline: Pipeline, kind: str, at: Point, run: Run) -> World:
    """A run that meets a fault, as it leaves the world."""
    world = build_world(situation, pipeline)
    with (
        Journey(build_fault(kind, at, die)).inside() as journey,
        suppress(Crash, Broken, TidegateError),
    ):
        run(journey.open_session(world.open_session(pipeline)))
    assert at in journey.passed, f"{at} was never reached"
    return world


WRITTEN = re.compile(r'"([a-z_]+)/([a-z_]+\.[a-z_]+)(?::(?:before|after|inside):\d+)?"')
SUFFIXES_OF_FILES = (".proto", ".py", ".sh", ".yaml")
HIT = re.compile(r'hit_failpoint\("([a-z_.]+)"\)')


def test_every_point_that_a_test_writes_down_is_one_that_runs_pass() -> None:
    """The tests that kill a run there are long or slow: a call under its old name would be seen late."""
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    mentions = {point for text in texts for point in WRITTEN.findall(text)}
    call_mentions = {(step, call) for step, call in mentions if not call.endswith(SUFFIXES_OF_FILES)}
    code = [path.read_text() for folder in ("plugins", "jobs") for path in (ROOT / folder).rglob("*.py")]
    places = {place for text in code for place in HIT.findall(text)}
    passed_by = {(step, call) for step, calls in POINTS.items() for call in [*calls, *places]}
    assert ("merge", "commits.start_branch") in call_mentions
    assert call_mentions - passed_by == set()


@pytest.mark.parametrize(("mode", "tables"), SHAPES)
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda s: s.__name__)
def test_fault_at_any_point_is_recovered_by_the_next_runs(
    situation: Situation, mode: str, tables: int, record_property
) -> None:
    walk(
        situation, build_crash_pipeline(mode, tables), record_property, situation.__name__, SHAPES.index((mode, tables))
    )


@pytest.mark.parametrize("situation", NAMED, ids=lambda s: s.__name__)
def test_fault_at_any_point_where_records_name_their_tables_is_recovered_too(
    situation: Situation, record_property
) -> None:
    walk(situation, build_crash_pipeline("named", 0), record_property, "named", NAMED.index(situation))


CLOCKS = [*SITUATIONS, arrange_staged_ahead, arrange_changed_file_ahead, arrange_rollback_ahead]


@pytest.mark.parametrize(("mode", "tables"), SHAPES)
@pytest.mark.parametrize("situation", CLOCKS, ids=lambda s: s.__name__)
def test_fault_at_any_point_of_either_clock_is_recovered_by_the_next_runs_of_both(
    situation: Situation, mode: str, tables: int, record_property
) -> None:
    pipeline = replace(set_two_clocks(build_crash_pipeline(mode, tables)), on_rollback=RollbackPolicy.REWIND)
    walk(situation, pipeline, record_property, situation.__name__, mode, tables, run=run_both_clocks)


@pytest.mark.parametrize("situation", NAMED, ids=lambda s: s.__name__)
def test_fault_at_any_point_of_either_clock_where_records_name_their_tables_is_recovered_too(
    situation: Situation, record_property
) -> None:
    pipeline = set_two_clocks(build_crash_pipeline("named", 0))
    walk(situation, pipeline, record_property, "named", NAMED.index(situation), run=run_both_clocks)


PLAIN = build_crash_pipeline("upsert_delete", 2)
HELD = replace(PLAIN, tables=(PLAIN.tables[0], replace(PLAIN.tables[1], approve=Approve(rows_over=1), max_pending=2)))


@pytest.mark.parametrize("two_clocks", [False, True], ids=["one clock", "two clocks"])
@pytest.mark.parametrize("situation", [arrange_later_batch, arrange_held_batch, arrange_approved_batch])
def test_fault_at_any_point_around_a_held_batch_publishes_nothing_unapproved(
    situation: Situation, two_clocks: bool, record_property
) -> None:
    run = run_both_clocks if two_clocks else flush
    pipeline = set_two_clocks(HELD) if two_clocks else HELD
    copy = pipeline.tables[1].name
    before = build_world(situation, pipeline).read_rows(copy)
    undisturbed = build_world(situation, pipeline)
    rest(undisturbed, pipeline, run)
    allowed = undisturbed.read_rows(copy)
    assert (allowed == before) == (situation is not arrange_approved_batch)
    approve_until_current(undisturbed, pipeline, run)
    expected, points = read_outcome(undisturbed, pipeline), list_passed_points(situation, pipeline, run)
    assert list_leftovers(undisturbed, pipeline) == []
    assert any(point.name == "merge/commits.note" for point in points) == (situation is not arrange_held_batch)
    cases = choose_walk_cases(list_cases(points), situation.__name__, int(two_clocks))
    for at, kind in cases:
        world = interrupt_run(situation, pipeline, kind, at, run)
        assert world.read_rows(copy) in (before, allowed), f"{kind} at {at}"
        rest(world, pipeline, run)
        assert world.read_rows(copy) == allowed, f"{kind} at {at}"
        approve_until_current(world, pipeline, run)
        assert read_outcome(world, pipeline) == expected, f"{kind} at {at}"
        assert list_leftovers(world, pipeline) == [], f"{kind} at {at}"
    record_property("counted", {"crash points": len(points), "crash cases": len(cases)})


def walk(
    situation: Situation,
    pipeline: Pipeline,
    record_property: Callable[..., None],
    *selection: str | int,
    run: Run = flush,
) -> None:
    undisturbed = build_world(situation, pipeline)
    drain(undisturbed, pipeline)
    expected, points = read_outcome(undisturbed, pipeline), list_passed_points(situation, pipeline, run)
    assert list_leftovers(undisturbed, pipeline) == []
    walk_cases = choose_walk_cases(list_cases(points), *selection)
    for at, kind in walk_cases:
        world = interrupt_run(situation, pipeline, kind, at, run)
        drain(world, pipeline, run)
        assert read_outcome(world, pipeline) == expected, f"{kind} at {at}"
        assert list_leftovers(world, pipeline) == [], f"{kind} at {at}"
    record_property("counted", {"crash points": len(points), "crash cases": len(walk_cases)})


@pytest.mark.parametrize(
    ("situation", "run"),
    [(arrange_batch_without_rows, flush), (arrange_staged_ahead, run_both_clocks)],
    ids=["one clock", "two clocks"],
)
def test_rebase_that_meets_a_fault_at_any_point_moved_the_position_or_did_not(
    situation: Situation, run: Run, record_property
) -> None:
    pipeline = build_crash_pipeline("upsert_delete", 1)
    pipeline = set_two_clocks(pipeline) if run == run_both_clocks else pipeline

    def moved(meet: Callable[[Point], None]) -> tuple[World, Journey]:
        world = build_world(situation, pipeline)
        with Journey(meet).inside() as journey, suppress(Crash, Broken, TidegateError):
            session = journey.open_session(world.open_session(pipeline))
            for move in propose_moves(session, "earliest"):
                rebase_position(session, move, "ann")
        return world, journey

    _, journey = moved(lambda _: None)
    undisturbed = build_world(situation, pipeline)
    (before,) = read_outcome(undisturbed, pipeline)[1]
    drain(undisturbed, pipeline, run)
    for at, kind in list_cases(journey.passed):
        world, _ = moved(build_fault(kind, at, die))
        (start,) = read_outcome(world, pipeline)[1]
        assert start in ({TOPIC: {0: 0, 1: 0}}, before), f"{kind} at {at}"
        drain(world, pipeline, run)
        assert read_outcome(world, pipeline) == read_outcome(undisturbed, pipeline), f"{kind} at {at}"
        assert list_leftovers(world, pipeline) == [], f"{kind} at {at}"
    record_property("counted", {"crash points": len(journey.passed), "crash cases": len(list_cases(journey.passed))})


def test_two_covering_sets_have_every_place_each_and_every_fault_between_them() -> None:
    points = list_passed_points(arrange_later_batch, build_crash_pipeline("upsert_delete", 2))
    possible = {(at.place, kind) for at, kind in list_cases(points)}
    case_sets = [{(at.place, kind) for at, kind in choose_cases(points, turn)} for turn in (0, 1)]
    assert [sorted(place for place, _ in case_set) for case_set in case_sets] == [
        sorted({place for place, _ in possible})
    ] * 2
    assert set().union(*case_sets) == possible


def test_points_of_each_step_are_the_ones_that_are_listed() -> None:
    points = [
        p for situation in SITUATIONS for p in list_passed_points(situation, build_crash_pipeline("upsert_delete", 2))
    ]
    points += list_passed_points(arrange_later_batch, build_crash_pipeline("sequenced", 1))
    points += list_passed_points(arrange_later_batch, HELD)
    points += [p for situation in NAMED[:2] for p in list_passed_points(situation, build_crash_pipeline("named", 0))]
    world = build_world(arrange_later_batch, build_crash_pipeline("upsert_delete", 2))
    with Journey().inside() as journey:
        session = journey.open_session(world.open_session(build_crash_pipeline("upsert_delete", 2)))
        for move in propose_moves(session, "earliest"):
            rebase_position(session, move, "ann")
    calls_by_step: dict[str, set[str]] = {}
    for point in points + journey.passed:
        step, _, call = point.name.partition("/")
        calls_by_step.setdefault(step, set()).add(call)
    listed_points = {(step, call) for step, calls in POINTS.items() for call in calls}
    reached_points = {(step, call) for step, calls in calls_by_step.items() for call in calls}
    unlisted, unreached = sorted(reached_points - listed_points), sorted(listed_points - reached_points)
    assert not unlisted, f"a step touches the world in a new way: list it in POINTS: {unlisted}"
    assert not unreached, f"no situation reaches what POINTS lists: {unreached}"


def test_places_inside_of_jobs_and_adapters_are_the_ones_that_are_listed() -> None:
    files = [p for folder in ("jobs", "plugins") for p in (ROOT / folder).rglob("*.py")]
    calls_by_file = {p.relative_to(ROOT).as_posix(): list_failpoint_calls(ast.parse(p.read_text())) for p in files}
    assert {name: sorted(names) for name, names in calls_by_file.items() if names} == PLACES


def list_failpoint_calls(tree: ast.AST) -> list[str]:
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "hit_failpoint"]
    return [ast.literal_eval(call.args[0]) for call in sorted(calls, key=lambda c: c.lineno)]


EFFECTS = {"sql", "write", "writeTo", "execute"}
JOBS = {
    path.relative_to(ROOT / "jobs/tidegate_spark").as_posix(): path
    for path in sorted((ROOT / "jobs/tidegate_spark").rglob("*.py"))
}
del JOBS["session.py"]  # its one statement is `execute`, whose callers say what was reached


@pytest.mark.parametrize("path", JOBS.values(), ids=JOBS)
def test_every_effect_of_a_job_is_followed_by_a_point(path: Path) -> None:
    """A job ends where a statement ends; a line between two of them must be one where a test can end it."""
    tree = ast.parse(path.read_text())
    for block in list_blocks(tree):
        for statement, following in pairwise([*block, ast.Pass()]):
            if isinstance(statement, ast.Expr) and list_attributes(statement) & EFFECTS:
                assert list_failpoint_calls(following), (
                    f"{path.name}:{statement.lineno}: say hit_failpoint(...) behind this effect"
                )


def list_blocks(tree: ast.AST) -> list[list[ast.stmt]]:
    parts = [getattr(node, part, None) for node in ast.walk(tree) for part in ("body", "orelse", "finalbody")]
    return [part for part in parts if isinstance(part, list)]


def list_attributes(node: ast.AST) -> set[str]:
    """Attributes that are used; `sql` only where it is called, for columns have one too."""
    calls = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    call_names = {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in calls}
    return call_names | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr != "sql"}


TO_THE_WORLD = {
    "asyncio", "ftplib", "http", "io", "multiprocessing", "os", "pathlib", "shutil", "socket", "sqlite3", "subprocess",
    "tempfile", "threading", "urllib",
}  # fmt: skip


def test_steps_reach_the_world_through_ports_alone() -> None:
    """Else a line of a step could change something without passing a point."""
    for path in (ROOT / "plugins/tidegate").glob("steps/*.py"):
        tree = ast.parse(path.read_text())
        names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        names |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        open_calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "open"]
        assert not {name.partition(".")[0] for name in names} & TO_THE_WORLD, path.name
        assert not open_calls, path.name


def test_nothing_happens_at_a_point_unless_a_test_asks_for_it() -> None:
    counter: Counter[str] = Counter()
    with Journey(lambda point: counter.update([point.when])).inside():
        list_passed_points(arrange_later_batch, build_crash_pipeline("upsert_delete", 1))
    before = dict(counter)
    flush(
        build_world(arrange_later_batch, build_crash_pipeline("upsert_delete", 1)).open_session(
            build_crash_pipeline("upsert_delete", 1)
        )
    )
    assert dict(counter) == before
