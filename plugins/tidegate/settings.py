"""Where the product looks before the first record is read: the one place that reads its own settings."""

import getpass
import os
from collections.abc import Mapping
from pathlib import Path

VERSION = "0.1.0"


def find_repository_root() -> Path:
    """The folder that holds ``plugins/``: `TIDEGATE_HOME`, or computed from this file."""
    home = os.environ.get("TIDEGATE_HOME")
    return Path(home).resolve() if home else Path(__file__).resolve().parents[2]


def find_include_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder with ``pipelines/`` and ``catalogs.yaml``: `TIDEGATE_INCLUDE`, else the repository's ``include/``."""
    chosen = (os.environ if environ is None else environ).get("TIDEGATE_INCLUDE")
    return Path(chosen).expanduser().resolve() if chosen else find_repository_root() / "include"


def format_path(path: Path) -> str:
    """`path` as messages name it: relative to the repository where it lies inside, else as it is."""
    resolved = path.resolve()
    root = find_repository_root()
    return str(resolved.relative_to(root)) if resolved.is_relative_to(root) else str(path)


def read_metrics_token(environ: Mapping[str, str] | None = None) -> str | None:
    """The secret with which a scraper reads the metrics: `TIDEGATE_METRICS_TOKEN`; None lets only Airflow's users."""
    return (os.environ if environ is None else environ).get("TIDEGATE_METRICS_TOKEN", "").strip() or None


def find_user() -> str:
    """Who runs this process, for what is noted of a command: the user's name, of one without a name the number."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return f"uid {os.getuid()}"
