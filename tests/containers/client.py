"""The engine for a test: start it, ask for its state, run commands in its services, end it with all that it started."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import psutil
from background_server import tie_to_test

CHECKOUT = Path(__file__).parents[2]
NEEDED = ("unshare", "nsenter", "ip", "mount", "setpriv", "wget")
NAMESPACES = ("unshare", "--fork", "--pid", "--kill-child", "--mount", "--net", "--mount-proc")


def find_obstacle() -> str | None:
    """Why the engine cannot run here; None where it can."""
    if os.geteuid() != 0:
        return "it needs root, for namespaces and mounts"
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        return f"it needs {', '.join(missing)}"
    bridge = [*NAMESPACES, "ip", "link", "add", "br0", "type", "bridge"]
    if subprocess.run(bridge, capture_output=True, check=False).returncode:
        return "the kernel gives it no namespaces or no bridge"
    return None


class Compose:
    """The services of the compose file, or some of them. `values` are those of `.env`."""

    def __init__(
        self, folder: Path, values: Mapping[str, str], replaced: Mapping[str, str], services: Collection[str] = ()
    ) -> None:
        self.folder = folder
        (folder / "logs").mkdir(parents=True)
        request = {
            "checkout": str(CHECKOUT),
            "folder": str(folder),
            "values": dict(values),
            "replaced": dict(replaced),
            "services": list(services),
        }
        file = folder / "request.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps(request))
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{CHECKOUT / 'tests'}:{CHECKOUT}"}
        with (folder / "logs" / "engine.log").open("wb") as log:
            self._process = subprocess.Popen(
                tie_to_test([*NAMESPACES, sys.executable, "-m", "containers.engine", str(file)]),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def read_state(self) -> dict[str, dict[str, Any]]:
        """What the engine knows of each service; AssertionError when the engine or a service failed."""
        log = (self.folder / "logs" / "engine.log").read_text()
        assert self._process.poll() is None, f"the engine ended: {log[-2000:]}"
        file = self.folder / "state.json"
        state: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}
        failed = {name: service for name, service in state.items() if service["status"] == "failed"}
        assert not failed, f"{failed} {log[-2000:]}"
        return state

    def is_up(self) -> bool:
        """Whether every service that has a health check is healthy, and what runs once has succeeded."""
        state = self.read_state()
        return bool(state) and all(
            service["status"] == "healthy" or (service["status"] == "exited" and service["code"] == 0)
            for service in state.values()
        )

    def run(self, service: str, *words: str, text: str = "", more: Mapping[str, str] | None = None) -> str:
        """What a command says inside of a service's container; AssertionError where it fails."""
        state = self.read_state()[service]
        engine = psutil.Process(self._process.pid).children()[0].pid
        inside = ["nsenter", "-t", str(engine), "-m", "-p", "nsenter", "-t", str(state["pause"]), "-n", "-u"]
        root, user, workdir = state["root"], state["user"], state["workdir"]
        uid = "50000" if user == "tidegate" else user
        drop = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"] if uid != "root" else []
        command = [*inside, "/usr/sbin/chroot", root, *drop, "env", "-C", workdir, *words]
        environment = {**state["environment"], "HOME": "/tmp", **(more or {})}
        process = subprocess.run(
            command, input=text, env=environment, capture_output=True, text=True, timeout=900, check=False
        )
        assert process.returncode == 0, (
            f"{service}: {' '.join(words)}: {process.stdout[-2000:]}{process.stderr[-3000:]}"
        )
        return process.stdout

    def read_log(self, service: str) -> str:
        """All that a service has written."""
        return (self.folder / "logs" / f"{service}.log").read_text(errors="replace")

    def close(self) -> None:
        """End the engine; the kernel ends everything in its namespaces with it."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder / "containers", ignore_errors=True)
        shutil.rmtree(self.folder / "images", ignore_errors=True)


def wait_for(compose: Compose, condition: Callable[[], bool], expectation: str, seconds: float) -> None:
    """Poll until the condition holds; AssertionError with what the services are then."""
    import time

    deadline = time.monotonic() + seconds
    while not condition():
        states = {name: service["status"] for name, service in compose.read_state().items()}
        assert time.monotonic() < deadline, (
            f"not within {seconds} s: {expectation}: {states} (logs: {compose.folder / 'logs'})"
        )
        time.sleep(0.5)


def make_values(example: Path) -> dict[str, str]:
    """A value for each name of `.env.example`, of the kind that it asks for."""
    import base64
    import uuid

    names = [line.partition("=")[0] for line in example.read_text().splitlines() if line and line[0] != "#"]
    values = {name: secrets.token_hex(16) for name in names}
    values["AIRFLOW_FERNET_KEY"] = base64.urlsafe_b64encode(os.urandom(32)).decode()
    values["KAFKA_CLUSTER_ID"] = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return values
