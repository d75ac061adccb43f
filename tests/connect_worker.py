"""Kafka Connect for tests: one standalone worker with Debezium's PostgreSQL connector, or with other jars."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from background_server import tie_to_test

from local.layout import JARS, LOG4J
from local.ports import HOST, choose_ports

WORKER = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "offset.flush.interval.ms": "1000",
    "plugin.discovery": "hybrid_warn",  # the connector stands on the class path
    "topic.creation.enable": "true",
}


class ConnectWorker:
    """A process in a session of its own; `close` ends just that one."""

    def __init__(
        self, folder: Path, bootstrap: str, connectors: Mapping[str, Mapping[str, str]], jars: Path = JARS / "debezium"
    ) -> None:
        assert jars.exists(), f"the jars of the connector are missing in {jars}: run make test-setup"
        folder.mkdir(parents=True, exist_ok=True)
        port, self.log = choose_ports(["connect"])["connect"], folder / "connect.log"
        self._urls = [f"http://{HOST}:{port}/connectors/{name}/status" for name in connectors]
        worker_settings = {"bootstrap.servers": bootstrap, "listeners": f"http://{HOST}:{port}"}
        worker_settings["offset.storage.file.filename"] = str(folder / "connect.offsets")
        connector_files = {f"{name}.properties": {"name": name, **settings} for name, settings in connectors.items()}
        files = {"worker.properties": {**WORKER, **worker_settings}, **connector_files}
        for file, settings in files.items():
            (folder / file).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        java = ["java", "-Xmx384m", f"-Dlog4j2.configurationFile={LOG4J}", "-cp", f"{jars}/*"]
        standalone = ["org.apache.kafka.connect.cli.ConnectStandalone", *files]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                tie_to_test([*java, *standalone]),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def check(self) -> None:
        """An error with the worker's own words once it, or one of its connectors, has failed."""
        assert self._process.poll() is None, self.log.read_text()[-4000:]
        states = [self._read_state(url) for url in self._urls]
        parts = [part for state in states for part in (state.get("connector", {}), *state.get("tasks", ()))]
        failed = [part for part in parts if part.get("state") == "FAILED"]
        assert not failed, failed

    def _read_state(self, url: str) -> Any:
        try:
            with urlopen(url, timeout=10) as answer:
                return json.load(answer)
        except OSError:  # not up yet, or the connector is not registered yet
            return {}

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
