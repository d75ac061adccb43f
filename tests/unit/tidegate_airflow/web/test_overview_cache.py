"""The readings behind the page: one for everybody, and who does not answer is told about in words."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from fakes.clock import SteppedTime
from tidegate.errors import ConfigurationError, RetryLater
from tidegate.flush.flush import flush
from tidegate.ports.session import Session
from tidegate_airflow.web.overview_cache import OverviewCache
from tidegate_airflow.web.pipeline_contexts import PipelineContext


class Onlooker:
    """The memory broker as the page shares it; counts how often the log is read."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self.forgot = 0
        self.gate = threading.Event()
        self.gate.set()
        self.failure: Exception | None = None
        self.on_read = lambda: None

    def forget(self) -> None:
        self.forgot += 1

    def learn(self, places: Any) -> None:
        list(places)

    def read_log(self, *arguments: Any) -> Any:
        assert self.gate.wait(60)
        self.on_read()
        if self.failure:
            raise self.failure
        return self._broker.read_log(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)


class Files:
    """Pipelines by name: a source, or what is wrong with the file."""

    def __init__(self, contexts: dict[str, PipelineContext | Exception]) -> None:
        self.found = contexts
        self.failures: list[str] = []

    def list_names(self) -> list[str]:
        return sorted(self.found)

    def find_place(self, name: str) -> tuple[object, ...]:
        value = self.found[name]
        return value.group if isinstance(value, PipelineContext) else (name,)

    def get_context(self, name: str) -> PipelineContext:
        value = self.found[name]
        if isinstance(value, Exception):
            raise value
        return value

    def report_failure(self, name: str) -> None:
        self.failures.append(name)


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    return world


@pytest.fixture
def broker(world: World) -> Iterator[Onlooker]:
    onlooker = Onlooker(world.broker)
    yield onlooker
    onlooker.gate.set()


def open_session(world: World, broker: Any, name: str = "shop") -> Session:
    return replace(world.open_session(build_pipeline(build_table(f"lake.shop.{name}"), name=name)), broker=broker)


def watch_of(**context_or_error: PipelineContext | Exception) -> OverviewCache:
    return OverviewCache(Files(context_or_error))


def test_pipelines_of_one_cluster_are_read_with_one_look_at_its_brokers(world: World, broker: Onlooker) -> None:
    sources = {name: PipelineContext(("one",), open_session(world, broker, name)) for name in ("left", "right")}
    rows = watch_of(**sources).get_rows(patience=60)
    assert {name: row["lag"] for name, row in rows.items()} == {"left": 1, "right": 1}
    assert broker.forgot == 1


def test_wrong_file_is_told_about_and_hides_no_other(world: World, broker: Onlooker) -> None:
    watch = watch_of(
        bad=ConfigurationError("bad.yaml: no"), good=PipelineContext((), open_session(world, broker, "good"))
    )
    rows = watch.get_rows(patience=60)
    assert rows["bad"]["error"] == "bad.yaml: no"
    assert rows["bad"]["needs_person"]
    assert rows["good"]["error"] is None


def test_nothing_is_kept_of_pipelines_that_went_and_of_settings_that_changed(
    world: World, broker: Onlooker, clock: SteppedTime
) -> None:
    files = Files({"stays": PipelineContext(("first",), open_session(world, broker, "stays"))})
    watch = OverviewCache(files)
    for number in range(5):
        files.found["stays"] = PipelineContext((f"secret {number}",), open_session(world, broker, "stays"))
        files.found[f"tenant_{number}"] = PipelineContext((number,), open_session(world, broker, f"tenant_{number}"))
        clock.seconds += 60
        assert f"tenant_{number}" in watch.get_rows(patience=60)
        del files.found[f"tenant_{number}"]
    clock.seconds += 60
    assert set(watch.get_rows(patience=60)) == {"stays"}
    assert set(watch._known) == {"stays"}
    assert len(watch._due) <= 2


def test_pipeline_that_cannot_be_read_is_opened_anew_and_no_other(world: World, broker: Onlooker) -> None:
    refusing = Onlooker(world.broker)
    refusing.failure = RetryLater("the brokers refuse the log-in")
    bad, good = open_session(world, refusing, "bad"), open_session(world, broker, "good")
    files = Files({"bad": PipelineContext(("b",), bad), "good": PipelineContext((), good)})
    OverviewCache(files).get_rows(patience=60)
    assert files.failures == ["bad"]


def test_brokers_that_do_not_answer_keep_nobody_waiting(world: World, broker: Onlooker) -> None:
    broker.gate.clear()
    pipeline_context = PipelineContext(("other",), open_session(world, Onlooker(world.broker), "other"))
    watch = watch_of(shop=PipelineContext(("dead",), open_session(world, broker)), other=pipeline_context)
    rows = watch.get_rows(patience=0.5)
    while rows["other"]["error"] or rows["shop"]["error"] == "not read yet":
        rows = watch.get_rows(patience=0.5)
    assert "no answer" in rows["shop"]["error"]


def test_what_the_file_says_is_known_also_while_nobody_answers(world: World, broker: Onlooker) -> None:
    session = open_session(world, broker)
    tagged = replace(session, pipeline=replace(session.pipeline, tags=("gold",), description="Orders"))
    broker.gate.clear()
    watch = watch_of(shop=PipelineContext(("dead",), tagged))
    row = watch.get_rows(patience=0.5)["shop"]
    while "tags" not in row:
        row = watch.get_rows(patience=0.5)["shop"]
    assert (row["tags"], row["description"]) == (["gold"], "Orders")
    assert "not read yet" in row["error"]
    broker.failure = RetryLater("brokers=b:9092 gave no answer")
    broker.gate.set()
    while "b:9092" not in row["error"]:
        row = watch.get_rows(patience=60)["shop"]
    assert (row["tags"], row["pipeline"]) == (["gold"], "shop")


def test_failure_keeps_the_last_numbers_and_says_what_happened(world: World, broker: Onlooker) -> None:
    session = open_session(world, broker)
    flush(world.open_session(session.pipeline))
    watch = watch_of(shop=PipelineContext((), session))
    assert watch.get_rows(patience=60)["shop"]["lag"] == 0
    broker.failure = RetryLater("brokers=b:9092 gave no answer")
    watch._read_group([session])
    row = watch.get_rows(patience=60)["shop"]
    assert row["error"] == "brokers=b:9092 gave no answer"
    assert row["lag"] == 0
    broker.failure = None
    watch._read_group([session])
    assert watch.get_rows(patience=60)["shop"]["error"] is None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppedTime:
    stepped_time = SteppedTime()
    monkeypatch.setattr("tidegate_airflow.web.overview_cache.time", stepped_time)
    return stepped_time


def test_first_look_is_under_way_for_half_a_minute_and_then_unanswered(
    world: World, broker: Onlooker, clock: SteppedTime
) -> None:
    """On a slow machine every pipeline was said to be unknown, in red, before anybody could have answered."""
    broker.gate.clear()
    watch = watch_of(shop=PipelineContext((), open_session(world, broker)))
    while not watch._busy:
        assert watch.get_rows(patience=0.05)["shop"]["looking"]
    for seconds, is_looking in ((29, True), (31, False)):
        clock.seconds = 1000.0 + seconds
        row = watch.get_rows(patience=0)["shop"]
        assert (row["looking"], row["error"]) == (is_looking, f"not read yet: no answer for {seconds} s")
    broker.gate.set()
    row = watch.get_rows(patience=60)["shop"]
    assert ("looking" in row, row["error"], row["lag"]) == (False, None, 1)


def look_until_read(watch: OverviewCache, broker: Onlooker, times: int) -> None:
    """Look again and again, as a browser does, until the brokers were asked so often and all readings are over."""
    while broker.forgot < times or watch._busy:
        watch.get_rows(patience=0.05)


def test_brokers_that_answer_slowly_are_rested_from_and_no_others(world: World, clock: SteppedTime) -> None:
    slow, fast = Onlooker(world.broker), Onlooker(world.broker)
    slow.on_read = lambda: setattr(clock, "seconds", clock.seconds + 60)
    contexts = {"slow": PipelineContext(("slow",), open_session(world, slow, "slow"))}
    contexts["fast"] = PipelineContext(("fast",), open_session(world, fast, "fast"))
    watch = OverviewCache(Files({"slow": contexts["slow"]}))
    look_until_read(watch, slow, 1)
    watch._sources = Files(dict(contexts))
    clock.seconds += 5
    look_until_read(watch, fast, 1)
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y"})
    clock.seconds += 5
    look_until_read(watch, fast, 2)
    rows = watch.get_rows(patience=0)
    assert (rows["fast"]["lag"], rows["slow"]["lag"], slow.forgot) == (2, 1, 1)
    clock.seconds += 300
    look_until_read(watch, slow, 2)
    assert watch.get_rows(patience=0)["slow"]["lag"] == 2


def test_first_look_after_a_while_waits_for_new_numbers(world: World, broker: Onlooker, clock: SteppedTime) -> None:
    watch = watch_of(
        left=PipelineContext(("one",), open_session(world, broker, "left")),
        right=PipelineContext(("two",), open_session(world, Onlooker(world.broker), "right")),
    )
    rows = watch.get_rows(patience=60)
    assert {name: (row["lag"], row["read_at"]) for name, row in rows.items()} == {
        "left": (1, 1000.0),
        "right": (1, 1000.0),
    }
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y"})
    clock.seconds += 600
    rows = watch.get_rows(patience=60)
    assert {name: (row["lag"], row["read_at"]) for name, row in rows.items()} == {
        "left": (2, 1600.0),
        "right": (2, 1600.0),
    }


def test_connection_that_nobody_answers_for_delays_no_pipeline_of_another(
    world: World, broker: Onlooker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipelines were opened one after the other, and read when all of them were open."""
    gate, asked = threading.Event(), list[str]()
    names = ("a_hangs", "b_hangs", "shop")
    contexts = {name: PipelineContext((name[1:],), open_session(world, broker, name)) for name in names}
    files = Files({**contexts})
    get_context = files.get_context

    def hang(name: str) -> PipelineContext:
        asked.append(name)
        assert name == "shop" or gate.wait(60)
        return get_context(name)

    monkeypatch.setattr(files, "get_context", hang)
    watch = OverviewCache(files)
    rows = watch.get_rows(patience=2)
    assert (rows["shop"]["error"], rows["shop"]["lag"]) == (None, 1)
    assert [rows[name]["error"][:12] for name in names[:2]] == ["not read yet"] * 2
    assert sorted(asked) == ["a_hangs", "shop"], "one thread waits for the two"
    gate.set()
    while any(row["error"] for row in watch.get_rows(patience=60).values()):
        pass


def test_connection_that_fails_slowly_is_looked_up_once_for_all_pipelines_that_name_it(
    world: World, broker: Onlooker, clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files({name: PipelineContext((), open_session(world, broker, name)) for name in ("left", "right")})
    asked = list[str]()

    def fail_slowly(name: str) -> PipelineContext:
        asked.append(name)
        clock.seconds += 30
        raise RetryLater("the vault does not answer")

    monkeypatch.setattr(files, "get_context", fail_slowly)
    rows = OverviewCache(files).get_rows(patience=60)
    assert {name: row["error"] for name, row in rows.items()} == dict.fromkeys(
        ("left", "right"), "the vault does not answer"
    )
    assert asked == ["left"]


def test_connections_that_nobody_answers_for_are_asked_for_once_at_a_time(
    world: World, broker: Onlooker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secrets backend that hangs: each look would leave a thread more that waits for it."""
    monkeypatch.setattr("tidegate_airflow.web.overview_cache.FRESH_SECONDS", 0.0)
    gate, asked = threading.Event(), list[str]()
    files = Files({"shop": PipelineContext((), open_session(world, broker))})

    def hang(name: str) -> PipelineContext:
        asked.append(name)
        assert gate.wait(60)
        return files.found[name]  # type: ignore[return-value]

    monkeypatch.setattr(files, "get_context", hang)
    watch = OverviewCache(files)
    for _ in range(5):
        assert watch.get_rows(patience=0.02)["shop"]["error"] == "not read yet"
    assert asked == ["shop"]
    gate.set()
    assert watch.get_rows(patience=60)["shop"]["error"] is None
    while not (len(asked) > 1):
        watch.get_rows(patience=0.02)
