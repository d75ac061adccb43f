"""What the page opens for its pipelines: shared where two pipelines mean the same thing, each one's own where not."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from contract.test_destination import Kit, build_iceberg_kit
from contract_words import FIRST, START, TABLE
from fakes.clock import SteppedTime
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.connections import Connection
from tidegate.errors import ConfigurationError
from tidegate.model import resource_names
from tidegate.runner import pipeline_files
from tidegate.wiring.pipeline import find_file
from tidegate_airflow.web import pipeline_contexts
from tidegate_airflow.web.pipeline_contexts import PipelineContexts
from tidegate_airflow.web.publications import PublicationsView

VALUE = {"format": "json", "schema": "id STRING, n INT"}


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return build_iceberg_kit(tmp_path)


class Vault:
    """Connections, which somebody may change."""

    def __init__(self, **extra: str) -> None:
        self.extra = extra

    def __call__(self, conn_id: str) -> Connection | None:
        if conn_id == "lake_login":
            return Connection("lake_login", extra=dict(self.extra))
        return Connection(conn_id, host="sc://nowhere", extra={"bootstrap.servers": "localhost:1"})


def build_contexts(folder: Path, vault: Vault, **tables: dict[str, Any]) -> PipelineContexts:
    """Pipelines by name, each with its one table, on one catalog that has a connection."""
    place = {"uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder / 'warehouse'}"}
    lake = {"type": "iceberg", "properties": {"type": "sql", **place}, "connection": "lake_login"}
    (folder / "pipelines").mkdir()
    (folder / "catalogs.yaml").write_text(yaml.safe_dump({"lake": lake}))
    for name, table in tables.items():
        source = {"topics": ["t"], "key": {"fields": ["id"], "schema": "id STRING"}, "value": VALUE}
        text = yaml.safe_dump({"source": source, "tables": [table]})
        (folder / "pipelines" / f"{name}.yaml").write_text(text)
    return PipelineContexts(folder, vault)


def test_table_on_a_named_branch_is_healthy_beside_a_pipeline_that_was_opened_first(kit: Kit, tmp_path: Path) -> None:
    kit.create()
    writer = build_iceberg_destination(kit.port.tables.catalogs, {TABLE: "staging"})
    writer.commits.seed(TABLE, "branched", START)
    kit.port = writer
    writer.commits.publish(kit.merge_branch(FIRST, "branched"))
    contexts = build_contexts(
        tmp_path, Vault(), aaa={"name": "lake.shop.other"}, branched={"name": TABLE, "branch": "staging"}
    )
    for name in contexts.list_names():
        contexts.get_context(name)
    state = contexts.get_context("branched").session.tables.read_state(TABLE, "branched")
    assert (state.is_rolled_back, state.position) == (False, FIRST)
    assert state.snapshot_id == kit.load(TABLE).metadata.refs["staging"].snapshot_id
    assert kit.load(TABLE).metadata.refs["main"].snapshot_id != state.snapshot_id
    assert resource_names.name_tag("branched") in kit.load(TABLE).metadata.refs


def get_client(contexts: PipelineContexts, name: str) -> Any:
    return contexts.get_context(name).session.tables.catalogs.catalog("lake")


def test_pipelines_share_a_catalogs_client_until_its_secret_is_another(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = Vault(**{"s3.secret-access-key": "old"})
    contexts = build_contexts(tmp_path, vault, one={"name": TABLE}, two={"name": "lake.shop.other"})
    old = get_client(contexts, "one")
    assert old is get_client(contexts, "two")
    assert old.properties["s3.secret-access-key"] == "old"
    vault.extra["s3.secret-access-key"] = "new"
    assert get_client(contexts, "one") is old, "kept for some minutes"
    monkeypatch.setattr(pipeline_contexts, "CONTEXT_TTL_SECONDS", -1.0)
    assert get_client(contexts, "one").properties["s3.secret-access-key"] == "new"
    assert get_client(contexts, "two") is get_client(contexts, "one")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppedTime:
    stepped_time = SteppedTime()
    for module in (pipeline_contexts, pipeline_files):
        monkeypatch.setattr(module, "time", stepped_time)
    return stepped_time


def test_secret_that_was_changed_after_a_reading_failed_is_used_within_seconds(
    kit: Kit, tmp_path: Path, clock: SteppedTime
) -> None:
    vault = Vault(**{"s3.secret-access-key": "old"})
    contexts = build_contexts(tmp_path, vault, one={"name": TABLE}, two={"name": "lake.shop.other"})
    old = get_client(contexts, "one")
    vault.extra["s3.secret-access-key"] = "new"
    contexts.report_failure("one")
    clock.seconds += 6
    assert get_client(contexts, "one").properties["s3.secret-access-key"] == "new"
    assert contexts.get_context("two").session.pipeline.name == "two"
    assert get_client(contexts, "one") is not old
    vault.extra["s3.secret-access-key"] = "newer"
    clock.seconds += 6
    assert get_client(contexts, "one").properties["s3.secret-access-key"] == "new", "it was read well since"


def test_connection_that_was_missing_is_found_within_seconds_after_it_was_made(
    kit: Kit, tmp_path: Path, clock: SteppedTime
) -> None:
    known: dict[str, Connection] = {}

    def resolve(conn_id: str) -> Connection | None:
        return known.get(conn_id) if conn_id == "kafka_default" else Vault()(conn_id)

    build_contexts(tmp_path, Vault(), one={"name": TABLE}, two={"name": "lake.shop.other"})
    pipeline_contexts = PipelineContexts(tmp_path, resolve)
    for name in ("one", "two"):
        with pytest.raises(ConfigurationError, match="kafka_default"):
            pipeline_contexts.get_context(name)
    known["kafka_default"] = Connection("kafka_default", extra={"bootstrap.servers": "localhost:1"})
    clock.seconds += 6
    assert [pipeline_contexts.get_context(name).session.pipeline.name for name in ("one", "two")] == ["one", "two"]


def test_fleet_of_a_pipeline_is_read_again_when_its_file_or_the_defaults_change(tmp_path: Path) -> None:
    contexts = build_contexts(tmp_path, Vault(), orders={"name": "lake.shop.orders"})
    assert contexts.get_fleet("orders") is None
    (tmp_path / "defaults.yaml").write_text("fleet: all\n")
    assert contexts.get_fleet("orders") == "all"
    file = tmp_path / "pipelines" / "orders.yaml"
    file.write_text(file.read_text() + "fleet: shop\ncolour: red\n")
    assert contexts.get_fleet("orders") == "shop", "a file that is wrong says where it belongs"


def test_pipelines_that_went_keep_nothing_open(tmp_path: Path) -> None:
    """A file for each tenant that comes and goes would leave the threads of its brokers' client for ever."""
    contexts = build_contexts(tmp_path, Vault(), one={"name": "lake.shop.one"}, two={"name": "lake.shop.two"})
    text = (tmp_path / "pipelines" / "two.yaml").read_text()
    for name in (f"tenant_{number}" for number in range(3)):
        file = tmp_path / "pipelines" / f"{name}.yaml"
        kafka = {"source": {**yaml.safe_load(text)["source"], "kafka": f"brokers_of_{name}"}}
        file.write_text(yaml.safe_dump({**yaml.safe_load(text), **kafka, "tables": [{"name": f"lake.shop.{name}"}]}))
        assert name in contexts.list_names()
        contexts.get_context(name)
        contexts.get_fleet(name)
        file.unlink()
    assert contexts.list_names() == ["one", "two"]
    contexts.get_context("one")
    assert set(contexts._cached_contexts) == {"one"}
    assert set(contexts._fleets) <= {"one", "two"}
    assert len(contexts._brokers) == 1


def test_files_that_an_editor_or_a_file_system_left_are_no_pipelines(tmp_path: Path) -> None:
    contexts = build_contexts(tmp_path, Vault(), one={"name": TABLE}, two={"name": "lake.shop.other"})
    (tmp_path / "pipelines" / ".#one.yaml").symlink_to("somebody@somewhere.123")
    (tmp_path / "pipelines" / "._two.yaml").write_bytes(b"\x00\x05\x16\x07")
    assert contexts.list_names() == ["one", "two"]
    (tmp_path / "publications").mkdir()
    (tmp_path / "publications" / "out.yaml").write_text("table: lake.shop.orders\n")
    (tmp_path / "publications" / "._out.yaml").write_bytes(b"\x00\x05\x16\x07")
    assert PublicationsView(tmp_path, Vault()).list_names() == ["out"]
    with pytest.raises(ConfigurationError, match=r"no such pipeline; there are: one, two$"):
        find_file(tmp_path, "pipeline", "three")


def test_file_that_is_refused_for_another_one_says_so_as_airflow_does(tmp_path: Path, clock: SteppedTime) -> None:
    """Airflow makes no DAG of it, so that nothing would ever be flushed."""
    contexts = build_contexts(tmp_path, Vault(), one={"name": TABLE}, two={"name": "lake.shop.other"})
    assert contexts.get_context("two").session.pipeline.name == "two"
    two = tmp_path / "pipelines" / "two.yaml"
    right, table = two.read_text(), resource_names.name_intermediate_table
    first = contexts.get_context("one").session.pipeline
    two.write_text(right.replace("lake.shop.other", table(first, first.tables[0])))
    with pytest.raises(ConfigurationError, match=r"two\.yaml: pipeline one needs .* too; rename one of the two files"):
        contexts.get_context("two")
    assert contexts.get_context("one").session.pipeline.name == "one"
    (tmp_path / "pipelines" / "one.yaml").unlink()
    clock.seconds += 6
    assert contexts.get_context("two").session.pipeline.name == "two"


def test_member_of_a_fleet_that_lies_in_another_catalog_says_so(tmp_path: Path) -> None:
    contexts = build_contexts(tmp_path, Vault(), one={"name": TABLE}, two={"name": "pond.shop.other"})
    catalogs = yaml.safe_load((tmp_path / "catalogs.yaml").read_text())
    (tmp_path / "catalogs.yaml").write_text(yaml.safe_dump({**catalogs, "pond": catalogs["lake"]}))
    (tmp_path / "defaults.yaml").write_text("fleet: all\n")
    with pytest.raises(ConfigurationError, match="give the file another fleet"):
        contexts.get_context("two")
    assert contexts.get_context("one").session.pipeline.fleet == "all"


def test_publication_whose_topic_another_one_has_says_so(tmp_path: Path) -> None:
    build_contexts(tmp_path, Vault(), one={"name": TABLE})
    (tmp_path / "publications").mkdir()
    for name in ("first", "second"):
        text = yaml.safe_dump({"table": TABLE, "topic": "out", "key": {"fields": ["id"]}})
        (tmp_path / "publications" / f"{name}.yaml").write_text(text)
    view = PublicationsView(tmp_path, Vault())
    assert view.get_session("first").publication.name == "first"
    with pytest.raises(ConfigurationError, match=r"second\.yaml: publication first has topic=out too"):
        view.get_session("second")


def test_connection_that_nobody_answers_for_keeps_no_pipeline_of_another_waiting(tmp_path: Path) -> None:
    gate, vault = threading.Event(), Vault()

    def hang(conn_id: str) -> Connection | None:
        assert conn_id != "slow_brokers" or gate.wait(60)
        return vault(conn_id)

    contexts = build_contexts(tmp_path, vault, one={"name": TABLE}, two={"name": "lake.shop.other"})
    file = tmp_path / "pipelines" / "one.yaml"
    data = yaml.safe_load(file.read_text())
    data["source"]["kafka"] = "slow_brokers"
    file.write_text(yaml.safe_dump(data))
    contexts._resolve = hang
    assert contexts.find_place("one") != contexts.find_place("two")
    with ThreadPoolExecutor(2) as workers:
        one = workers.submit(contexts.get_context, "one")
        try:
            two = workers.submit(contexts.get_context, "two").result(20)
            assert not one.done()
        finally:
            gate.set()
        assert one.result(60).session.broker is two.session.broker, "both connections name one cluster"


def test_connection_that_nobody_answers_for_keeps_only_those_waiting_who_open_pipelines(tmp_path: Path) -> None:
    """A secrets backend that hangs: each request of the page asks which pipelines there are."""
    asked, gate, vault = threading.Event(), threading.Event(), Vault()

    def hang(conn_id: str) -> Connection | None:
        asked.set()
        assert gate.wait(60)
        return vault(conn_id)

    contexts = build_contexts(tmp_path, vault, one={"name": TABLE}, two={"name": "lake.shop.other"})
    contexts._resolve = hang
    with ThreadPoolExecutor(3) as workers:
        opened = [workers.submit(contexts.get_context, name) for name in ("one", "two")]
        assert asked.wait(60)
        try:
            assert workers.submit(contexts.list_names).result(20) == ["one", "two"]
        finally:
            gate.set()
        one, two = (context.result(60) for context in opened)
    assert one.session.broker is two.session.broker
    assert contexts.get_context("one") is one


def test_client_of_brokers_that_nobody_uses_any_more_is_forgotten_when_names_are_listed(tmp_path: Path) -> None:
    """Its threads would go on knocking at brokers of a pipeline whose file went hours ago."""
    contexts = build_contexts(tmp_path, Vault(), one={"name": "lake.shop.one"}, two={"name": "lake.shop.two"})
    file = tmp_path / "pipelines" / "two.yaml"
    pipeline_text = yaml.safe_load(file.read_text())
    own_brokers = {**pipeline_text, "source": {**pipeline_text["source"], "kafka": "brokers_of_two"}}
    file.write_text(yaml.safe_dump(own_brokers))
    contexts._resolve = lambda conn_id: Connection(conn_id, extra={"bootstrap.servers": f"{conn_id}:1"})
    for name in ("one", "two"):
        contexts.get_context(name)
    kept = contexts.get_context("one").session.broker
    assert len(contexts._brokers) == 2
    file.unlink()
    assert contexts.list_names() == ["one"]
    assert list(contexts._brokers.values()) == [kept]


def test_brokers_of_a_pipeline_that_is_being_opened_are_kept(tmp_path: Path) -> None:
    """The next pipeline of these brokers would open a second client beside its own."""
    asked, gate, vault = threading.Event(), threading.Event(), Vault()
    contexts = build_contexts(tmp_path, vault, one={"name": TABLE}, two={"name": "lake.shop.other"})
    first = contexts.get_context("one").session.broker
    file = tmp_path / "pipelines" / "one.yaml"

    def hang(conn_id: str) -> Connection | None:
        if conn_id == "lake_login":  # the brokers are chosen already
            asked.set()
            assert gate.wait(60)
        return vault(conn_id)

    contexts._resolve = hang
    with ThreadPoolExecutor(1) as worker:
        opened = worker.submit(contexts.get_context, "two")
        assert asked.wait(60)
        try:
            file.unlink()
            contexts.list_names()
            assert list(contexts._brokers.values()) == [first]
        finally:
            gate.set()
        assert opened.result(60).session.broker is first
    assert list(contexts._brokers.values()) == [first]
