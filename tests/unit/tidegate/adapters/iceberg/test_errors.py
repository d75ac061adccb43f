"""What a runner is told when files go, or cannot be reached, between its look at a table's metadata and its reading."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from background_server import start_serving, stop_serving
from contract.test_destination import Kit, build_iceberg_kit
from contract_words import FIRST, PIPELINE, STAGED, START, TABLE
from fakes import World, build_pipeline
from pyiceberg.exceptions import BadRequestError, CommitFailedException, CommitStateUnknownException, NoSuchTableError
from sqlalchemy.exc import OperationalError, ProgrammingError
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.adapters.iceberg.snapshots import IcebergSnapshots
from tidegate.adapters.iceberg.table import IcebergTables
from tidegate.errors import CommitRefused, ConfigurationError, GiveUp, OutcomeUnknown, RetryLater
from tidegate.flush.flush import flush
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.batch import PublishOutcome, StagedPart
from tidegate.schema.data_types import Column


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return build_iceberg_kit(tmp_path)


def change_after_load(kit: Kit, happens: Any) -> Any:
    """A second runner's destination, to which something happens just after it has read a table's metadata."""
    catalogs: Any = kit.port.tables.catalogs

    class Late:
        def __getattr__(self, name: str) -> Any:
            return getattr(catalogs, name)

        def table(self, name: str) -> Any:
            table = catalogs.table(name)
            happens()
            return table

    return build_iceberg_destination(Late())


def test_staged_files_that_another_run_cleans_up_while_they_are_read_are_a_fault_that_passes(kit: Kit) -> None:
    kit.seed_table()
    kit.stage(1, "a1", 3)
    snapshot = kit.load(STAGED).current_snapshot().snapshot_id
    values = {
        "source": STAGED,
        "snapshot_id": snapshot,
        "parts": [StagedPart(1, "a1")],
        "leaves": [("n",)],
        "keys": {"n": None},
    }
    with pytest.raises(RetryLater, match=f"table={TABLE}: a file disappeared during find_bounds"):
        change_after_load(kit, lambda: kit.port.staging.clean_up(STAGED, 1)).tables.find_bounds(TABLE, values)
    assert not kit.port.tables.find_bounds(TABLE, values).conditions


def test_publish_that_cannot_write_has_an_unknown_outcome_and_changes_nothing(kit: Kit) -> None:
    publication = kit.seed_table().merge_branch(FIRST)
    metadata = Path(kit.load(TABLE).location().removeprefix("file://")) / "metadata"

    def no_folder() -> None:
        metadata.rename(metadata.with_suffix(".away"))
        metadata.touch()

    with pytest.raises(OutcomeUnknown, match=f"table={TABLE}: .* did not answer during publish: .*; it will be tried"):
        change_after_load(kit, no_folder).commits.publish(publication)
    metadata.unlink()
    metadata.with_suffix(".away").rename(metadata)
    assert kit.state().recorded_position == START
    kit.port.commits.publish(publication)
    assert kit.state().recorded_position == FIRST


def test_database_that_is_locked_is_a_fault_that_passes_and_its_statement_is_not_told(kit: Kit) -> None:
    kit.seed_table()

    def locked() -> None:
        raise OperationalError("SELECT secret", {"password": "hunter2"}, Exception("database is locked"))

    with pytest.raises(RetryLater, match="did not answer during read_state: database is locked; ") as error_info:
        change_after_load(kit, locked).tables.read_state(TABLE, PIPELINE)
    assert "secret" not in str(error_info.value)


def test_runner_whose_staged_files_went_ends_with_what_another_run_published() -> None:
    world = World()
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"}, 0)
    session = world.open_session(build_pipeline())
    (staged,) = stage(session, plan(session))
    find_bounds = session.tables.find_bounds

    def bounds(table: str, values: Any) -> Any:
        session.tables.find_bounds = find_bounds
        flush(world.open_session(build_pipeline()))
        raise RetryLater(f"table={table}: a file disappeared during find_bounds")

    session.tables.find_bounds = bounds
    assert merge(session, staged).outcome == PublishOutcome.ALREADY_PUBLISHED
    assert world.read_rows(TABLE) == [{"id": "a", "name": "x"}]


CONNECTION = {"lake": "lake_catalog"}


@contextmanager
def run_rest_catalog(refused_path: str, status: int, answer: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Run a catalog server that refuses requests to `refused_path`, and give the properties of its catalog."""
    good: dict[str, Any] = {"tokens": {"access_token": "t", "token_type": "bearer"}, "config": {"defaults": {}}}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            verb = self.path.partition("?")[0].rpartition("/")[2]
            code, body = (
                (status, answer) if refused_path in self.path else (200, {**good.get(verb, {}), "overrides": {}})
            )
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST  # noqa: N815 (named by http.server)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = start_serving(server)
    try:
        uri = f"http://127.0.0.1:{server.server_port}"
        tokens = {"credential": "flush:hunter2", "oauth2-server-uri": f"{uri}/v1/oauth/tokens"}
        yield {"type": "rest", "uri": uri, **tokens}
    finally:
        stop_serving(server, thread)


def build_rest_error(code: int, kind: str) -> dict[str, Any]:
    return {"error": {"message": "no", "type": kind, "code": code}}


@pytest.mark.parametrize(
    ("refused_path", "status", "answer"),
    [
        ("oauth/tokens", 401, {"error": "invalid_client", "error_description": "unknown client or wrong secret"}),
        ("v1/config", 401, build_rest_error(401, "NotAuthorizedException")),
        ("v1/namespaces/shop/tables", 403, build_rest_error(403, "ForbiddenException")),
    ],
    ids=["log-in", "token", "rights"],
)
def test_refused_credentials_of_a_rest_catalog_are_one_sentence_that_names_the_connection(
    refused_path: str, status: int, answer: dict[str, Any]
) -> None:
    with run_rest_catalog(refused_path, status, answer) as properties:
        catalogs = Catalogs({"lake": properties}, CONNECTION)
        for ask in (
            lambda: IcebergTables(catalogs).read_state(TABLE, PIPELINE),
            lambda: IcebergSnapshots(catalogs).read_table(TABLE),
        ):
            with pytest.raises(ConfigurationError) as error_info:
                ask()
            assert str(error_info.value).startswith(
                "catalog=lake connection=lake_catalog: the log-in or its rights were refused"
            )
            assert f"table={TABLE}" in str(error_info.value)
            assert len(str(error_info.value).splitlines()) == 1
            assert "hunter2" not in str(error_info.value)


@pytest.mark.parametrize("table", ["lake.shop.orders", "lake.shop.Order Lines"])
def test_request_that_a_rest_catalog_calls_bad_is_not_tried_again(table: str) -> None:
    answer = build_rest_error(400, "BadRequestException")
    with run_rest_catalog("v1/namespaces/shop/tables", 400, answer) as properties:
        tables = IcebergTables(Catalogs({"lake": properties}))
        message = f"table={table}: the catalog refuses the request of read_state: BadRequestException: no; nothing was"
        for _ in range(2):
            with pytest.raises(GiveUp, match=message):
                tables.read_state(table, PIPELINE)


def test_publish_that_a_catalog_calls_bad_has_changed_nothing(kit: Kit) -> None:
    publication = kit.seed_table().merge_branch(FIRST)

    def fails() -> None:
        raise BadRequestError("BadRequestException: no such requirement")

    with pytest.raises(GiveUp, match=f"table={TABLE}: the catalog refuses the request of publish: .*no such"):
        change_after_load(kit, fails).commits.publish(publication)
    assert kit.state().recorded_position == START


def test_refused_credentials_of_a_catalog_without_a_connection_point_to_its_file() -> None:
    with (
        run_rest_catalog("oauth/tokens", 401, {"error": "invalid_client"}) as properties,
        pytest.raises(GiveUp, match=r"^catalog=lake of catalogs\.yaml: the log-in"),
    ):
        IcebergTables(Catalogs({"lake": properties})).read_state(TABLE, PIPELINE)


def build_database_error(text: str) -> OperationalError:
    return OperationalError("SELECT 1", {"password": "hunter2"}, psycopg2.OperationalError(text))


# as PostgreSQL 15 and PyArrow 22 say them
REFUSALS = {
    "password": build_database_error(
        'connection to server at "127.0.0.1", port 5432 failed: FATAL:  password authentication failed for user "i"\n'
    ),
    "no password": build_database_error('connection to server at "db" failed: fe_sendauth: no password supplied'),
    "no such database": build_database_error(
        'connection to server at "db" failed: FATAL:  database "lake" does not exist'
    ),
    "address": build_database_error('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "iceberg"'),
    "right": ProgrammingError("UPDATE", {}, psycopg2.errors.InsufficientPrivilege("permission denied for table x")),
    "S3 key": OSError("When reading key 'x' in bucket 'b': AWS Error INVALID_ACCESS_KEY_ID during GetObject operation"),
    "S3 right": OSError(
        "When reading key 'x' in bucket 'b': AWS Error ACCESS_DENIED during HeadObject operation: none"
    ),
    "folder": PermissionError(13, "Permission denied", "/warehouse/shop"),
}


@pytest.mark.parametrize("error", REFUSALS.values(), ids=REFUSALS)
def test_refusal_is_never_taken_for_a_fault_that_passes(kit: Kit, error: Exception) -> None:
    publication = kit.seed_table().merge_branch(FIRST)
    kit.port.tables.catalogs._connections = CONNECTION

    def refused() -> None:
        raise error

    late = change_after_load(kit, refused)
    for ask in (lambda: late.tables.read_state(TABLE, PIPELINE), lambda: late.commits.publish(publication)):
        with pytest.raises(
            ConfigurationError, match=r"^catalog=lake connection=lake_catalog: the log-in"
        ) as error_info:
            ask()
        assert "hunter2" not in str(error_info.value)
    assert kit.state().recorded_position == START


def test_error_that_nobody_foresaw_is_ours_with_its_kind_and_a_publish_of_it_is_looked_up(kit: Kit) -> None:
    publication = kit.seed_table().merge_branch(FIRST)

    def fails() -> None:
        raise ValueError("1 validation error for Schema\n  Value error, not so")

    late = change_after_load(kit, fails)
    with pytest.raises(
        RetryLater, match="state failed with an unexpected ValueError: 1 validation error for Schema V"
    ) as error_info:
        late.tables.read_state(TABLE, PIPELINE)
    assert isinstance(error_info.value.__cause__, ValueError)
    with pytest.raises(OutcomeUnknown, match="publish failed with an unexpected ValueError"):
        late.commits.publish(publication)


def test_lost_race_of_a_commit_that_is_no_publish_is_tried_again(kit: Kit) -> None:
    kit.seed_table()

    def fail_the_commit() -> None:
        raise CommitFailedException("branch main has changed")

    with pytest.raises(RetryLater, match=f"table={TABLE}: another writer changed it during evolve"):
        change_after_load(kit, fail_the_commit).tables.evolve(TABLE, (), add=True, widen=True, relax=True)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (
            CommitStateUnknownException("502 Bad Gateway"),
            OutcomeUnknown,
            "no answer during evolve, .*may have been made",
        ),
        (NoSuchTableError("shop.orders"), CommitRefused, "another writer changed it: shop.orders"),
    ],
)
def test_answer_to_a_change_of_columns_says_whether_it_is_known_what_became_of_it(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, answer: Exception, kind: type[Exception], message: str
) -> None:
    catalog = kit.seed_table().port.tables.catalogs.catalog("lake")

    def commit_table(*_: Any) -> None:
        raise answer

    monkeypatch.setattr(catalog, "commit_table", commit_table)
    with pytest.raises(kind, match=message):
        kit.port.tables.evolve(TABLE, (Column("note", "STRING"),), add=True, widen=True, relax=True)


def test_table_that_goes_while_it_is_read_is_no_unexpected_error(kit: Kit) -> None:
    kit.seed_table()

    def dropped() -> None:
        raise NoSuchTableError("Table does not exist: shop.orders")

    with pytest.raises(RetryLater, match=f"table={TABLE}: a table was dropped during read_state; it will be tried"):
        change_after_load(kit, dropped).tables.read_state(TABLE, PIPELINE)
