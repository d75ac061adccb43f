"""One broker and one Spark Connect server for the whole test run, and one workbench per test."""

import io
import json
import os
import signal
import subprocess
import tempfile
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import shared_servers
import yaml
from examples import choose_number, is_of_today
from hypothesis import HealthCheck, settings
from mutations.guards import list_guards
from unique_names import make_unique_name

# The machine is shared: an example may be slow, and a build must not depend on which examples chance picks.
settings.register_profile(
    "shared",
    deadline=None,
    max_examples=choose_number(100),
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("shared")

# Airflow settles on a database when it is first imported, by whichever test: never that of the user's own home.
_airflow = tempfile.TemporaryDirectory(prefix="tidegate-airflow-")
os.environ["AIRFLOW_HOME"] = _airflow.name

# The servers of a test run live for minutes and run each thing a few times. Without the JVM's second compiler the same
# tests take a quarter less time, and their Spark servers 116 CPU s in place of 165. With one compiler the JVM has room
# for 48 MB of code, full after half of the tests: from then on a thread that looks for code to throw away took a fifth
# of the server's CPU. And each time that its classes outgrow a bound, at first 21 MB, all of the heap is collected.
JVM_OPTIONS = (
    f"{shared_servers.FIRST_COMPILER_ALONE} -XX:ReservedCodeCacheSize=512m -XX:MetaspaceSize=512m"
    " -XX:+IgnoreUnrecognizedVMOptions -XX:SweeperThreshold=5"  # in percent of the room; Java 20 has no such thread
)
os.environ.setdefault("TIDEGATE_STACK_JVM_OPTIONS", JVM_OPTIONS)

ROOT = Path(__file__).parents[1]
# The files that take longest. Parts beside each other begin with them, so that none waits for another's last.
LONGEST_FILES = (
    "test_bigquery.py",
    "test_publications.py",
    "test_live_view.py",
    "test_one_merge.py",
    "test_values.py",
    "test_plain_records.py",
    "test_destination.py",
    "test_verify.py",
    "test_explain.py",
    "test_lake.py",
    "test_broker.py",
    "test_key_form.py",
    "test_row_semantics.py",
    "test_table_names.py",
    "test_added_columns.py",
    "test_expressions.py",
    "test_wire_formats.py",
    "test_transforms.py",
    "test_required_parts.py",
    "test_shared_topics.py",
    "test_schemas.py",
    "test_file_sql.py",
    "test_lake_expiry.py",
    "test_server_connections.py",
    "test_random_pipelines.py",
    "test_history.py",
    "test_connect_types.py",
)
# Servers that take a part of a run half a minute to start, and are needed by few files.
SERVERS_OF_ONE_PART = ("lake_servers", "bigquery")
DEADLINE_SECONDS = 600
DEFAULT_PARTITIONS = 2


@contextmanager
def _run_stack(tmp_path_factory: pytest.TempPathFactory, *parts: str) -> Iterator[Any]:
    """A private stack on free ports; it ends with the test run, or with the process if that is killed.

    TIDEGATE_TEST_STACK names a folder for servers that stay up between runs of a developer: see CONTRIBUTING.md.
    """
    from local.stack import start_stack

    kept_folder = os.environ.get("TIDEGATE_TEST_STACK")
    if kept_folder:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "")  # each has its own: a part's kills are not the others'
        yield start_stack(Path(kept_folder) / worker / "-".join(parts), parts=parts)
        return
    stack = start_stack(tmp_path_factory.mktemp("stack"), parts=parts, tied_to=os.getpid())
    try:
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The broker that all tests share, those of other processes of the run too."""
    return shared_servers.start_broker(shared_servers.find_folder(tmp_path_factory))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, kafka: Any) -> Any:
    """The broker, and the Spark server that all tests share, those of other processes of the run too."""
    return shared_servers.start_spark(kafka, shared_servers.find_folder(tmp_path_factory), shared_servers.SHARED)


@pytest.fixture
def own_stack(tmp_path_factory: pytest.TempPathFactory, kafka: Any) -> Iterator[Any]:
    """For tests that kill or freeze the Spark server, or count what it keeps or starts: no other test uses this one."""
    with shared_servers.hold_alone(kafka, shared_servers.find_folder(tmp_path_factory)) as stack:
        yield stack


@pytest.fixture
def registry() -> Iterator[Any]:
    """A schema registry of its own, empty."""
    from schema_registry import SchemaRegistry

    schema_registry = SchemaRegistry()
    yield schema_registry
    schema_registry.close()


@pytest.fixture(scope="module")
def spark(stack: Any) -> Iterator[Any]:
    """A session of the shared server, for tests that decode without a flush; evaluated as in a small batch."""
    from tidegate.jobs.evaluation import INTERPRETED_CONF
    from tidegate_spark.session import close, connect_session

    session = connect_session(stack.spark_remote, INTERPRETED_CONF)
    yield session
    close(session)


@pytest.fixture(scope="module")
def compiling_spark(stack: Any) -> Iterator[Any]:
    """A session in which Spark generates code, as for a large batch."""
    from tidegate_spark.session import close, connect_session

    session = connect_session(stack.spark_remote, {})
    yield session
    close(session)


@pytest.fixture(scope="session")
def admin(kafka: Any) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": kafka.kafka_bootstrap, "log_level": 0})


@pytest.fixture(scope="session")
def producer(kafka: Any) -> Iterator[Any]:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.kafka_bootstrap, "linger.ms": 5, "log_level": 0})
    yield producer
    producer.flush(30)


@pytest.fixture(scope="session")
def workbenches(stack: Any, admin: Any, producer: Any) -> "Callable[[Path], Workbench]":
    """Makes a workbench in a folder, for tests that share one."""
    return partial(Workbench, stack, admin, producer)


@pytest.fixture
def workbench(workbenches: "Callable[[Path], Workbench]", tmp_path: Path) -> "Workbench":
    """A fresh include folder with a private catalog, and everything to fill topics and to read tables."""
    return workbenches(tmp_path)


@pytest.fixture
def own_workbench(own_stack: Any, admin: Any, producer: Any, tmp_path: Path) -> "Workbench":
    """A workbench on a Spark server that no other test uses meanwhile."""
    return Workbench(own_stack, admin, producer, tmp_path)


@pytest.fixture(scope="session")
def bigquery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a private server that answers like BigQuery, started for the first test that asks.

    Empty for the service itself, where `make verify-bigquery` names a project.
    """
    if os.environ.get("TIDEGATE_BIGQUERY_PROJECT"):
        yield ""
        return
    from local.bigquery import environment

    if not environment.is_built():
        reason = "the local BigQuery server is not set up: run make setup WITH=bigquery, which needs Python 3.13"
        if os.environ.get("CI") and not os.environ.get("TIDEGATE_WITHOUT_BIGQUERY"):
            pytest.fail(f"{reason}; TIDEGATE_WITHOUT_BIGQUERY=1 says that it may be missing")
        pytest.skip(f"skipped: {reason}")
    with _run_stack(tmp_path_factory, "bigquery") as stack:
        yield stack.bigquery_endpoint


@pytest.fixture(scope="session")
def lake_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """PostgreSQL, a REST catalog on it, and a server like S3, started for the first test that asks."""
    import s3mock
    from lake_servers import PARTS, LakeServers
    from postgres import ALLOWED_WITHOUT

    if os.environ.get(ALLOWED_WITHOUT):
        pytest.skip(f"skipped: {ALLOWED_WITHOUT} is set")
    with ExitStack() as exit_stack:
        start = partial(_run_stack, tmp_path_factory, "rest")
        on_files = cache(lambda: exit_stack.enter_context(start()).variables["REST_CATALOG_URI"])
        mock_store = cache(lambda: exit_stack.enter_context(s3mock.run_s3mock(tmp_path_factory.mktemp("s3mock"))))
        yield LakeServers(
            exit_stack.enter_context(_run_stack(tmp_path_factory, *PARTS)).variables, on_files, mock_store
        )


@pytest.fixture(scope="session")
def registry_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A schema registry for one test, which is started again when it dies."""
    with _run_stack(tmp_path_factory, "registry") as stack:
        yield stack


@pytest.fixture
def dwh(workbench: "Workbench", bigquery: str) -> Iterator[Any]:
    """The BigQuery side of a test's workbench: a catalog `dwh` with a dataset of its own, which goes with the test."""
    from warehouse import WarehouseBench

    bench = WarehouseBench(workbench, bigquery)
    yield bench
    bench.drop()


@pytest.fixture
def keyboard() -> Iterator[None]:
    """SIGINT as in a terminal: a shell lets the programs that it starts in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def runners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Starts commands in processes of their own that meet a fault at a named point."""
    from crash.runner import Runners

    new_runners = Runners(tmp_path_factory.mktemp("runners"))
    yield new_runners
    new_runners.close()


def pytest_xdist_auto_num_workers() -> int:
    """Unit tests, which alone ask for it: for a quarter of their time they wait, for a clock or a child process."""
    return (os.cpu_count() or 2) * 3 // 2


def encode(data: Any) -> bytes | None:
    """A key or value as bytes: dicts become JSON, text and bytes stay what they are."""
    if data is None or isinstance(data, bytes):
        return data
    return data.encode() if isinstance(data, str) else json.dumps(data).encode()


class Workbench:
    """A pipeline's world in one folder. Records are (key, value), or (key, value, {partition, timestamp, headers})."""

    def __init__(
        self, stack: Any, admin: Any, producer: Any, folder: Path, client: dict[str, str] | None = None
    ) -> None:
        from tidegate.adapters.iceberg.catalog import prepare_database

        self.stack, self.admin, self._producer, self.folder = stack, admin, producer, folder
        self._client = client  # None: as the stack is reached, which may be started later than this is made
        self._spread: set[str] = set()
        self.include = folder / "include"
        (self.include / "pipelines").mkdir(parents=True)
        self.warehouse = folder / "warehouse"
        database = folder / "catalog.db"
        self.properties = {"type": "sql", "uri": f"sqlite:///{database}", "warehouse": f"file://{self.warehouse}"}
        catalogs = {"lake": {"type": "iceberg", "properties": self.properties}}
        (self.include / "catalogs.yaml").write_text(yaml.safe_dump(catalogs))
        prepare_database(database)

    # topics

    def topic(self, partitions: int | None = None, name: str | None = None, **config: str) -> str:
        """Create a topic that no other test uses; return its name.

        By default it has two partitions, and `produce` spreads the keys over them. In one with a number of partitions
        that the test names, records go where the test says, and else into partition 0.
        """
        if partitions is None:
            name = self.topic(DEFAULT_PARTITIONS, name, **config)
            self._spread.add(name)
            return name
        from confluent_kafka.admin import NewTopic

        name = name or make_unique_name()
        new = NewTopic(name, partitions, config=config)  # as many replicas as the stack has brokers
        self.admin.create_topics([new])[name].result(30)
        wait_until(lambda: self._is_answering(name, partitions), f"topic={name} exists")
        return name

    def recreate(self, topic: str, partitions: int = 1, **config: str) -> None:
        self.admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: not self._partitions(topic), f"topic={topic} is gone")
        self._spread.discard(topic)
        self.topic(partitions, topic, **config)

    def grow(self, topic: str, partitions: int) -> None:
        from confluent_kafka.admin import NewPartitions

        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
        wait_until(lambda: self._is_answering(topic, partitions), f"topic={topic} has grown")

    def retain_from(self, topic: str, offset: int, partition: int = 0) -> None:
        from confluent_kafka import TopicPartition

        place = TopicPartition(topic, partition, offset)
        self.admin.delete_records([place])[place].result(30)

    def _is_answering(self, topic: str, partitions: int) -> bool:
        """Whether every partition has a leader that answers: the metadata knows them a moment earlier."""
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import AdminClient, OffsetSpec

        offset_specs = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
        # a client that was told "not the leader" once keeps asking by its old metadata: a new one for each try
        settings = self._client or {"bootstrap.servers": self.stack.kafka_bootstrap}
        client = AdminClient({**settings, "log_level": 0})
        try:
            return all(future.result(30) for future in client.list_offsets(offset_specs).values())
        except KafkaException:
            return False

    def exists_topic(self, topic: str) -> bool:
        return bool(self._partitions(topic))

    def _partitions(self, topic: str) -> dict[int, Any]:
        metadata = self.admin.list_topics(timeout=30).topics.get(topic)
        return metadata.partitions if metadata and not metadata.error else {}

    # records

    def produce(self, topic: str, *records: tuple[Any, ...]) -> None:
        """Send and wait until the brokers have them all, in order."""
        failures: list[Any] = []
        self._send(self._producer, topic, records, lambda error, _: failures.append(error) if error else None)
        assert self._producer.flush(60) == 0
        assert not failures, failures

    def transaction(self, topic: str, *records: tuple[Any, ...], commit: bool = True) -> None:
        """The records in one transaction, ended by its marker."""
        transactional = self.open_transactional_producer()
        transactional.begin_transaction()
        self._send(transactional, topic, records)
        transactional.flush(60)
        self.end_transaction(transactional, topic, commit=commit)

    def end_transaction(self, transactional: Any, topic: str, *, commit: bool = True) -> None:
        """End the topic's one open transaction; brokers write its markers a moment after they have answered."""
        transactional.commit_transaction(60) if commit else transactional.abort_transaction(60)
        wait_until(
            lambda: self.read_ends(topic) == self.read_ends(topic, isolation="read_uncommitted"), f"markers in {topic}"
        )

    def open_transactional_producer(self) -> Any:
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": self.stack.kafka_bootstrap, "transactional.id": f"x-{make_unique_name()}"}
        producer = Producer({**settings, "log_level": 0})
        producer.init_transactions(60)
        return producer

    def _send(self, producer: Any, topic: str, records: tuple[tuple[Any, ...], ...], callback: Any = None) -> None:
        for key, value, *further_options in records:
            options = {
                "partition": self._choose_partition(topic, encode(key)),
                **(further_options[0] if further_options else {}),
            }
            producer.produce(topic, encode(value), encode(key), on_delivery=callback, **options)
            producer.poll(0)

    def _choose_partition(self, topic: str, key: bytes | None) -> int:
        """By the key, as a producer does by default, so that the records of a key stay in order."""
        return zlib.crc32(key) % DEFAULT_PARTITIONS if topic in self._spread and key is not None else 0

    # pipelines

    def pipeline(self, name: str, topics: list[str], **sections: Any) -> str:
        """Write a pipeline file. `source`, `key` and `value` are merged into it; `table` is the one destination's."""
        source = {"topics": topics, **sections.pop("source", {})}
        for part in ("key", "value"):
            if part in sections:
                source[part] = sections.pop(part)
        tables = sections.pop("tables", None) or [{"name": f"lake.shop.{name}", **sections.pop("table", {})}]
        text = yaml.safe_dump({"source": source, "tables": tables, **sections}, sort_keys=False)
        (self.include / "pipelines" / f"{name}.yaml").write_text(text)
        return name

    def resolve(self) -> Callable[[str], Any]:
        from tidegate.connections import read_connection_from_env

        return partial(read_connection_from_env, environ=self.build_environment())

    def open_session(self, name: str, **replacements: Any) -> Any:
        """The real ports of a pipeline, in this process."""
        from tidegate.wiring.pipeline import assemble_pipeline

        return assemble_pipeline(self.include, name, self.resolve(), **replacements)

    def flush(self, name: str) -> Any:
        from tidegate.flush.flush import flush

        return flush(self.open_session(name))

    def drain(self, name: str) -> int:
        """Flush until there is nothing to do; return the number of flushes that had work."""
        from tidegate.errors import NothingToDo

        for number in range(100):
            try:
                self.flush(name)
            except NothingToDo:
                return number
        raise AssertionError(f"pipeline={name} never came to rest")

    def build_environment(self) -> dict[str, str]:
        return {**self.stack.build_environment(), "TIDEGATE_INCLUDE": str(self.include)}

    def build_command(self, *words: str) -> list[str]:
        return [str(ROOT / "bin" / "tidegate"), *words]

    def run_cli(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """One command as `bin/tidegate` runs it, in this process: its exit code and what it wrote."""
        from tidegate.cli.main import main

        output, errors = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
            for name, value in self.build_environment().items():
                patch.setenv(name, value)
            patch.chdir(self.folder)
            patch.setattr("sys.stdin", io.StringIO())
            try:
                code = main(words)
            except SystemExit as end:  # argparse's, for wrong usage
                code = int(end.code or 0)
        return subprocess.CompletedProcess(words, code, output.getvalue(), errors.getvalue())

    def run_process(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """One command in a process of its own, as a user runs it; seconds, most of them for imports."""
        return subprocess.run(
            self.build_command(*words),
            env=self.build_environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )

    # destinations

    def load_iceberg(self, table: str) -> Any:
        """A fresh load by PyIceberg; `table` with or without its catalog."""
        from tidegate.adapters.iceberg.catalog import Catalogs

        iceberg_table = Catalogs({"lake": self.properties}).table(f"lake.{table.removeprefix('lake.')}")
        assert iceberg_table is not None, f"table={table} does not exist"
        return iceberg_table

    def exists(self, table: str) -> bool:
        from tidegate.adapters.iceberg.catalog import Catalogs

        return Catalogs({"lake": self.properties}).table(f"lake.{table.removeprefix('lake.')}") is not None

    def read_rows(self, table: str) -> list[dict[str, Any]]:
        """The table's rows, ordered by their columns as JSON."""
        rows = self.load_iceberg(table).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: json.dumps(row, default=repr))

    def list_data_files(self, table: str) -> list[Path]:
        """Data files on disk below the table's location, with or without a reference to them."""
        location = Path(self.load_iceberg(table).location().removeprefix("file://"))
        return sorted(path for path in (location / "data").rglob("*") if path.is_file() and path.suffix != ".crc")

    def run_spark_sql(self, *statements: str) -> list[Any]:
        """Run statements as another Spark user, in a new session with this workbench's catalog; the last one's rows."""
        with self.open_spark() as session:
            return [session.sql(statement).collect() for statement in statements][-1]

    @contextmanager
    def open_spark(self) -> Iterator[Any]:
        """A new session with this workbench's catalog."""
        from tidegate.adapters.iceberg.catalog_conf import build_spark_catalog_conf
        from tidegate.spec.pipeline import Catalog
        from tidegate_spark.session import close, connect_session

        catalog = Catalog("lake", "iceberg", self.properties)
        session = connect_session(self.stack.spark_remote, build_spark_catalog_conf(catalog, self.properties))
        try:
            yield session
        finally:
            close(session)

    def committed(self, name: str) -> dict[str, dict[int, int]]:
        """The pipeline's group offsets as Kafka tells them."""
        source, broker = (session := self.open_session(name)).pipeline.source, session.broker
        topics = broker.list_topics(source.topic_pattern) if source.topic_pattern else source.topics
        return broker.read_committed(source.group, topics)

    def read_ends(self, *topics: str, isolation: str = "read_committed") -> dict[str, dict[int, int]]:
        from tidegate.adapters.kafka.broker import KafkaBroker

        broker = KafkaBroker({"bootstrap.servers": self.stack.kafka_bootstrap})
        return broker.read_log(topics, isolation).end


def build_debezium_event(
    op: str, before: Any = None, after: Any = None, *, envelope: bool = False, **fields: Any
) -> dict[str, Any]:
    """A change event as Debezium writes it, with or without Kafka Connect's schema envelope."""
    event = {"before": before, "after": after, "op": op, "source": {"table": "orders"}, "ts_ms": 1, **fields}
    return {"schema": {"type": "struct"}, "payload": event} if envelope else event


def wait_until(
    condition: Callable[[], bool], expectation: str, seconds: float = DEADLINE_SECONDS, pause: float = 0.05
) -> None:
    """Poll until the condition holds; AssertionError after a generous while. A look that costs much takes a `pause`."""
    import time

    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {expectation}"
        time.sleep(pause)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What tests counted with ``record_property("counted", {what: number})``, added up over all of them."""
    totals: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, numbers in report.user_properties:
            totals.update(numbers if name == "counted" else {})
    if totals:
        terminalreporter.write_line("counted: " + ", ".join(f"{number} {label}" for label, number in totals.items()))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The servers that the run shares go with it."""
    shared_servers.stop_servers(session.config._tmp_path_factory)  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A minute before a test that hangs is ended, its Spark server writes the stacks of its threads into its log."""
    limit = float(item.config.getini("faulthandler_timeout") or 0)
    names = {"stack", "own_stack"} & set(getattr(item, "fixturenames", ()))
    if limit <= 60 or not names:
        return (yield)

    def ask() -> None:
        for name in names:
            with suppress(Exception):  # it may be away, or not there yet
                os.kill(int(getattr(item, "funcargs", {})[name].variables["SPARK_PID"]), signal.SIGQUIT)

    timer = threading.Timer(limit - 60, ask)
    timer.daemon = True
    timer.start()
    try:
        return (yield)
    finally:
        timer.cancel()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse parts of a run without groups: each part would start every server, and share no fixture of a file."""
    if getattr(session.config.option, "loadgroup", False) and not all("@" in item.nodeid for item in session.items):
        raise pytest.UsageError("pytest-xdist lost the groups of tests: does it know this version of pytest?")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist writes the groups into the names of tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what repeats a quick test `long`, and what needs the stack `real`; these run last, longest files first.

    Parts of a run take whole files, and all files that need one of `SERVERS_OF_ONE_PART`.
    """
    if not any("::" in word for word in config.args):
        nodes = {item.nodeid for item in items}
        if unknown := _find_unknown_repeats(items) + _find_unknown_tests(
            nodes, (guard.test for guard in list_guards())
        ):
            raise pytest.UsageError(f"`repeats` or `guard` names what is not there: {unknown}")
    for item in items:
        if item.get_closest_marker("long"):
            raise pytest.UsageError(
                f"{item.nodeid} is marked as long: mark it `repeats`, with the quick test of its hazard"
            )
        if any(_get_parameters(item) in mark.args[1:] or not mark.args[1:] for mark in item.iter_markers("repeats")):
            item.add_marker(pytest.mark.long)
    if left := [item for item in items if item.get_closest_marker("long") and not is_of_today(item.nodeid)]:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]
    servers = {"kafka", "stack", "own_stack", "bigquery", "lake_servers", "registry_stack"}
    real = {item for item in items if servers & set(getattr(item, "fixturenames", ()))}
    for item in real:
        item.add_marker(pytest.mark.real)
    servers_of = {
        item.path: server
        for item in items
        for server in SERVERS_OF_ONE_PART
        if server in getattr(item, "fixturenames", ())
    }
    for item in items:  # one that is itself in a group stays there: a parameter of a suite over all destinations
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(servers_of.get(item.path, item.path.stem)))
    rank = {name: place for place, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: (item in real, rank.get(item.path.name, len(rank)) if item in real else 0))


def _get_parameters(item: pytest.Item) -> str:
    return item.callspec.id if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ""


def _find_unknown_repeats(items: list[pytest.Item]) -> list[str]:
    """The parameters that a mark `repeats` names and no test has."""
    named = {(item.location[0], item.originalname, word) for item in items if isinstance(item, pytest.Function)
             for mark in item.iter_markers("repeats") for word in mark.args[1:]}  # fmt: skip
    there = {(item.location[0], item.originalname, _get_parameters(item)) for item in items
             if isinstance(item, pytest.Function)}  # fmt: skip
    return [f"{file}::{test}[{word}]" for file, test, word in sorted(named - there)]


def _find_unknown_tests(nodes: set[str], listed: Iterable[str]) -> list[str]:
    """What is listed of the tests that were collected, all with all of their parameters, and is not among them."""
    tests = {node.partition("[")[0] for node in nodes}
    return sorted(name for name in {*listed} - nodes - tests if name.partition("[")[0] in tests)
