"""A PostgreSQL server for tests: one cluster in a folder of its own, on a free port, forgotten afterwards."""

import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from local.lake.postgres import PROGRAMS, build_owner_words, find_owner, find_programs
from local.ports import HOST, choose_ports

ALLOWED_WITHOUT = "TIDEGATE_WITHOUT_POSTGRES"
MISSING = (
    "PostgreSQL (initdb, postgres, pgbench): install postgresql and postgresql-contrib, "
    f"or set {ALLOWED_WITHOUT}=1 to test without"
)


class PostgreSQL:
    """`connect` gives an autocommitting connection; `close` ends the server and removes its folder."""

    user, database = "tidegate", "postgres"

    def __init__(self, **settings: Any) -> None:
        self.bin = _require_binaries()
        self.port = choose_ports(["postgres"])["postgres"]
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-postgres-"))
        owner = find_owner()
        if owner:
            shutil.chown(self._folder, owner)
        self.log = self._folder / "log"
        data = str(self._folder / "data")
        self._run("initdb", "-D", data, "-U", self.user, "--auth=trust", "-E", "UTF8", "--locale=C", "--no-sync")
        all_settings = {
            "port": self.port,
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            "fsync": "off",
            **settings,
        }
        options = [part for name, value in all_settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("wb") as log:
            command = [*build_owner_words("--pdeathsig", "QUIT"), str(self.bin / "postgres"), "-D", data, *options]
            self._server = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def is_ready(self) -> bool:
        """Whether it takes connections; an error once it has ended."""
        assert self._server.poll() is None, self.log.read_text()
        command = [str(self.bin / "pg_isready"), "-q", *self.address]
        return subprocess.run(command, check=False).returncode == 0

    def connect(self) -> Any:
        import psycopg2

        connection = psycopg2.connect(host=HOST, port=self.port, user=self.user, dbname=self.database)
        connection.autocommit = True
        return connection

    def execute(self, *statements: str) -> None:
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        finally:
            connection.close()

    def read_rows(self, query: str) -> list[tuple[Any, ...]]:
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                return list(cursor.fetchall())
        finally:
            connection.close()

    @property
    def address(self) -> list[str]:
        """The arguments with which PostgreSQL's own programs find the server."""
        return ["-h", HOST, "-p", str(self.port), "-U", self.user]

    def pgbench(self, *words: str) -> None:
        self._run("pgbench", *self.address, *words, self.database)

    def close(self) -> None:
        self._server.send_signal(signal.SIGINT)  # ends its clients' connections and then itself
        try:
            self._server.wait(30)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *words: str) -> None:
        command = [*build_owner_words(), str(self.bin / program), *words]
        process = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False)
        assert process.returncode == 0, f"{program}: {process.stdout[-2000:]}{process.stderr[-2000:]}"


def _require_binaries() -> Path:
    folder = find_binaries()
    assert folder, MISSING
    return folder


def find_binaries() -> Path | None:
    """The folder of the newest server here, with what the tests run beside it."""
    return find_programs((*PROGRAMS, "pgbench"))
