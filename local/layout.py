"""The folders of the checkout, and those of one running stack."""

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"
JARS = ROOT / ".cache" / "jars"
REDIS = ROOT / ".cache" / "redis"
RABBITMQ = ROOT / ".cache" / "rabbitmq"
LOG4J = ROOT / "local" / "log4j2.properties"


def find_run_dir() -> Path:
    """`.run` in the checkout, or the folder that TIDEGATE_RUN names."""
    return Path(os.environ.get("TIDEGATE_RUN") or ROOT / ".run").resolve()


def find_include_dir() -> Path:
    """The folder of the pipeline files: TIDEGATE_INCLUDE, or the checkout's own."""
    return Path(os.environ.get("TIDEGATE_INCLUDE") or ROOT / "include").resolve()


@dataclass(frozen=True)
class RunDir:
    """The folder of one stack: its servers' data and logs, and the two files that describe what runs."""

    path: Path

    @property
    def logs(self) -> Path:
        """One log per server."""
        return self.path / "logs"

    @property
    def env_file(self) -> Path:
        """Addresses and process ids of what runs, in shell syntax; there while the stack is up."""
        return self.path / "env"

    @property
    def state_file(self) -> Path:
        """The file in which the supervisor writes its state for `up` and `down`."""
        return self.path / "stack.json"

    @property
    def lock_file(self) -> Path:
        """The lock file: a process locks it while it starts or stops this stack."""
        return self.path / "lock"

    @property
    def airflow_home(self) -> Path:
        """Airflow's settings, metadata and task logs."""
        return self.path / "airflow"
