"""Owns the PostgreSQL server: one cluster of Debian's package, asking for a password, forgotten when it goes down."""

import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from local.errors import StackError, find_relevant_line
from local.layout import RunDir
from local.ports import HOST
from local.server import Server, build_clean_environment, create_log, run_logged

USER, DATABASE = "tidegate", "postgres"
PROGRAMS = ("initdb", "postgres", "pg_isready")
MISSING = "postgres: no PostgreSQL was found: install it (Debian: postgresql)"
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "fsync": "off",  # nothing of it outlives the stack
    "max_connections": "200",
}


def build_server(run: RunDir, port: int, password: str) -> Server:
    """The server on `port`, with `password` for its one user."""
    programs, folder, log = find_programs(PROGRAMS), find_folder(run), create_log(run, "postgres")
    if programs is None:
        raise StackError(MISSING)
    settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
    data = folder / "data"
    return Server(
        name="postgres",
        command=(*build_owner_words(), str(programs / "postgres"), "-D", str(data), "-p", str(port), *settings),
        folder=folder,
        log=log,
        probe=lambda _: is_ready(port),
        env=build_clean_environment(),
        variable="POSTGRES_PID",
        prepare=lambda: _create_cluster(programs, data, password, log),
    )


def build_uri(port: int, password: str, database: str) -> str:
    """The SQLAlchemy URI of one of its databases."""
    return f"postgresql+psycopg2://{USER}:{password}@{HOST}:{port}/{database}"


def is_ready(port: int) -> bool:
    """Whether it takes connections."""
    programs = find_programs(PROGRAMS)
    command = [str(programs / "pg_isready"), "-q", "-h", HOST, "-p", str(port)] if programs else ["false"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def find_programs(names: tuple[str, ...]) -> Path | None:
    """The folder of the newest PostgreSQL here that has these programs."""
    folders = [
        *sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name)),
        *(Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)),
    ]
    return next((folder for folder in folders if all((folder / name).exists() for name in names)), None)


def find_owner() -> str | None:
    """Another user for its processes where this one is root, as which it refuses to run."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def build_owner_words(*more_words: str) -> tuple[str, ...]:
    """The words before a command that make it run as the owner."""
    owner = find_owner()
    words = ("--reuid", owner, "--regid", owner, "--clear-groups") if owner else ()
    return ("setpriv", *words, *more_words) if words or more_words else ()


def find_folder(run: RunDir) -> Path:
    """Its folder, outside of the run folder: the server's user may have no access to a home folder."""
    name = hashlib.sha256(str(run.path).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"tidegate-postgres-{name}"


def remove_folder(run: RunDir) -> None:
    """Forget the cluster."""
    shutil.rmtree(find_folder(run), ignore_errors=True)


def _create_cluster(programs: Path, data: Path, password: str, log: Path) -> None:
    folder, owner = data.parent, find_owner()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    secret = folder / "password"
    secret.touch(mode=0o600)
    secret.write_text(password)
    if owner:
        shutil.chown(folder, owner)
        shutil.chown(secret, owner)
    command = [*build_owner_words(), str(programs / "initdb"), "-D", str(data), "-U", USER, f"--pwfile={secret}"]
    command += ["--auth=scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"]
    code = run_logged(command, folder, log)
    secret.unlink()
    if code:
        raise StackError(f"postgres: no cluster could be made: {find_relevant_line(log)} (log: {log})")
