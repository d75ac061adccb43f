"""What the local Airflow is made of: two schedulers and Celery's workers where they are asked for, and can work."""

import stat
from configparser import RawConfigParser
from pathlib import Path

import pytest

from local.airflow import environment, rabbitmq, redis, services, settings, workers
from local.airflow.settings import Shape
from local.errors import StackError
from local.layout import ROOT, RunDir
from local.server import Server
from local.setup import compute_digest

METADATA = "postgresql+psycopg2://tidegate:s3cret@127.0.0.1:3/airflow"
QUEUE = workers.Queue(2, "qu3ue")


def read_settings(folder: Path, shape: Shape) -> RawConfigParser:
    settings.write_settings(folder, 1, METADATA, shape)
    parser = RawConfigParser()
    parser.read(folder / "airflow.cfg")
    return parser


def build(folder: Path, parts: list[str], queue: workers.Queue | None = None) -> list[Server]:
    place = services.Addresses(1, METADATA, queue)
    return services.build_servers(RunDir(folder), ["airflow", "postgres", *parts], place, folder, {})


@pytest.fixture
def celery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery's packages and Redis as if they were there."""
    program = tmp_path / "redis" / "usr" / "bin" / "redis-server"
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.setattr(redis, "REDIS", tmp_path / "redis")
    monkeypatch.setattr(redis.shutil, "which", lambda _: None)
    monkeypatch.setattr(environment, "is_built", lambda: True)


@pytest.mark.parametrize("part", ["schedulers", "celery"])
def test_part_that_shares_the_metadata_asks_for_a_server_of_it(part: str) -> None:
    with pytest.raises(StackError, match=rf'^{part} needs postgres beside it: WITH="airflow postgres {part}"$'):
        services.check_parts(["kafka", "airflow", part])
    with pytest.raises(StackError, match=f"^{part} needs airflow and postgres"):
        services.check_parts(["kafka", part])
    services.check_parts(["kafka", "airflow", "postgres", part])
    with pytest.raises(StackError, match=r"^rabbitmq needs celery beside it"):
        services.check_parts(["airflow", "postgres", "rabbitmq"])


def test_tasks_of_a_lost_worker_wait_for_less_where_others_can_take_them(tmp_path: Path) -> None:
    alone, both_schedulers = (read_settings(tmp_path / str(two), Shape(two)) for two in (False, True))
    assert alone.get("core", "executor") == both_schedulers.get("core", "executor") == "LocalExecutor"
    assert not alone.has_option("scheduler", "task_instance_heartbeat_timeout")
    assert both_schedulers.getint("scheduler", "task_instance_heartbeat_timeout") == 60
    assert both_schedulers.get("database", "sql_alchemy_conn") == METADATA


def test_idle_scheduler_looks_ten_times_a_second_or_as_often_as_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_settings(tmp_path / "default", Shape()).getfloat("scheduler", "scheduler_idle_sleep_time") == 0.1
    monkeypatch.setenv(settings.IDLE_SLEEP_VARIABLE, "0.4")
    assert read_settings(tmp_path / "told", Shape()).getfloat("scheduler", "scheduler_idle_sleep_time") == 0.4


def test_dag_file_is_parsed_again_every_half_minute_or_after_the_interval_of_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_settings(tmp_path / "default", Shape()).getint("dag_processor", "min_file_process_interval") == 30
    monkeypatch.setenv(settings.PARSE_INTERVAL_VARIABLE, "900")
    assert read_settings(tmp_path / "other", Shape()).getint("dag_processor", "min_file_process_interval") == 900


def test_another_version_of_the_product_runs_where_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a link, which stays one: what it leads to is read when a service starts."""
    link = tmp_path / "product"
    link.symlink_to(tmp_path)
    for source_root, folder in ((None, ROOT), (str(link), link)):
        if source_root:
            monkeypatch.setenv(settings.PRODUCT_VARIABLE, source_root)
        written_settings = read_settings(tmp_path / str(bool(source_root)), Shape())
        assert written_settings.get("core", "dags_folder") == str(folder / "dags")
        assert written_settings.get("core", "plugins_folder") == str(folder / "plugins")
        paths = {server.env["PYTHONPATH"] for server in build(tmp_path / "run", [])}
        assert paths == {f"{folder / 'plugins'}:{folder / 'jobs'}"}


def test_queue_makes_the_executor_celerys_and_its_password_stands_in_files_alone(tmp_path: Path, celery: None) -> None:
    settings = read_settings(tmp_path / "home", Shape(queue=QUEUE.uri))
    assert settings.get("core", "executor") == "CeleryExecutor"
    assert settings.get("celery", "broker_url") == "redis://:qu3ue@127.0.0.1:2/0"
    servers = build(tmp_path / "run", ["celery"], QUEUE)
    assert "qu3ue" not in str([(server.command, dict(server.env)) for server in servers])
    (queue,) = (server for server in servers if server.name == "redis")
    queue.prepare()
    assert "requirepass qu3ue\n" in (tmp_path / "run" / "redis" / "redis.conf").read_text()
    assert stat.S_IMODE((tmp_path / "run" / "redis").stat().st_mode) == 0o700
    assert "bind 127.0.0.1\n" in (tmp_path / "run" / "redis" / "redis.conf").read_text()


def test_rabbitmq_takes_the_place_of_redis_where_it_is_asked_for(
    tmp_path: Path, celery: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "unpacked"
    program = root / "usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8/sbin/rabbitmq-server"
    program.parent.mkdir(parents=True)
    program.touch()
    erlang = root / "usr/lib/erlang"
    (erlang / "erts-13" / "bin").mkdir(parents=True)
    monkeypatch.setattr(rabbitmq, "find_program", lambda: program)
    port_numbers = {"celery": 1, "rabbitmq": 2, "rabbitmq_epmd": 3, "rabbitmq_node": 4}
    assert workers.choose_queue(["airflow"], port_numbers, "qu3ue") is None
    plain, queue = (
        workers.choose_queue(["celery", *extra_parts], port_numbers, "qu3ue") for extra_parts in ((), ("rabbitmq",))
    )
    assert plain == workers.Queue(1, "qu3ue")
    assert queue is not None
    assert queue.uri == "amqp://tidegate:qu3ue@127.0.0.1:2//"
    servers = build(tmp_path / "run", ["celery"], queue)
    assert "redis" not in {server.name for server in servers}
    assert "qu3ue" not in str([(server.command, dict(server.env)) for server in servers])
    (server,) = (server for server in servers if server.name == "rabbitmq")
    server.prepare()
    conf_file = tmp_path / "run" / "rabbitmq" / "rabbitmq.conf"
    assert "default_pass = qu3ue\n" in conf_file.read_text()
    assert stat.S_IMODE(conf_file.stat().st_mode) == 0o600
    assert f"ROOTDIR='{erlang}' BINDIR='{erlang}/erts-13/bin' " in (conf_file.parent / "bin" / "erl").read_text()
    assert (server.env["ERL_EPMD_PORT"], server.env["RABBITMQ_DIST_PORT"]) == ("3", "4")


def test_each_service_is_a_server_of_its_own_with_a_name_for_its_process(tmp_path: Path, celery: None) -> None:
    alone = {"airflow-scheduler", "airflow-api-server", "airflow-dag-processor", "airflow-triggerer"}
    assert {server.name for server in build(tmp_path, [])} == alone
    assert {server.name for server in build(tmp_path, ["schedulers"])} == alone | {"airflow-scheduler-2"}
    servers = build(tmp_path, ["schedulers", "celery"], QUEUE)
    assert {server.name for server in servers} - alone == {
        *("airflow-scheduler-2", "redis", "airflow-worker-1", "airflow-worker-2")
    }
    variables = [server.variable for server in servers if server.variable]
    assert len(set(variables)) == len(variables)
    assert {"AIRFLOW_PID", "AIRFLOW_2_PID", "AIRFLOW_WORKER_1_PID", "AIRFLOW_WORKER_2_PID", "REDIS_PID"} < {*variables}
    path = str(environment.FOLDER)
    assert all(path in server.env["PYTHONPATH"] for server in servers if server.name != "redis")


def test_worker_takes_tasks_when_its_newest_start_has_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for text, ready in ((f"{workers.START} a\n", False), (f"worker-1@here{workers.READY}\n", True)) * 2:
        with log.open("a") as file:
            file.write(text)
        assert workers._is_ready(log) == ready


def test_celery_without_its_packages_or_redis_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "is_built", lambda: False)
    with pytest.raises(StackError, match=r"^celery: .* run make setup WITH=celery$"):
        build(tmp_path, ["celery"], QUEUE)
    monkeypatch.setattr(redis, "find_program", lambda: None)
    with pytest.raises(StackError, match=r"^celery: no Redis .*Debian: redis-server"):
        redis.build_server(RunDir(tmp_path), 1, "p")


def test_lock_of_celery_moves_no_version_of_the_products() -> None:
    """Its packages lie beside the product's on the path: what stood in both would be there twice."""
    product, celery_packages = (read_lock(path) for path in (environment.setup.LOCK_FILE, environment.LOCK_FILE))
    assert celery_packages
    assert product & celery_packages == set()
    assert len(compute_digest(environment.LOCK_FILE)) > 64


def read_lock(path: Path) -> set[str]:
    return {line.partition("==")[0] for line in path.read_text().splitlines() if "==" in line and line[0].isalpha()}
