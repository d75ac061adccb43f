"""Owns the Redis server through which Airflow's schedulers hand tasks to Celery's workers."""

import os
import shutil
from pathlib import Path

from local.errors import StackError
from local.layout import REDIS, RunDir
from local.ports import HOST, is_answering
from local.server import Server, build_clean_environment, create_log

MISSING = "celery: no Redis was found: install it (Debian: redis-server)"


def build_server(run: RunDir, port: int, password: str) -> Server:
    """The server on `port`, asking for `password`; what waits in it outlives its restart."""
    program, folder = find_program(), run.path / "redis"
    if program is None:
        raise StackError(MISSING)
    settings = {
        "bind": HOST,
        "port": port,
        "requirepass": password,
        "dir": folder,
        "appendonly": "yes",  # a task that waits is there again after a restart
        "appendfsync": "no",  # nothing of it outlives the machine
        "save": '""',
    }
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    return Server(
        name="redis",
        command=(str(program), str(folder / "redis.conf")),
        folder=folder,
        log=create_log(run, "redis"),
        probe=lambda _: is_answering(port),
        env={**build_clean_environment(), **_build_library_path()},
        variable="REDIS_PID",
        prepare=lambda: _write_settings(folder, text),
    )


def build_uri(port: int, password: str) -> str:
    """The address that Celery is given."""
    return f"redis://:{password}@{HOST}:{port}/0"


def find_program() -> Path | None:
    """The Redis that is installed on the machine, or the one that tests have unpacked from Debian's package."""
    installed, unpacked = shutil.which("redis-server"), REDIS / "usr" / "bin" / "redis-server"
    return Path(installed) if installed else unpacked if unpacked.is_file() else None


def _build_library_path() -> dict[str, str]:
    """Where the unpacked server finds its libraries."""
    folders = [str(folder) for folder in REDIS.glob("usr/lib/*-linux-gnu")]
    before = filter(None, [os.environ.get("LD_LIBRARY_PATH")])
    return {"LD_LIBRARY_PATH": os.pathsep.join([*before, *folders])} if folders else {}


def _write_settings(folder: Path, text: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    (folder / "redis.conf").write_text(text)
