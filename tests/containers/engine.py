"""The engine: the first process of namespaces of its own, with which everything that it started ends.

`unshare --fork --pid --kill-child --mount --net --mount-proc python -m containers.engine REQUEST` builds the images,
starts services when what they wait for has come, asks their health checks, and starts again what ended, as the file
says. What it knows stands in `state.json`, renewed with each change.
"""

import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from containers.compose_file import Service, load_services
from containers.dockerfile import build_image
from containers.foreign import build_foreign_image
from containers.rootfs import Image, bind, build_command, fill_root, mount_root, run

NETWORK = "10.97.0."
POLL_SECONDS = 0.5
RESTART_DELAY_SECONDS = 2.0
HEALTHY, DONE = "service_healthy", "service_completed_successfully"


class Engine:
    """One compose file, running. `request` has the checkout, the values of its variables, and mounts replaced."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._checkout, self._folder = Path(request["checkout"]), Path(request["folder"])
        self._replaced: dict[str, str] = request["replaced"]
        services = load_services(self._checkout / "docker-compose.yaml", request["values"])
        self.services = {name: services[name] for name in request["services"] or services}
        self.state: dict[str, dict[str, Any]] = {name: {"status": "created", "starts": 0} for name in self.services}
        self._lock = threading.Lock()
        self._images: dict[str, Image] = {}

    def run(self) -> None:
        """Build, start, and stay."""
        for command in (("link", "set", "lo", "up"), ("link", "add", "br0", "type", "bridge"),
                        ("addr", "add", f"{NETWORK}1/24", "dev", "br0"), ("link", "set", "br0", "up")):  # fmt: skip
            run("ip", *command)
        for service in self.services.values():
            if service.image not in self._images:
                self._images[service.image] = self._build(service)
        for number, service in enumerate(self.services.values(), start=2):
            threading.Thread(target=self._keep, args=(service, number), daemon=True).start()
        while True:
            time.sleep(60)

    def _build(self, service: Service) -> Image:
        folder = self._folder / "images" / service.image.replace("/", "-").replace(":", "-")
        if service.target:
            return build_image(self._checkout, folder, service.target)
        return build_foreign_image(service.image, self._checkout, folder)

    def _keep(self, service: Service, number: int) -> None:
        """A service's life, to its end."""
        try:
            self._wait_for_others(service)
            root = self._prepare_root(service)
            pause = self._join_network(service, number)
            while True:
                code = self._run_once(service, root, pause)
                self._report(service.name, status="exited", code=code)
                if service.restart == "no":
                    return
                time.sleep(RESTART_DELAY_SECONDS)
        except Exception as error:
            traceback.print_exc()
            detail = getattr(error, "stderr", None) or ""
            self._report(service.name, status="failed", message=f"{error} {detail}")

    def _wait_for_others(self, service: Service) -> None:
        for other, condition in service.depends_on.items():
            while not self._is_met(other, condition):
                time.sleep(POLL_SECONDS)

    def _is_met(self, other: str, condition: str) -> bool:
        state = self.state[other]
        if condition == DONE:
            return state["status"] == "exited" and state["code"] == 0
        return bool(state["status"] == "healthy")

    def _prepare_root(self, service: Service) -> Path:
        image, folder = self._images[service.image], self._folder / "containers" / service.name
        root = folder / "root"
        mount_root(root, image.folder, folder / "changes")
        fill_root(root, image)
        names = [f"{NETWORK}{number} {name}" for number, name in enumerate(self.services, start=2)]
        (root / "etc" / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        (root / "etc" / "resolv.conf").unlink(missing_ok=True)
        for mount in service.mounts:
            target = root / mount.target.lstrip("/")
            if mount.is_volume:
                source = self._folder / "volumes" / mount.source
                if not source.exists():
                    source.mkdir(parents=True)
                    if target.exists():
                        os.chown(source, target.stat().st_uid, target.stat().st_gid)
            else:
                source = Path(self._replaced.get(mount.source) or self._checkout / mount.source)
            bind(source, target, is_read_only=mount.is_read_only)
        for name, secret in service.secrets.items():
            file = root / "run" / "secrets" / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(secret)
            file.chmod(0o444)  # as compose leaves what comes from its environment
        return root

    def _join_network(self, service: Service, number: int) -> str:
        """A process that holds the container's network and name; its number."""
        pause = subprocess.Popen(["unshare", "--net", "--uts", "sleep", "infinity"])
        own, theirs = Path("/proc/self/ns/uts"), Path(f"/proc/{pause.pid}/ns/uts")
        while own.readlink() == theirs.readlink():
            time.sleep(0.02)
        inside, pid = ("nsenter", "-t", str(pause.pid), "-n", "-u"), str(pause.pid)
        run("ip", "link", "add", f"veth{number}", "type", "veth", "peer", "name", "eth0", "netns", pid)
        run("ip", "link", "set", f"veth{number}", "master", "br0", "up")
        run(*inside, "ip", "link", "set", "lo", "up")
        run(*inside, "ip", "addr", "add", f"{NETWORK}{number}/24", "dev", "eth0")
        run(*inside, "ip", "link", "set", "eth0", "up")
        run(*inside, "hostname", service.hostname)
        self._report(service.name, pause=pause.pid)
        return pid

    def _run_once(self, service: Service, root: Path, pause: str) -> int:
        image = self._images[service.image]
        environment = {**image.environment, **service.environment}
        words = (*(service.entrypoint or image.entrypoint), *(service.command or image.command))
        inside = ["nsenter", "-t", pause, "-n", "-u"]
        user = service.user or image.user
        rights = service.has_rights
        command = [*inside, *build_command(root, user, image.workdir, words, has_rights=rights)]
        with (self._folder / "logs" / f"{service.name}.log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        where = {"root": str(root), "user": user, "workdir": image.workdir, "environment": environment}
        self._report(
            service.name, status="running", pid=process.pid, starts=self.state[service.name]["starts"] + 1, **where
        )
        begun, failures = time.monotonic(), 0
        while process.poll() is None:
            if service.health is None:
                time.sleep(POLL_SECONDS)
                continue
            check = [*inside, *build_command(root, user, image.workdir, service.health.test, has_rights=rights)]
            is_well = _check_success(check, environment, service.health.timeout)
            failures = 0 if is_well else failures + (time.monotonic() - begun > service.health.start_period)
            if is_well or failures >= service.health.retries:
                self._report(service.name, status="healthy" if is_well else "unhealthy")
            # sooner than the file says until it is well for the first time: nobody waits for a test's patience
            time.sleep(service.health.interval if is_well else min(service.health.interval, 2.0))
        return process.returncode

    def _report(self, name: str, **news: Any) -> None:
        with self._lock:
            self.state[name] |= news
            fresh = self._folder / "state.new"
            fresh.write_text(json.dumps(self.state))
            fresh.replace(self._folder / "state.json")


def _check_success(command: list[str], environment: Mapping[str, str], timeout: float) -> bool:
    try:
        process = subprocess.run(command, env=environment, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return False
    return process.returncode == 0


if __name__ == "__main__":
    Engine(json.loads(Path(sys.argv[1]).read_text())).run()
