"""What the tests need of a machine besides `make setup`: looked for once, one line for each thing that is missing.

``python -m machine`` (`make test-setup`) fetches what it may: PostgreSQL, Chromium, promtool, nginx and Redis from
Debian as root, Chromium from Playwright otherwise, Debezium's jars by Maven, and it compiles GoogleSQL's analyzer.
``python -m machine long`` also fetches what only the tests of `make test-long` need. No test installs anything. The
steps run beside each other, as most of them wait for a network and one keeps a core busy for a minute.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable

import debian
import fab_packages
import flink
import googlesql
import nginx
import postgres
import promtool
import rabbitmq_server
import redis_server
import s3mock
from e2e import browser
from e2e.versions import older_airflow
from engines import packages as engine_packages

from local import setup
from local.airflow import rabbitmq, redis
from local.bigquery import environment

TOOLS = {
    "javac": "a JDK, not only its runtime (openjdk-17-jdk-headless): a test compiles a line of Java",
    "openssl": "openssl: it makes the certificate of the broker with a log-in",
    "setpriv": "setpriv (util-linux): it ends servers with their test",
}


def main(tests: str = "not long") -> int:
    """Fetch missing tools. Return 0 if all of these tests can run, else 1 after a line for each that cannot."""
    steps = [
        find_tools,
        find_python,
        bring_postgres,
        bring_chromium,
        bring_promtool,
        bring_nginx,
        bring_redis,
        bring_debezium,
        bring_s3mock,
        bring_fab,
        *((bring_rabbitmq, bring_older_airflow, bring_flink, bring_engines) if tests.startswith("long") else ()),
    ]
    missing = [line for lines in setup.run_beside([compile_analyzer, *steps]) for line in lines]
    for line in missing:
        print(f"test-setup: missing: {line}", file=sys.stderr)
    return 1 if missing else 0


def find_tools() -> list[str]:
    home = os.environ.get("JAVA_HOME", "")
    path = os.pathsep.join(filter(None, (home and os.path.join(home, "bin"), os.environ.get("PATH", ""))))
    return [purpose for tool, purpose in TOOLS.items() if shutil.which(tool, path=path) is None]


def find_python() -> list[str]:
    """The BigQuery server's own; without it a developer's run skips, and a build fails unless it is allowed to."""
    if environment.is_built():
        return []
    if "CI" in os.environ and not os.environ.get("TIDEGATE_WITHOUT_BIGQUERY"):
        return [
            f"the BigQuery server: {environment.MISSING_PYTHON}, or set TIDEGATE_WITHOUT_BIGQUERY=1 to test without"
        ]
    print("test-setup: NOT TESTED: BigQuery, whose local server is not built")
    return []


def bring_postgres() -> list[str]:
    if os.environ.get(postgres.ALLOWED_WITHOUT):
        print(f"test-setup: NOT TESTED: PostgreSQL and Debezium, as {postgres.ALLOWED_WITHOUT} is set")
        return []
    if postgres.find_binaries() is None:
        print_step("PostgreSQL")
        debian.install("postgresql", "postgresql-contrib")
    return [] if postgres.find_binaries() else [postgres.MISSING]


def bring_chromium() -> list[str]:
    for bring in (lambda: debian.install("chromium"), browser.fetch):
        if browser.is_there():
            return []
        print_step("Chromium")
        bring()
    return [] if browser.is_there() else [browser.MISSING]


def bring_promtool() -> list[str]:
    if promtool.find() is None:
        print_step("Prometheus's promtool")
        promtool.fetch()
    return [] if promtool.find() else [promtool.MISSING]


def bring_nginx() -> list[str]:
    if nginx.find() is None:
        print_step("nginx")
        nginx.fetch()
    return [] if nginx.find() else [nginx.MISSING]


def bring_redis() -> list[str]:
    if not redis_server.is_there():
        print_step("Redis")
        redis_server.fetch()
    return [] if redis_server.is_there() else [redis.MISSING]


def bring_rabbitmq() -> list[str]:
    if not rabbitmq_server.is_there():
        print_step("RabbitMQ")
        rabbitmq_server.fetch()
    if not rabbitmq_server.is_there():  # it is left out then: Redis sees the same hazards
        print(f"test-setup: NOT TESTED: {rabbitmq.MISSING}")
    return []


def bring_debezium() -> list[str]:
    if os.environ.get(postgres.ALLOWED_WITHOUT):
        return []
    with (setup.CACHE / "setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return try_step(lambda: setup.build_jars("debezium"))


def bring_s3mock() -> list[str]:
    return try_step(s3mock.bring)


def bring_fab() -> list[str]:
    return try_step(fab_packages.bring)


def bring_older_airflow() -> list[str]:
    return try_step(older_airflow.bring)


def bring_flink() -> list[str]:
    with setup.MAVEN:
        reason = flink.bring()
    return [f"Flink, which reads tables and a publication's change events: {reason}"] if reason else []


def bring_engines() -> list[str]:
    return try_step(engine_packages.bring)


def compile_analyzer() -> list[str]:
    if not googlesql.is_compiled():
        print_step("GoogleSQL's analyzer, compiled for this machine (a minute)")
    return try_step(googlesql.compile_once)


def try_step(step: Callable[[], object]) -> list[str]:
    try:
        step()
    except (setup.SetupError, OSError, subprocess.SubprocessError) as error:
        return [str(error)]
    return []


def print_step(label: str) -> None:
    print(f"test-setup: {label} ...", flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
