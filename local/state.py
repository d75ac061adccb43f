"""Reads and writes the supervisor's state file, for `up` and `down`, and the env file, for users."""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from local.processes import Identity

STARTING, UP, FAILED = "starting", "up", "failed"


@dataclass
class State:
    """One stack: its mark, its supervisor, its phase, and the servers by name with the seconds until they answered."""

    mark: str
    supervisor: Identity
    parts: list[str]
    phase: str = STARTING
    message: str = ""
    servers: dict[str, Identity] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "State | None":
        """The state in the file, or None without a readable file."""
        try:
            content = json.loads(path.read_text())
            content["supervisor"] = Identity(**content["supervisor"])
            content["servers"] = {name: Identity(**identity) for name, identity in content["servers"].items()}
            return cls(**content)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Replace the file in one step: a reader sees the old state or the new one."""
        replace_file(path, json.dumps(asdict(self), indent=1))


def replace_file(path: Path, text: str) -> None:
    """Write a file so that readers never see half of it."""
    temporary_file = path.with_name(f".{path.name}.{os.getpid()}")
    with open(
        temporary_file, "w", opener=lambda place, flags: os.open(place, flags, 0o600)
    ) as file:  # it may hold passwords
        file.write(text)
    temporary_file.replace(path)


def render_env_file(variables: Mapping[str, str], exported: Mapping[str, str]) -> str:
    """The text of the env file: plain assignments, then exported ones."""
    plain = [f"{name}={shlex.quote(value)}\n" for name, value in variables.items()]
    return "".join(plain + [f"export {name}={shlex.quote(value)}\n" for name, value in exported.items()])


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of an env file written by `render_env_file`."""
    words = [word for line in path.read_text().splitlines() for word in shlex.split(line)[-1:]]
    return dict(word.split("=", 1) for word in words)
