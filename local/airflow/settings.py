"""Owns Airflow's settings on one machine: every deviation from its defaults, with the reason."""

import base64
import json
import os
from configparser import RawConfigParser
from dataclasses import dataclass
from pathlib import Path

from local.layout import ROOT
from local.ports import HOST

LOGINS_VARIABLE = (
    "TIDEGATE_AIRFLOW_LOGINS"  # path of a JSON file: passwords by user, and each user has the role of that name
)
STATSD_VARIABLE = (
    "TIDEGATE_AIRFLOW_STATSD"  # host:port of a StatsD server that Airflow's metrics are sent to; none without it
)

DAGS_VARIABLE = "TIDEGATE_AIRFLOW_DAGS"  # a folder of DAGs beside the product's own; none without it
IDLE_SLEEP_VARIABLE = "TIDEGATE_AIRFLOW_IDLE_SLEEP"  # seconds that an idle scheduler sleeps between two looks
PARSE_INTERVAL_VARIABLE = "TIDEGATE_AIRFLOW_PARSE_INTERVAL"  # seconds after which a DAG file is parsed again
PRODUCT_VARIABLE = "TIDEGATE_AIRFLOW_PRODUCT"  # whose dags/, plugins/ and jobs/ run; the checkout's without it


@dataclass(frozen=True)
class Shape:
    """Whether two schedulers share the work, and the address of Celery's queue where tasks run on workers."""

    has_two_schedulers: bool = False
    queue: str | None = None


def find_product_folder() -> Path:
    """The folder whose `dags/`, `plugins/` and `jobs/` run: the checkout, or another version of it.

    A link stays one: once it leads elsewhere, the next start of Airflow's services is an upgrade.
    """
    return Path(os.environ.get(PRODUCT_VARIABLE) or ROOT)


def write_settings(home: Path, port: int, database: str, shape: Shape) -> None:
    """Write `airflow.cfg`, so that the `airflow` command agrees with the services when AIRFLOW_HOME is set.

    `database` is the SQLAlchemy URI of the metadata.
    """
    parser = RawConfigParser()
    parser.read_dict(_build_settings(home, port, database, shape))
    home.mkdir(parents=True, exist_ok=True)
    (home / "config").symlink_to(ROOT / "local" / "airflow" / "config")
    with open(home / "airflow.cfg", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        parser.write(file)


def _build_settings(home: Path, port: int, database: str, shape: Shape) -> dict[str, dict[str, str | int | float]]:
    url, product = f"http://{HOST}:{port}", find_product_folder()
    return {
        "core": {
            "dags_folder": str(product / "dags"),
            "plugins_folder": str(product / "plugins"),
            "executor": "CeleryExecutor" if shape.queue else "LocalExecutor",
            "parallelism": 8,  # each slot is a process of 100 MB and more
            "load_examples": "False",
            **_build_login_settings(os.environ.get(LOGINS_VARIABLE)),
            "execution_api_server_url": f"{url}/execution/",
            "fernet_key": _generate_secret(),
        },
        "database": _build_database_settings(database),
        "logging": {"base_log_folder": str(home / "logs")},
        "api": {"host": HOST, "port": port, "base_url": url, "workers": 1, "secret_key": _generate_secret()},
        "api_auth": {"jwt_secret": _generate_secret(64)},  # the services must share one
        "workers": {"execution_api_timeout": 30},  # its first call after a start takes up to 15 s
        "scheduler": {
            # default 1 s: half of what a short task takes; each look costs 10 ms of CPU
            "scheduler_idle_sleep_time": os.environ.get(IDLE_SLEEP_VARIABLE, "0.1"),
            **(_build_takeover_settings() if shape != Shape() else {}),
        },
        **_build_celery_settings(shape.queue),
        "dag_processor": {
            "refresh_interval": 10,
            "min_file_process_interval": os.environ.get(PARSE_INTERVAL_VARIABLE, "30"),
            **_build_bundles(os.environ.get(DAGS_VARIABLE)),
        },  # new files within 10 s, not 300
        "usage_data_collection": {"enabled": "False"},
        **_build_metrics_settings(os.environ.get(STATSD_VARIABLE)),
    }


def _build_database_settings(uri: str) -> dict[str, str | int | float]:
    if uri.startswith("sqlite"):
        return {
            "sql_alchemy_conn": uri,
            "sql_alchemy_connect_args": "airflow_local_settings.sqlite_connect_args",
        }
    return {"sql_alchemy_conn": uri}


def _build_takeover_settings() -> dict[str, str | int | float]:
    """How long the tasks of a worker or scheduler that was killed wait, where another one can go on with them."""
    return {
        "task_instance_heartbeat_timeout": 60,  # seconds without a sign of life of a running task; default 300
        "orphaned_tasks_check_interval": 30,  # of a scheduler that is gone; default 300
        "task_queued_timeout": 60,  # of a task that its worker took, and did not begin; default 600
        "task_queued_timeout_check_interval": 15,  # default 120
    }


def _build_celery_settings(queue: str | None) -> dict[str, dict[str, str | int | float]]:
    """Celery's queue; its results lie in the metadata database, as by default."""
    if queue is None:
        return {}
    return {"celery": {"broker_url": queue, "worker_concurrency": 4}}


def _build_login_settings(passwords: str | None) -> dict[str, str]:
    """Nobody logs in, as the server listens on this machine only; or the users of a file of passwords do."""
    if not passwords:
        return {"simple_auth_manager_all_admins": "True"}
    users = json.loads(Path(passwords).read_text())
    return {
        "simple_auth_manager_users": ",".join(f"{name}:{name}" for name in users),  # named after their role
        "simple_auth_manager_passwords_file": passwords,
    }


def _build_bundles(folder: str | None) -> dict[str, str]:
    """The DAGs of `dags_folder`, and those of one more folder where there is one."""
    if not folder:
        return {}
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    shared_bundle = {"name": "beside", "classpath": local, "kwargs": {"path": folder}}
    bundles = [{"name": "dags-folder", "classpath": local, "kwargs": {}}, shared_bundle]
    return {"dag_bundle_config_list": json.dumps(bundles)}


def _build_metrics_settings(server: str | None) -> dict[str, dict[str, str | int | float]]:
    if not server:
        return {}
    host, _, port = server.rpartition(":")
    return {"metrics": {"statsd_on": "True", "statsd_host": host, "statsd_port": int(port)}}


def _generate_secret(count: int = 32) -> str:
    return base64.urlsafe_b64encode(os.urandom(count)).decode()
