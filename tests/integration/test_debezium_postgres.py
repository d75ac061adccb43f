"""A real Debezium connector on a real PostgreSQL: in the end Iceberg holds what PostgreSQL holds, type by type."""

import subprocess
from collections.abc import Iterator
from typing import Any

import postgres_types
import pytest
from conftest import wait_until
from connect_worker import ConnectWorker
from postgres import PostgreSQL

BANK = {
    "pgbench_accounts": ("aid", "aid INT, bid INT, abalance INT, filler STRING"),
    "pgbench_branches": ("bid", "bid INT, bbalance INT, filler STRING"),
    "pgbench_tellers": ("tid", "tid INT, bid INT, tbalance INT, filler STRING"),
    "pgbench_history": (None, "tid INT, bid INT, aid INT, delta INT, mtime TIMESTAMP_NTZ, filler STRING"),
}
# an array of random numbers and a text of random letters: too large for the row, and not to be compressed
LARGE = {
    "body": "string_agg(md5(i::text), '')",
    "bytes": "decode(string_agg(md5(i::text), ''), 'hex')",
    "binary_doc": "jsonb_agg(md5(i::text))",
    "words": "array_agg(md5(i::text))",
    "numbers": "array_agg((random() * 2000000000)::int)",
    "big_numbers": "array_agg((random() * 9e18)::bigint)",
    "days": "array_agg(date '2026-01-01' + (random() * 900000)::int)",
    "uuids": "array_agg(md5(i::text)::uuid)",
    "blobs": "array_agg(decode(md5(i::text), 'hex'))",
    "pairs": "hstore(array_agg(md5(i::text)), array_agg(md5((-i)::text)))",
}


class Source:
    """The database and the worker that reads it; topics are `<prefix>.public.<table>` with four partitions."""

    def __init__(self, database: PostgreSQL, worker: ConnectWorker, prefix: str) -> None:
        self.database, self.worker, self.prefix = database, worker, prefix

    def topic(self, table: str) -> str:
        return f"{self.prefix}{'odd' if table == 'odd' else ''}.public.{table}"

    def wait_until_sent(self) -> None:
        """Wait until Kafka has acknowledged all that was written so far: both slots have passed a later mark.

        A slot becomes active when the snapshot is over.
        """
        wait_until(lambda: self._has_slots("active"), "both connectors stream")
        ((written,),) = self.database.read_rows("SELECT pg_current_wal_lsn()")

        def is_sent() -> bool:
            self.database.execute("UPDATE mark SET n = n + 1", "UPDATE odd SET mark = mark + 1 WHERE id = 0")
            return self._has_slots(f"confirmed_flush_lsn > '{written}'")

        wait_until(is_sent, "both connectors have sent everything")

    def _has_slots(self, condition: str) -> bool:
        self.worker.check()
        return self.database.read_rows(f"SELECT count(*) FROM pg_replication_slots WHERE {condition}") == [(2,)]


@pytest.fixture
def source(stack, workbench) -> Iterator[Source]:
    prefix = workbench.topic().replace("-", "_")
    database = PostgreSQL(wal_level="logical", timezone="UTC")
    try:
        wait_until(database.is_ready, "PostgreSQL answers")
        fill_database(database)
        worker = ConnectWorker(workbench.folder / "connect", stack.kafka_bootstrap, build_connectors(database, prefix))
        try:
            yield Source(database, worker, prefix)
        finally:
            worker.close()
    finally:
        database.close()


def fill_database(database: PostgreSQL) -> None:
    database.pgbench("-i", "-s", "1", "-q")
    database.pgbench("-n", "-t", "10")
    database.execute(
        *postgres_types.create("everything"),
        *(postgres_types.insert("everything", id, id - 1) for id in (1, 2)),
        "INSERT INTO everything (id) VALUES (3), (4)",
        "CREATE TABLE mark (id int PRIMARY KEY, n int)",
        "INSERT INTO mark VALUES (1, 0)",
        "CREATE TABLE odd (id int PRIMARY KEY, mark int, amount numeric(12,2), at timestamp, day date, "
        "atz timestamptz)",
        "INSERT INTO odd VALUES (0, 0, 1.50, now(), now(), now())",
        "INSERT INTO odd (id, amount) VALUES (1, 'NaN'), (2, -99.99)",
        "INSERT INTO odd (id, at) VALUES (3, 'infinity'), (4, '0044-03-15 BC')",
        "INSERT INTO odd (id, day) VALUES (5, '-infinity')",
        "INSERT INTO odd (id, atz) VALUES (7, 'infinity')",
    )


def build_connectors(database: PostgreSQL, prefix: str) -> dict[str, dict[str, str]]:
    """One with the defaults for decimals, and one that writes them as text, as a user must who has NaN."""
    shared = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": database.user,
        "database.password": "none",
        "database.dbname": database.database,
        "publication.autocreate.mode": "filtered",
        "topic.creation.default.partitions": "4",
        "topic.creation.default.replication.factor": "1",
        "heartbeat.interval.ms": "1000",
        "event.converting.failure.handling.mode": "fail",
    }
    own = {
        prefix: {"table.include.list": r"public\.(pgbench_.*|everything|mark)"},
        f"{prefix}odd": {"table.include.list": r"public\.odd", "decimal.handling.mode": "string"},
    }
    return {
        name: {**shared, **more, "topic.prefix": name, "slot.name": name, "publication.name": name}
        for name, more in own.items()
    }


def build_table(source: Source, name: str, key: str | None, schema: str) -> dict[str, Any]:
    given = {"name": f"lake.bank.{name}", "topics": [source.topic(name)]}
    columns = {"fields": [key], "schema": f"{key} {'BIGINT' if key == 'id' else 'INT'}"} if key else {}
    return {**given, "key": columns, "value": {"format": "debezium-json", "schema": schema}}


def write_pipeline(workbench: Any, source: Source, more: str = "") -> None:
    tables = [
        *(
            build_table(source, name, key, schema + (more if key == "aid" else ""))
            for name, (key, schema) in BANK.items()
        ),
        build_table(source, "everything", "id", postgres_types.render_schema()),
    ]
    workbench.pipeline("bank", [source.topic(name) for name in (*BANK, "everything")], tables=tables)


@pytest.mark.repeats(
    "integration/test_connect_types.py::test_every_logical_type_lands_exactly_and_every_one_may_be_null"
)
def test_iceberg_ends_as_postgres_row_by_row_and_type_by_type(workbench, source: Source) -> None:
    database = source.database
    source.wait_until_sent()
    write_pipeline(workbench, source)
    workbench.flush("bank")
    load = subprocess.Popen(  # runs on while the table gains a column
        [str(database.bin / "pgbench"), *database.address, "-n", "-c", "2", "-T", "5", database.database],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(
            lambda: database.read_rows("SELECT count(*) > 100 FROM pgbench_history") == [(True,)], "pgbench works"
        )
        database.execute("ALTER TABLE pgbench_accounts ADD COLUMN note text")
        change_everything(database)
    finally:
        assert load.wait(120) == 0
    database.execute("UPDATE pgbench_accounts SET note = 'n' || aid WHERE aid % 10 = 0")
    database.execute("DELETE FROM pgbench_accounts WHERE aid % 100 = 1")
    source.wait_until_sent()
    write_pipeline(workbench, source, ", note STRING")
    workbench.drain("bank")

    for name, (key, schema) in BANK.items():
        columns = [part.split()[0] for part in (schema + (", note STRING" if key == "aid" else "")).split(", ")]
        table_rows = workbench.load_iceberg(f"bank.{name}").scan().to_arrow().select(columns).to_pylist()
        database_rows = database.read_rows(f"SELECT {', '.join(columns)} FROM {name}")
        assert sorted(map(repr, (tuple(row.values()) for row in table_rows))) == sorted(map(repr, database_rows)), name
    landed = sorted(postgres_types.read(workbench.read_rows("bank.everything")), key=lambda row: row["id"])
    assert_equal(landed, postgres_types.compute_rows(database.read_rows, "everything"))
    check_values_without_counterpart(workbench, source)


def change_everything(database: PostgreSQL) -> None:
    """The same values again, but streamed and not from the snapshot; large values that stay when others change."""
    database.execute(
        *(postgres_types.insert("everything", id, id - 11) for id in (11, 12)),
        "UPDATE everything SET id = 13 WHERE id = 12",
        "DELETE FROM everything WHERE id = 4",
        f"INSERT INTO everything (id, {', '.join(LARGE)}) "
        f"SELECT k, {', '.join(LARGE.values())} FROM generate_series(1, 1500) i, generate_series(21, 22) k GROUP BY k",
        "UPDATE everything SET n = 7 WHERE id >= 21",
        "UPDATE everything SET n = 8, body = NULL WHERE id = 22",
        "UPDATE everything SET n = 9 WHERE id = 22",
    )


def assert_equal(landed: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert [row["id"] for row in landed] == [row["id"] for row in expected]
    differences = [
        (mine["id"], name, str(mine[name])[:200], str(theirs[name])[:200])
        for mine, theirs in zip(landed, expected, strict=True)
        for name in theirs
        if repr(mine[name]) != repr(theirs[name]) and mine[name] != theirs[name]
    ]
    assert not differences


def check_values_without_counterpart(workbench: Any, source: Source) -> None:
    """NaN as a decimal, infinite times and those before the year 1 are set aside; all else of that table lands."""
    schema = "id INT, amount DECIMAL(12,2), at TIMESTAMP_NTZ, day DATE, atz TIMESTAMP"
    table = {**build_table(source, "odd", "id", schema), "key": {"fields": ["id"], "schema": "id INT"}}
    errors = {"errors": {"tolerance": "all"}}
    workbench.pipeline("odd", [source.topic("odd")], source=errors, tables=[table])
    workbench.flush("odd")
    letters = {row["key"].decode(): row["message"] for row in workbench.read_rows("bank.tidegate_odd_dead_letters")}
    messages = {key.partition('"payload":')[2]: message for key, message in letters.items()}
    assert messages == {
        '{"id":1}}': "the value field amount is not a DECIMAL(12,2) without loss",
        **{f'{{"id":{n}}}}}': "the value field at is not a TIMESTAMP_NTZ without loss" for n in (3, 4)},
        '{"id":5}}': "the value field day is not a DATE without loss",
        '{"id":7}}': "the value field atz is not a TIMESTAMP without loss",
    }
    assert [row["id"] for row in workbench.read_rows("bank.odd")] == [0, 2]
