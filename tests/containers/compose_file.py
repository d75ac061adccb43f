"""The compose file, read: its services with their variables filled in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

VARIABLE = re.compile(r"\$\{(\w+)(?::\?[^}]*)?\}")
UNITS = {"s": 1.0, "m": 60.0}


@dataclass(frozen=True)
class HealthCheck:
    """What is run again and again, and how long it may fail."""

    test: tuple[str, ...]
    interval: float
    timeout: float
    retries: int
    start_period: float


@dataclass(frozen=True)
class Mount:
    """A file, folder or named volume in a container."""

    source: str
    target: str
    is_volume: bool
    is_read_only: bool


@dataclass(frozen=True)
class Service:
    """One service as the file has it; `target` is the stage of the Dockerfile, where it is built from one."""

    name: str
    image: str
    target: str | None
    hostname: str
    user: str | None
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    depends_on: Mapping[str, str]
    health: HealthCheck | None
    restart: str
    secrets: Mapping[str, str]
    has_rights: bool  # False: all of root's are taken, and it can get no new ones


def load_services(path: Path, values: Mapping[str, str]) -> dict[str, Service]:
    """Every service by its name; KeyError for a variable without a value."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
    document = yaml.safe_load(VARIABLE.sub(lambda match: values[match[1]], text))
    secrets = {name: values[secret["environment"]] for name, secret in document["secrets"].items()}
    return {name: _read_service(name, given, secrets) for name, given in document["services"].items()}


def _read_service(name: str, given: Mapping[str, Any], secrets: Mapping[str, str]) -> Service:
    return Service(
        name=name,
        image=given["image"],
        target=given.get("build", {}).get("target"),
        hostname=given.get("hostname", name),
        user=given.get("user"),
        entrypoint=tuple(given.get("entrypoint", ())),
        command=tuple(given.get("command", ())),
        environment=dict(given.get("environment", {})),
        mounts=tuple(_read_mount(volume) for volume in given.get("volumes", ())),
        depends_on={other: wait["condition"] for other, wait in given.get("depends_on", {}).items()},
        health=_read_health(given["healthcheck"]) if "healthcheck" in given else None,
        restart=given.get("restart", "no"),
        secrets={name: secrets[name] for name in given.get("secrets", ())},
        has_rights=given.get("cap_drop") != ["ALL"],
    )


def _read_mount(text: str) -> Mount:
    source, target, *options = text.split(":")
    return Mount(source, target, not source.startswith("."), options == ["ro"])


def _read_health(given: Mapping[str, Any]) -> HealthCheck:
    return HealthCheck(
        test=tuple(given["test"][1:]),
        interval=_to_seconds(given["interval"]),
        timeout=_to_seconds(given["timeout"]),
        retries=given["retries"],
        start_period=_to_seconds(given.get("start_period", "0s")),
    )


def _to_seconds(text: str) -> float:
    return float(text[:-1]) * UNITS[text[-1]]
