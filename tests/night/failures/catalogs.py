"""Catalogs that do not answer, or not to us."""

import sqlite3

from night.failure import Failure
from night.scene import Scene


class CatalogAway(Failure):
    """Nobody answers at the catalog's address."""

    title = "the catalog (PostgreSQL) is away"
    sentence = r"took no connection|did not answer|no answer"
    remedy = "the server back; nothing with Tidegate"
    step = "check that the server runs"
    page = "server-down"
    catalog = "remote"

    def fill(self, scene: Scene) -> None:
        variables = scene.bench.stack.variables
        login = {"login": variables["POSTGRES_USER"], "password": variables["POSTGRES_PASSWORD"]}
        scene.set_connection("remote_login", conn_type="postgres", **login)
        super().fill(scene)

    def provoke(self, scene: Scene) -> None:
        scene.doors.to_postgres.close()
        self.produce(scene, {7: 7, 8: 8})

    def fix(self, scene: Scene) -> int:
        scene.doors.to_postgres.open()
        return 0


class CatalogLocked(Failure):
    """Somebody holds the lock of a SQLite catalog."""

    title = "the catalog (SQLite) is locked"
    sentence = r"another program has kept its lock"
    remedy = "end the other program; nothing with Tidegate"
    step = "end that program"
    page = "server-down"
    catalog = "shut"

    def provoke(self, scene: Scene) -> None:
        self.lock = sqlite3.connect(scene.bench.folder / "shut.db", isolation_level=None, check_same_thread=False)
        self.lock.execute("BEGIN EXCLUSIVE")
        self.produce(scene, {7: 7, 8: 8})

    def fix(self, scene: Scene) -> int:
        self.lock.rollback()
        self.lock.close()
        return 0


class CredentialsRotated(Failure):
    """The catalog's password is another one."""

    title = "the catalog's password is rotated"
    sentence = r"refuse"
    remedy = "the password in the connection; *Flush now*"
    step = "the password or the rights"
    page = "login-refused"
    catalog = "rotated"

    def fill(self, scene: Scene) -> None:
        scene.run_sql("CREATE ROLE rotated LOGIN PASSWORD 'first'", "CREATE DATABASE rotated OWNER rotated")
        scene.set_connection("rotated_login", conn_type="postgres", login="rotated", password="first")
        super().fill(scene)

    def provoke(self, scene: Scene) -> None:
        scene.run_sql(
            "ALTER ROLE rotated PASSWORD 'second'",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotated'",
        )
        self.produce(scene, {7: 7, 8: 8})

    def fix(self, scene: Scene) -> int:
        scene.set_connection("rotated_login", conn_type="postgres", login="rotated", password="second")
        return scene.hand.start_flush(self.name)
