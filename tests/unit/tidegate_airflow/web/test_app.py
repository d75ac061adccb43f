"""The page as a browser asks for it: who may see what, what is never shown, and that nothing can be changed through it.

Airflow's own database and auth manager decide; pipelines come from a folder whose brokers and catalog never answer, or
from memory.
"""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from airflow_users import make_token, run_auth_manager
from fakes import BAD, World, build_pipeline, build_table
from fakes.publications import Outside
from tidegate.errors import RetryLater
from tidegate.flush.flush import flush
from tidegate.model.table_state import DeadLetters
from tidegate.publications.publish import publish
from tidegate.spec.source import Errors
from tidegate_airflow.web.pipeline_contexts import PipelineContext

TOKEN = "a-token-for-the-scraper"
ALL = Errors("all", 9)
PATHS = (
    "/api/pipelines",
    "/api/pipelines/shop",
    "/api/pipelines/shop/dead-letters",
    "/api/publications/out",
    "/metrics",
)


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Airflow's database with two DAGs, and its auth manager with two users."""
    ids = ("tidegate_shop", "tidegate_publish_out", "dag_of_somebody_else")
    with run_auth_manager(tmp_path_factory.mktemp("airflow"), *ids) as manager:
        yield manager


class Memory:
    """Two pipelines in memory: the DAG of one of them is unknown to Airflow."""

    def __init__(self, source: PipelineContext) -> None:
        self._source = source

    def list_names(self) -> list[str]:
        return ["orphan", "shop"]

    def get_context(self, name: str) -> PipelineContext:
        session = self._source.session
        return replace(self._source, session=replace(session, pipeline=replace(session.pipeline, name=name)))

    def find_place(self, name: str) -> tuple[object, ...]:
        return ()

    def get_fleet(self, name: str) -> str | None:
        return None


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    world.broker.produce("orders", {"id": "b"}, BAD)
    world.broker.forget = lambda: None  # type: ignore[attr-defined]
    world.broker.learn = lambda places: None  # type: ignore[attr-defined]
    return world


@pytest.fixture
def desk(airflow: Any, world: World) -> Any:
    from tidegate_airflow.web.overview_cache import OverviewCache
    from tidegate_airflow.web.pipelines import PipelinesView

    table = replace(build_table(), errors=ALL)
    session = world.open_session(build_pipeline(table, source={"errors": ALL}))
    flush(session)
    memory: Any = Memory(PipelineContext((), session))
    return PipelinesView(memory, OverviewCache(memory))


@pytest.fixture
def outside() -> Outside:
    outside = Outside()
    outside.table.commit(a="1")
    publish(outside.open_session())
    return outside


@pytest.fixture
def published(airflow: Any, outside: Outside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One publication in memory."""
    from tidegate_airflow.web.publications import PublicationsView

    (tmp_path / "publications").mkdir()
    (tmp_path / "publications" / "out.yaml").touch()
    publications_view = PublicationsView(tmp_path, lambda conn_id: None)
    monkeypatch.setattr(publications_view, "get_session", lambda name: outside.open_session())
    return publications_view


@pytest.fixture
def client(desk: Any, published: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    from fastapi.testclient import TestClient
    from tidegate_airflow.web import app as application

    monkeypatch.setenv("TIDEGATE_METRICS_TOKEN", TOKEN)
    app = application.build_application()
    app.dependency_overrides[application.get_pipelines_view] = lambda: desk
    app.dependency_overrides[application.get_publications_view] = lambda: published
    return TestClient(app, follow_redirects=False)


def build_login(airflow: Any, role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {make_token(airflow, role)}"}


@pytest.mark.parametrize("path", PATHS)
def test_whoever_is_not_logged_in_sees_nothing(client: Any, path: str) -> None:
    assert client.get(path).status_code == 401
    assert client.get(path, headers={"Authorization": "Bearer nonsense"}).status_code in (401, 403)


def test_page_itself_holds_no_data_and_loads_nothing_from_elsewhere(client: Any) -> None:
    answer = client.get("/pipelines/shop")
    assert answer.status_code == 200
    assert "http" not in answer.text.replace("http-equiv", "")
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(("is_installed", "name"), [(False, "bin/tidegate"), (True, "tidegate")])
def test_page_names_the_command_as_it_can_be_typed(
    client: Any, monkeypatch: pytest.MonkeyPatch, is_installed: bool, name: str
) -> None:
    monkeypatch.setattr("tidegate_airflow.web.app.is_checkout", lambda: not is_installed)
    assert f'<meta name="tidegate-command" content="{name}">' in client.get("/pipelines/shop").text


def test_pipeline_whose_dag_one_may_not_see_does_not_exist(
    client: Any, airflow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = build_login(airflow, "viewer")
    assert client.get("/api/pipelines/shop", headers=viewer).status_code == 200
    monkeypatch.setattr(airflow, "is_authorized_dag", lambda **options: False)
    pipelines = client.get("/api/pipelines", headers=viewer).json()["pipelines"]
    assert [row["pipeline"] for row in pipelines] == ["orphan"], "a file without a DAG, for who may see import errors"
    monkeypatch.setattr(airflow, "is_authorized_view", lambda **options: False)
    assert client.get("/api/pipelines", headers=viewer).json()["pipelines"] == []
    for name in ("shop", "orphan", "nothing", "..%2f..%2fetc"):
        assert client.get(f"/api/pipelines/{name}", headers=viewer).status_code == 404


def test_viewer_sees_everything_and_may_trigger_nothing(client: Any, airflow: Any) -> None:
    details = client.get("/api/pipelines/shop", headers=build_login(airflow, "viewer")).json()
    assert details["pipeline"]["dead_letters"] == 1
    assert set(details["may"].values()) == {False}
    may = client.get("/api/pipelines/shop", headers=build_login(airflow, "admin")).json()["may"]
    others = ("actions", "backfill", "replay", "maintenance", "stage", "pause_stage", "verify")
    assert may == {"flush": True, "pause": True, **dict.fromkeys(others, False)}, "only DAGs there are"


OTHER_DAGS = ("tidegate_shop_actions", "tidegate_shop_maintenance")


@pytest.fixture
def failed_runs(airflow: Any) -> Iterator[None]:
    """A failed run of the flush, of the actions and of the maintenance, each with the reason that its task left."""
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import delete, insert

    dags = ("tidegate_shop", *OTHER_DAGS)
    with create_session() as session:
        for dag in OTHER_DAGS:
            known = {"bundle_name": "dags-folder", "is_paused": False, "is_stale": False, "fileloc": dag}
            session.merge(DagModel(dag_id=dag, **known))
        session.flush()
        at = datetime(2026, 1, 1, tzinfo=UTC)
        run = {"run_id": "r", "state": "failed", "run_type": "manual", "run_after": at}
        task = {"run_id": "r", "task_id": "t", "map_index": -1, "state": "failed", "try_number": 1}
        for dag in dags:
            session.execute(insert(DagRun).values(dag_id=dag, **run))
            session.execute(
                insert(TaskInstance).values(id=uuid4(), dag_id=dag, pool="default_pool", pool_slots=1, **task)
            )
    yield
    with create_session() as session:
        session.execute(delete(TaskInstance).where(TaskInstance.dag_id.in_(dags)))
        session.execute(delete(DagRun).where(DagRun.dag_id.in_(dags)))
        session.execute(delete(DagModel).where(DagModel.dag_id.in_(OTHER_DAGS)))


@pytest.mark.usefixtures("failed_runs")
@pytest.mark.parametrize("hidden", [(), OTHER_DAGS, OTHER_DAGS[:1]])
def test_runs_and_errors_of_a_dag_that_one_may_not_read_are_not_shown_beside_who_may(
    client: Any, airflow: Any, monkeypatch: pytest.MonkeyPatch, hidden: tuple[str, ...]
) -> None:
    """Who may see the flush alone reads of no action, whoever looks at the same moment."""
    is_authorized = airflow.is_authorized_dag

    def may_read(*, user: Any, details: Any = None, **options: Any) -> bool:
        is_hidden = details is not None and details.id in hidden and user.username == "viewer"
        return not is_hidden and is_authorized(user=user, details=details, **options)

    monkeypatch.setattr(airflow, "is_authorized_dag", may_read)
    everything = {"tidegate_shop", *OTHER_DAGS}
    for role, dags in (("admin", everything), ("viewer", everything - set(hidden)), ("admin", everything)):
        shown = client.get("/api/pipelines/shop", headers=build_login(airflow, role)).json()["airflow"]
        assert {run["dag_id"] for run in shown["runs"]} == dags, role
        assert {error["dag_id"] for error in shown["errors"]} == dags, role
        assert {task["dag_id"] for cause in shown["causes"] for task in cause["tasks"]} == dags, role
        assert {dag["dag_id"] for dag in shown["dags"].values()} == dags, role


def test_reading_under_way_of_who_may_read_all_is_not_given_to_who_may_not(
    client: Any, airflow: Any, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, begun, asked = threading.Event(), threading.Event(), list[set[str]]()

    def read_runs(dag_ids: Any) -> list[dict[str, str]]:
        asked.append(set(dag_ids))
        if len(asked) == 1:
            begun.set()
            release.wait(60)
        return [{"dag_id": dag} for dag in sorted(dag_ids)]

    monkeypatch.setattr("tidegate_airflow.web.airflow_runs.read_runs", read_runs)
    dags = desk.list_dag_ids("shop")
    with ThreadPoolExecutor(1) as other:
        first = other.submit(desk.get_pipeline, "shop", dags)
        assert begun.wait(60)
        shown = desk.get_pipeline("shop", {"flush": dags["flush"]})["airflow"]["runs"]
        release.set()
        assert [run["dag_id"] for run in shown] == ["tidegate_shop"]
        assert len(first.result()["airflow"]["runs"]) == len(dags)


def test_one_pipeline_comes_with_all_of_its_parts(client: Any, airflow: Any) -> None:
    details = client.get("/api/pipelines/shop", headers=build_login(airflow, "admin")).json()
    assert details["pipeline"]["state"] == "current"
    offsets = [
        (offset["topic"], offset["partition"], offset["begin"], offset["committed"]) for offset in details["offsets"]
    ]
    assert offsets == [("orders", 0, 0, 2), ("orders", 1, 0, 0)]
    assert [batch["batch"] for batch in details["past"]["batches"]] == [1]
    assert details["past"]["advances"][0]["partition"] == 0
    assert {entry["kind"] for entry in details["storage"]} >= {"destination", "staged", "dead letters"}
    assert details["backfills"] == []
    assert details["airflow"]["dags"] == {"flush": {"dag_id": "tidegate_shop", "paused": False}}
    assert (details["airflow"]["causes"], details["bad_record"]) == ([], None)


def test_bad_record_that_stops_a_pipeline_is_read_once_and_shown_with_its_value(
    client: Any, airflow: Any, desk: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": 7}, partition=1)
    problem = "1 record cannot be decoded; the first: topic=orders partition=1 offset=0"
    why = "reason=the value does not fit value.schema, fields: name"
    reason = f"stage failed: pipeline=shop table=lake.shop.orders batch=2: {problem} {why}; nothing was merged; skip it"
    reads: list[Any] = []
    read_records = world.broker.read_records
    monkeypatch.setattr(world.broker, "read_records", lambda *place: reads.append(place) or read_records(*place))
    to_row = desk._to_row
    monkeypatch.setattr(desk, "_to_row", lambda *options: {**to_row(*options), "reason": reason})
    for _ in range(2):
        shown = client.get("/api/pipelines/shop", headers=build_login(airflow, "viewer")).json()["bad_record"]
        assert shown["fact"] == "field name is 7, not STRING · orders, partition 1, offset 0"
    assert [place[:3] for place in reads] == [("orders", 1, range(1))]


def test_records_of_the_log_are_for_those_who_may_act_on_the_pipeline(
    client: Any, airflow: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most twenty, long ones cut; whoever may only look reads none."""
    long = "x" * 5000
    for number in range(30):
        world.broker.produce("orders", {"id": f"r{number}"}, {"id": f"r{number}", "name": long}, partition=1)
    address = "/api/pipelines/shop/records?around=orders:1"
    assert client.get(address).status_code == 401
    refused = client.get(address, headers=build_login(airflow, "viewer"))
    assert (refused.status_code, "it needs the right to start actions" in refused.text) == (403, True)
    assert long[:100] not in refused.text
    login = build_login(airflow, "admin")
    answer = client.get(address, headers=login).json()
    assert (answer["begin"], answer["end"]) == (10, 30)
    records = answer["records"]
    assert {record["headers"] for record in records} == {None}
    assert [record["offset"] for record in records] == list(range(10, 30))
    assert records[-1]["key"] == '{"id": "r29"}'
    assert len(records[-1]["value"]) == 1001
    around = client.get(f"{address}:3", headers=login).json()["records"]
    assert [record["offset"] for record in around] == list(range(20))
    assert client.get("/api/pipelines/strange/records?around=orders:1", headers=login).status_code == 404


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("others:1", "does not read topic=others"),
        ("orders:7", "topic=orders partition=7: the topic has no such partition; it has [0, 1]"),
        ("orders:one:3", "--around=orders:one:3: not a place in the log"),
        ("", "not a place in the log; write topic:partition:offset"),
    ],
)
def test_place_that_no_record_can_have_is_a_wrong_question_and_no_failure_of_a_server(
    client: Any, airflow: Any, place: str, sentence: str
) -> None:
    wrong = client.get("/api/pipelines/shop/records", params={"around": place}, headers=build_login(airflow, "admin"))
    assert wrong.status_code == 400
    assert sentence in wrong.json()["detail"]


def test_brokers_that_do_not_answer_are_no_wrong_question(
    client: Any, airflow: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(*_: Any) -> Any:
        raise RetryLater("brokers=b:9092 gave no answer")

    monkeypatch.setattr(world.broker, "read_log", answer)
    login = build_login(airflow, "admin")
    down = client.get("/api/pipelines/shop/records?around=orders:1", headers=login)
    assert (down.status_code, down.json()["detail"]) == (503, "brokers=b:9092 gave no answer")


def test_list_of_all_pipelines_carries_the_worst_partitions_of_each_and_its_own_page_carries_all(
    client: Any, airflow: Any, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser asks for the list every five seconds: of 200 pipelines with 5,000 partitions it had 100 MB."""
    read_rows, partition_count = desk._watch.get_rows, 5000
    late = {7: 12.0, 4999: 90.5, 30: None}  # seconds behind; of one nobody knows
    parts = [
        {
            "topic": "orders",
            "partition": n,
            "published": n,
            "end": n + 3,
            "lag": 3 * (n in late),
            "lag_seconds": late.get(n, 0.0),
        }
        for n in range(partition_count)
    ]
    rows = lambda: {name: {**row, "partitions": parts} for name, row in read_rows().items()}  # noqa: E731
    monkeypatch.setattr(desk._watch, "get_rows", rows)
    admin = build_login(airflow, "admin")
    answer = client.get("/api/pipelines", headers=admin)
    pipeline_rows = answer.json()["pipelines"]
    assert [(row["pipeline"], row["partition_count"]) for row in pipeline_rows] == [
        ("orphan", partition_count),
        ("shop", partition_count),
    ]
    for row in pipeline_rows:
        partitions = [partition["partition"] for partition in row["partitions"]]
        assert (partitions[:3], len(partitions)) == ([4999, 7, 30], 20)
    assert len(answer.content) < 2 * 10_000
    own = client.get("/api/pipelines/shop", headers=admin).json()["pipeline"]
    assert (own["partitions"], own["partition_count"]) == (parts, partition_count)
    metrics = client.get("/metrics", headers=admin).text
    assert metrics.count("tidegate_lag_records{") == 2 * partition_count


def test_list_of_all_pipelines_carries_the_worst_of_the_tables_that_records_name(
    client: Any, airflow: Any, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_rows, table_count = desk._watch.get_rows, 1000
    late = {7: 12.0, 999: 90.5, 30: None}
    own = next(iter(read_rows().values()))["tables"]
    named_by_records = [
        {**own[0], "table": f"lake.shop.{n}", "template": "lake.shop.{type}", "lag": 3 * (n in late),
         "lag_seconds": late.get(n, 0.0), "problem": "its merge fails" if n == 500 else None}
        for n in range(table_count)
    ]  # fmt: skip
    rows = lambda: {name: {**row, "tables": [*own, *named_by_records]} for name, row in read_rows().items()}  # noqa: E731
    monkeypatch.setattr(desk._watch, "get_rows", rows)
    admin = build_login(airflow, "admin")
    for row in client.get("/api/pipelines", headers=admin).json()["pipelines"]:
        tables = [table["table"].rpartition(".")[2] for table in row["tables"]]
        assert (tables[:5], len(tables)) == (["orders", "500", "999", "7", "30"], 21)
        assert row["table_count"] == table_count + 1
    assert len(client.get("/api/pipelines/shop", headers=admin).json()["pipeline"]["tables"]) == table_count + 1
    metrics = client.get("/metrics", headers=admin).text
    assert metrics.count("tidegate_table_lag_records{") == 2 * 2


def test_pipeline_whose_file_goes_while_it_is_asked_for_does_not_exist(
    client: Any, airflow: Any, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [["orphan", "shop"], ["orphan"]]  # the first look finds the file, and all later ones do not
    monkeypatch.setattr(desk.sources, "list_names", lambda: answers.pop(0) if len(answers) > 1 else answers[0])
    answer = client.get("/api/pipelines/shop", headers=build_login(airflow, "admin"))
    assert (answer.status_code, answer.json()["detail"]) == (404, "pipeline=shop: there is none that you may see")


def test_committed_offsets_expire_as_brokers_say_or_after_seven_days_and_that_is_told(
    client: Any, airflow: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate_airflow.web import airflow_runs

    monkeypatch.setattr(airflow_runs, "read_last_commit", lambda *arguments: datetime(2026, 1, 1, tzinfo=UTC))
    for retention_seconds, expires in ((None, "2026-01-08T00:00:00.000Z"), (7200.0, "2026-01-01T02:00:00.000Z")):
        world.broker.group_retention_seconds = retention_seconds
        details = client.get("/api/pipelines/shop", headers=build_login(airflow, "viewer")).json()
        assert details["group_retention"] == {
            "seconds": retention_seconds or 604_800,
            "assumed": retention_seconds is None,
        }
        assert details["airflow"]["offsets_expire"] == expires


def test_part_that_fails_says_so_and_the_others_are_there(client: Any, airflow: Any, world: World) -> None:
    def fail_to_read(group: str, topics: Any) -> Any:
        raise RetryLater("brokers=b gave no answer within 30 s")

    world.broker.read_committed = fail_to_read  # type: ignore[method-assign]
    details = client.get("/api/pipelines/shop", headers=build_login(airflow, "admin")).json()
    assert details["offsets"] == {"error": "brokers=b gave no answer within 30 s"}
    assert details["storage"]


def test_dead_letters_are_given_page_by_page_as_people_can_read_them(client: Any, airflow: Any) -> None:
    letters_page = client.get("/api/pipelines/shop/dead-letters?page=7", headers=build_login(airflow, "viewer")).json()
    assert (letters_page["waiting"], letters_page["pages"], letters_page["dead_letters"]) == (1, 1, [])
    [letter] = client.get("/api/pipelines/shop/dead-letters", headers=build_login(airflow, "viewer")).json()[
        "dead_letters"
    ]
    assert (letter["topic"], letter["partition"], letter["offset"], letter["stage"]) == ("orders", 0, 1, "value")


def test_catalog_that_does_not_answer_is_told_about_without_its_password(
    client: Any, airflow: Any, world: World
) -> None:
    def fail_to_read(name: str, limit: int) -> Any:
        raise OSError("cannot reach postgresql://lake:hunter2@db/catalog")

    world.destination.read_dead_letters = fail_to_read  # type: ignore[method-assign]
    answer = client.get("/api/pipelines/shop/dead-letters", headers=build_login(airflow, "admin"))
    assert (answer.status_code, answer.json()) == (503, {"detail": "OSError: cannot reach postgresql://***@db/catalog"})


def test_page_of_dead_letters_waits_for_a_silent_catalog_as_long_as_the_other_parts(
    client: Any, airflow: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look of each browser kept a thread of the web server, until it had none."""
    gate, asked = threading.Event(), list[int]()

    def hang(name: str, limit: int) -> Any:
        asked.append(limit)
        assert gate.wait(60)
        return DeadLetters()

    monkeypatch.setattr("tidegate_airflow.web.pipelines.ANSWER_TIMEOUT_SECONDS", 0.2)
    world.destination.read_dead_letters = hang  # type: ignore[method-assign]
    try:
        for _ in range(3):
            answer = client.get("/api/pipelines/shop/dead-letters", headers=build_login(airflow, "admin"))
            assert (answer.status_code, answer.json()["detail"][:16]) == (503, "no answer within")
    finally:
        gate.set()
    assert asked.count(25) == 1


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_no_address_of_the_page_changes_anything(client: Any, airflow: Any, method: str) -> None:
    """What changes something goes to Airflow's own API, which checks the role and writes its audit log."""
    for path in (*PATHS, "/"):
        answer = getattr(client, method)(path, headers=build_login(airflow, "admin"))
        assert answer.status_code == 405


def test_scraper_reads_the_metrics_of_all_with_its_token_and_users_those_of_theirs(
    client: Any, airflow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert everything.headers["Content-Type"].startswith("application/openmetrics-text")
    assert 'tidegate_dead_letters{pipeline="shop"} 1' in everything.text
    assert 'pipeline="orphan"' in everything.text
    monkeypatch.setattr(airflow, "is_authorized_view", lambda **options: False)
    metrics_text = client.get("/metrics", headers=build_login(airflow, "viewer")).text
    assert 'pipeline="shop"' in metrics_text
    assert 'pipeline="orphan"' not in metrics_text


def test_tab_on_a_dag_leads_to_its_pipeline(client: Any, airflow: Any) -> None:
    viewer = build_login(airflow, "viewer")
    for dag in ("tidegate_shop", "tidegate_shop_backfill", "tidegate_shop_replay", "tidegate_shop_maintenance"):
        assert client.get(f"/dags/{dag}", headers=viewer).headers["location"].endswith("/tidegate/pipelines/shop")
    assert client.get("/dags/something_else", headers=viewer).status_code == 200


def test_secrets_in_a_foreign_error_are_hidden(airflow: Any) -> None:
    from tidegate_airflow.web.messages import describe_problem

    problem = OSError("cannot connect to postgresql://lake:hunter2@db/x sasl.password=hunter2 token: 'hunter2'")
    assert "hunter2" not in describe_problem(problem)
    assert describe_problem(problem).startswith("OSError: cannot connect to postgresql://")
    assert describe_problem(RetryLater("group=g: committed offset=5")) == "group=g: committed offset=5"


@pytest.mark.parametrize("password", ["hunter2/x", "hun@ter2", "a@b/c@hunter2", ":hunter2", "%40hunter2"])
def test_password_with_letters_that_addresses_have_is_hidden_whole(airflow: Any, password: str) -> None:
    from tidegate_airflow.web.messages import describe_problem

    problem = describe_problem(
        OSError(f"cannot connect to 'postgresql://lake:{password}@db:5432/x', nor to s3://bucket/y")
    )
    assert problem == "OSError: cannot connect to 'postgresql://***@db:5432/x', nor to s3://bucket/y"


def test_every_file_of_the_page_is_small_and_calls_nobody_else() -> None:
    static = Path(__file__).parents[4] / "plugins" / "tidegate_airflow" / "web" / "static"
    own = [path for path in static.iterdir() if path.is_file()]
    assert len(own) > 10
    for path in own:
        text = path.read_text()
        assert len(text.splitlines()) <= 300, path.name
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), path.name
        assert "https://" not in text, path.name
        assert "innerHTML" not in text, path.name
    assert os.path.getsize(static / "vendor" / "uplot-1.6.32.min.js") < 60_000


def test_publication_comes_with_its_place_in_the_tables_snapshots(
    client: Any, airflow: Any, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = build_login(airflow, "admin")
    [row] = client.get("/api/pipelines", headers=admin).json()["publications"]
    assert (row["state"], row["published_snapshot_id"], row["snapshots_behind"]) == ("current", "10", 0)
    outside.table.commit(a="2")
    details = client.get("/api/publications/out", headers=admin).json()
    assert [snapshot["snapshot_id"] for snapshot in details["snapshots"]] == ["11", "10"], (
        "as text: browsers round such numbers"
    )
    assert (details["may"], details["publication"]["dag_id"]) == ({"publish": True}, "tidegate_publish_out")
    viewer = build_login(airflow, "viewer")
    assert client.get("/api/publications/out", headers=viewer).json()["may"] == {"publish": False}
    assert client.get("/api/publications/nothing", headers=viewer).status_code == 404
    response = client.get("/dags/tidegate_publish_out", headers=viewer)
    assert response.headers["location"].endswith("/tidegate/publications/out")
    metrics = client.get("/metrics", headers=viewer).text
    assert 'tidegate_publication_up{publication="out"} 1' in metrics
    monkeypatch.setattr(airflow, "get_authorized_dag_ids", lambda **options: set())
    assert client.get("/api/pipelines", headers=viewer).json()["publications"] == []
    assert client.get("/api/publications/out", headers=viewer).status_code == 404


def test_publication_that_cannot_go_on_is_stuck_with_the_way_out(client: Any, airflow: Any, outside: Outside) -> None:
    outside.table.commit(a="2")
    outside.table.uuid = "u2"
    [row] = client.get("/api/pipelines", headers=build_login(airflow, "viewer")).json()["publications"]
    assert row["state"] == "stuck"
    assert "was replaced by another" in row["reason"]
    assert "run `tidegate publish out --resynchronise`" in row["reason"]


def test_runbook_is_read_by_whoever_is_logged_in_and_nothing_else_is_read_through_it(client: Any, airflow: Any) -> None:
    viewer = build_login(airflow, "viewer")
    runbook_page = client.get("/api/runbook/bad-record", headers=viewer).json()
    assert runbook_page["text"].startswith("# A record cannot be decoded")
    assert client.get("/api/runbook/bad-record").status_code == 401
    for name in ("nothing", "..%2foperations", "bad-record.md"):
        assert client.get(f"/api/runbook/{name}", headers=viewer).status_code == 404


@pytest.fixture
def runs(airflow: Any) -> Iterator[None]:
    """Of one DAG: a run whose stage failed, one under way whose stage has succeeded, and one that waits behind it."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import delete, insert

    dag, at = "tidegate_shop", datetime(2026, 1, 1, tzinfo=UTC)
    task = {"dag_id": dag, "try_number": 1, "pool": "default_pool", "pool_slots": 1}
    tasks = [("first", "plan", "success"), ("first", "stage", "failed"), ("first", "heartbeat", "failed"),
             ("second", "plan", "success"), ("second", "stage", "success"), ("second", "merge", "running")]  # fmt: skip
    with create_session() as session:
        for run, state in (("first", "failed"), ("second", "running"), ("third", "queued")):
            run_values = {"run_id": run, "state": state, "run_type": "scheduled", "run_after": at}
            session.execute(insert(DagRun).values(dag_id=dag, **run_values))
        for run, name, state in tasks:
            run_values = {"id": uuid4(), "run_id": run, "task_id": name, "state": state}
            session.execute(insert(TaskInstance).values(**task, **run_values))
    yield
    with create_session() as session:
        for table in (TaskInstance, DagRun):
            session.execute(delete(table).where(table.dag_id == dag))


@pytest.mark.usefixtures("runs")
def test_failure_is_over_once_its_task_has_succeeded_though_another_run_waits_behind() -> None:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update
    from tidegate_airflow.web.airflow_runs import read_dag_statuses

    tidegate_shop = read_dag_statuses(["tidegate_shop"])["tidegate_shop"]
    assert (tidegate_shop.failed, tidegate_shop.is_fixed) == ("stage failed: see the log of the task", True)
    with create_session() as session:
        merge = TaskInstance.task_id == "merge"
        session.execute(update(TaskInstance).where(merge).values(state="up_for_retry"))
    tidegate_shop = read_dag_statuses(["tidegate_shop"])["tidegate_shop"]
    assert not tidegate_shop.is_fixed


def test_parts_that_nobody_waits_for_any_more_are_not_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that hang keep all threads; each look at the page would leave its parts in a queue that only grows."""
    monkeypatch.setattr("tidegate_airflow.web.pipelines.ANSWER_TIMEOUT_SECONDS", 0.05)
    from tidegate_airflow.web.pipelines import PartReader

    reader, answer, read = PartReader(16), threading.Event(), list[str]()
    hanging_parts = reader.read_parts("shop", {f"part {number}": answer.wait for number in range(16)})
    late_parts = reader.read_parts("shop", {"late": lambda: read.append("late")})
    assert all("no answer within" in part["error"] for part in (*hanging_parts.values(), *late_parts.values()))
    answer.set()
    monkeypatch.undo()
    assert reader.read_parts("shop", {"next": lambda: "well"}) == {"next": "well"}
    assert read == []


@pytest.mark.parametrize("is_paused", [False, True])
def test_member_that_stages_on_a_clock_has_that_dag_beside_its_fleet_s(
    desk: Any, monkeypatch: pytest.MonkeyPatch, is_paused: bool
) -> None:
    """Airflow pauses the new DAG of staging: nothing is read then, however often the fleet runs."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    monkeypatch.setattr(desk.sources, "get_fleet", lambda name: "harbour")
    paused = {"tidegate_fleet_harbour": False, "tidegate_shop_stage": is_paused}
    with create_session() as session:
        for name, value in paused.items():
            session.add(DagModel(dag_id=name, bundle_name="dags-folder", is_paused=value, is_stale=False, fileloc=name))
    try:
        (row,) = desk.get_overview(["shop"])
        dags = desk.get_pipeline("shop", desk.list_dag_ids("shop"))["airflow"]["dags"]
    finally:
        with create_session() as session:
            session.query(DagModel).filter(DagModel.dag_id.in_(paused)).delete()
    assert (row["dag_id"], row["paused"], row["state"]) == (
        "tidegate_fleet_harbour",
        is_paused,
        "paused" if is_paused else "current",
    )
    assert {kind: dag["dag_id"] for kind, dag in dags.items() if kind in ("flush", "stage")} == {
        "flush": "tidegate_fleet_harbour",
        "stage": "tidegate_shop_stage",
    }


def test_list_of_pipelines_waits_for_no_connection(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secrets backend that hangs: what was read before is shown, and no request opens a pipeline."""
    assert desk.get_overview(["shop"])[0]["state"] == "current"
    gate = threading.Event()
    monkeypatch.setattr(desk.sources, "get_context", lambda name: gate.wait(60))
    with ThreadPoolExecutor(1) as workers:
        look = workers.submit(desk.get_overview, ["shop"])
        try:
            assert look.result(20)[0]["pipeline"] == "shop"
        finally:
            gate.set()
