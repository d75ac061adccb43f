"""Owns a running stack: the one background process that starts the servers, restarts those that die, and ends them all.

Started by `start_stack` with a JSON request; tells its progress in the run folder's `stack.json`. On TERM, or when its
owner has gone, it ends everything that carries the stack's mark.
"""

import json
import os
import secrets
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from local import ports, spark
from local.airflow import rabbitmq, services, workers
from local.bigquery import server as bigquery
from local.errors import StackError
from local.kafka.cluster import name_ports, plan_kafka
from local.keeper import Keeper
from local.lake.plan import plan_lake
from local.layout import ROOT, RunDir
from local.processes import MARK_VARIABLE, Identity, end_all_processes
from local.registry import server as registry
from local.server import Server
from local.state import FAILED, UP, State, render_env_file, replace_file

END_TIMEOUT_SECONDS = 8.0
POLL_SECONDS = 0.1
EXTRA_PORTS = {"bigquery": ("bigquery_grpc",), "rabbitmq": rabbitmq.NODE_PORTS}
SETTINGS = ("brokers", "secure", "schedulers")  # parts that are no servers of their own


@dataclass(frozen=True)
class Request:
    """The request of `up`. With an `owner`, the stack goes down when that process has ended."""

    run_dir: str
    parts: list[str]
    include: str
    owner: Identity | None = None

    @classmethod
    def from_json(cls, text: str) -> "Request":
        """The request that `up` wrote with `dataclasses.asdict`."""
        content = json.loads(text)
        owner = content.pop("owner")
        return cls(**content, owner=Identity(**owner) if owner else None)


@dataclass
class Plan:
    """The servers of a stack with their addresses and connections."""

    servers: list[Server] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    exported: dict[str, str] = field(default_factory=dict)


def plan_stack(request: Request) -> Plan:
    """Choose the ports and describe the servers; StackError when a port asked for is taken."""
    run, parts = RunDir(Path(request.run_dir)), request.parts
    services.check_parts(parts)
    port_numbers = ports.choose_ports(_name_ports(parts))
    plan = Plan()
    if "kafka" in parts:
        _add_kafka(plan, run, parts, port_numbers)
    if "spark" in parts:
        _add_spark(plan, run, port_numbers["spark"], secrets.token_urlsafe(15) if "secure" in parts else "")
    connections = dict(plan.exported)
    lake = plan_lake(run, parts, port_numbers)
    plan.servers.extend(lake.servers)
    plan.exported |= lake.variables
    connections |= lake.variables  # catalogs.yaml may name the addresses, too
    if "registry" in parts:
        connections |= _add_registry(plan, run, port_numbers["registry"])
    if "bigquery" in parts:
        addresses = {
            "BIGQUERY_ENDPOINT": f"http://{ports.HOST}:{port_numbers['bigquery']}",
            "BIGQUERY_PROJECT": bigquery.PROJECT,
        }
        plan.addresses |= addresses
        connections |= addresses  # catalogs.yaml may name them
        plan.servers.append(bigquery.build_server(run, port_numbers["bigquery"], port_numbers["bigquery_grpc"]))
    if "airflow" in parts:
        plan.addresses["AIRFLOW_URL"] = f"http://{ports.HOST}:{port_numbers['airflow']}"
        plan.exported["AIRFLOW_HOME"] = str(run.airflow_home)
        if Path(request.include) != ROOT / "include":  # commands find that of the checkout by themselves
            plan.exported["TIDEGATE_INCLUDE"] = request.include
        queue = workers.choose_queue(parts, port_numbers, secrets.token_urlsafe(15))
        place = services.Addresses(port_numbers["airflow"], lake.metadata, queue)
        plan.servers.extend(services.build_servers(run, parts, place, Path(request.include), connections))
    return plan


def _name_ports(parts: list[str]) -> list[str]:
    servers = [part for part in parts if part not in SETTINGS]
    names = [name for part in servers for name in (part, *EXTRA_PORTS.get(part, ()))]
    return list(dict.fromkeys([*names, *(name_ports(parts) if "kafka" in parts else ())]))


def _add_kafka(plan: Plan, run: RunDir, parts: list[str], port_numbers: Mapping[str, int]) -> None:
    brokers = plan_kafka(run, parts, port_numbers)
    plan.addresses["KAFKA_BOOTSTRAP"] = brokers.bootstrap
    plan.exported |= brokers.variables
    plan.servers.extend(brokers.servers)


def _add_registry(plan: Plan, run: RunDir, port: int) -> dict[str, str]:
    variables = registry.build_variables(port)
    plan.exported |= variables
    plan.servers.append(registry.build_server(run, port))
    return variables


def _add_spark(plan: Plan, run: RunDir, port: int, token: str) -> None:
    plan.addresses["SPARK_REMOTE"] = spark.build_remote(port, token)
    plan.exported |= spark.build_connection(port, token)
    plan.servers.append(spark.build_server(run, port, token))


class Supervisor:
    """Runs one plan until a signal stops it."""

    def __init__(self, request: Request, mark: str) -> None:
        self._request, self._run_dir = request, RunDir(Path(request.run_dir))
        self._state = State(mark, Identity.from_pid(os.getpid(), mark), request.parts)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._answering: dict[str, str] = {}
        self._plan = Plan()

    def run(self) -> int:
        """Bring the stack up, keep it, end it; 1 when it did not come up."""
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, lambda *_: self._stop.set())
        keepers: list[Keeper] = []
        try:
            self._save()
            self._plan = plan_stack(self._request)
            keepers = [
                Keeper(server, self._state.mark, self._stop, self._record_change) for server in self._plan.servers
            ]
            self._bring_up(keepers)
            self._keep_running()
            return 0
        except Exception as error:
            if not isinstance(error, StackError):
                traceback.print_exc()
            self._state.phase, self._state.message = FAILED, str(error) or repr(error)
            return 1
        finally:
            self._end(keepers)

    def _bring_up(self, keepers: list[Keeper]) -> None:
        """Start all servers side by side and wait for each; the first error ends it."""
        for keeper in keepers:
            keeper.begin()
        while not all(keeper.ready.is_set() for keeper in keepers):
            for failure in (keeper.failed for keeper in keepers if keeper.failed):
                raise failure
            self._check_not_stopped()
            time.sleep(POLL_SECONDS)
        with self._lock:
            self._state.phase = UP
        self._save()

    def _keep_running(self) -> None:
        while not self._stop.wait(POLL_SECONDS * 5) and not self._is_owner_gone():
            pass

    def _check_not_stopped(self) -> None:
        if self._stop.is_set() or self._is_owner_gone():
            raise StackError("stopped while it was starting")

    def _is_owner_gone(self) -> bool:
        return self._request.owner is not None and self._request.owner.find_process() is None

    def _record_change(self, name: str, identity: Identity, seconds: float | None) -> None:
        """Write into both files that a server was started (no seconds) or answers."""
        with self._lock:
            self._state.servers[name] = identity
            if seconds is not None:
                self._state.ready[name] = round(seconds, 1)
                variable = next((s.variable for s in self._plan.servers if s.name == name), None)
                if variable:
                    self._answering[variable] = str(identity.pid)
        self._save()

    def _save(self) -> None:
        with self._lock:
            if self._stop.is_set():
                return
            if self._state.phase == UP:
                variables = {**self._plan.addresses, **self._answering}
                replace_file(self._run_dir.env_file, render_env_file(variables, self._plan.exported))
            self._state.write(self._run_dir.state_file)

    def _end(self, keepers: list[Keeper]) -> None:
        """End everything that was started; a failure's message stays behind for `up`."""
        self._stop.set()
        self._run_dir.env_file.unlink(missing_ok=True)
        end_all_processes(self._state.mark, list(self._state.servers.values()), END_TIMEOUT_SECONDS)
        for keeper in keepers:
            keeper.join(5)
        end_all_processes(self._state.mark, list(self._state.servers.values()), 0)
        if self._state.phase == FAILED:
            self._state.write(self._run_dir.state_file)
        else:
            self._run_dir.state_file.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(Supervisor(Request.from_json(sys.argv[1]), os.environ[MARK_VARIABLE]).run())
