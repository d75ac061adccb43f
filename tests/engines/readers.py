"""The engines: each reads the states of all tables, and gives the rows of each or its words of refusal."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flink

from engines import packages
from engines.journey import State
from engines.values import (
    EMPTY_COLLECTIONS,
    EMPTY_OF_STRUCTS,
    HOLLOW_STRUCTS,
    Limit,
    Row,
    build_row,
    parse_text,
)
from local.layout import JARS
from local.server import build_clean_environment

DEADLINE_SECONDS = 600
CATALOG = "states"


@dataclass(frozen=True)
class Reading:
    """What an engine made of a state: its rows in the common form, or why it refused."""

    rows: list[Row] = field(default_factory=list)
    refused: str = ""


@dataclass(frozen=True)
class Place:
    """Where engines find the states: the catalog in which each is a table of its own, and Spark's address."""

    folder: Path
    properties: dict[str, str]
    spark_remote: str


@dataclass(frozen=True)
class Engine:
    """`read` gives the version in words, and a reading for each state; `limits` are known, with what they level."""

    title: str
    read: Callable[[Place, Sequence[State]], tuple[str, list[Reading]]]
    limits: tuple[Limit, ...] = ()
    refusals: tuple[str, ...] = ()


def register_states(workbench: Any, folder: Path, states: Sequence[State]) -> Place:
    """A catalog in which each state is a table of its own."""
    from tidegate.adapters.iceberg.catalog import Catalogs, prepare_database

    folder.mkdir(parents=True, exist_ok=True)
    prepare_database(folder / "states.db")
    properties = workbench.properties | {"uri": f"sqlite:///{folder / 'states.db'}"}
    catalog = Catalogs({CATALOG: properties}).catalog(CATALOG)
    catalog.create_namespace("shop")
    for state in states:
        catalog.register_table(f"shop.{state.name}", f"file://{state.metadata}")
    return Place(folder, properties, workbench.stack.spark_remote)


def read_with_spark(place: Place, states: Sequence[State]) -> tuple[str, list[Reading]]:
    from tidegate.adapters.iceberg.catalog_conf import build_spark_catalog_conf
    from tidegate.spec.pipeline import Catalog
    from tidegate_spark.session import close, connect_session

    conf = build_spark_catalog_conf(Catalog(CATALOG, "iceberg", place.properties), place.properties)
    session = connect_session(place.spark_remote, conf)
    try:
        iceberg = find_version(JARS / "spark", "iceberg-spark-runtime")
        version = f"Spark {session.version} with Iceberg {iceberg}"
        tables = [session.table(f"{CATALOG}.shop.{state.name}").toArrow() for state in states]
    finally:
        close(session)
    return version, [build_reading(table, state) for table, state in zip(tables, states, strict=True)]


def read_with_pyiceberg(place: Place, states: Sequence[State]) -> tuple[str, list[Reading]]:
    import pyiceberg
    from tidegate.adapters.iceberg.catalog import Catalogs

    catalogs = Catalogs({CATALOG: place.properties})
    readings = []
    for state in states:
        table = catalogs.table(f"{CATALOG}.shop.{state.name}")
        assert table is not None
        try:
            readings.append(build_reading(table.scan().to_arrow(), state))
        except Exception as error:
            readings.append(Reading(refused=f"{type(error).__name__}: {error}"))
    return f"PyIceberg {pyiceberg.__version__}", readings


def read_with(name: str) -> Callable[[Place, Sequence[State]], tuple[str, list[Reading]]]:
    """An engine of `read_files.py`, in a process that has its packages."""

    def read(place: Place, states: Sequence[State]) -> tuple[str, list[Reading]]:
        import pyarrow

        assert packages.is_there(), packages.MISSING
        folder = place.folder / name
        folder.mkdir()
        requests = [{"metadata": str(state.metadata), "rows": str(folder / f"{state.name}.arrow")} for state in states]
        (folder / "requests.json").write_text(json.dumps(requests))
        command = [sys.executable, str(Path(__file__).parent / "read_files.py"), name, str(folder / "requests.json")]
        environment = build_clean_environment() | {"PYTHONPATH": str(packages.FOLDER), "TZ": "UTC"}
        process = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
        )
        assert process.returncode == 0, process.stderr[-4000:]
        readings = []
        for state, request in zip(states, requests, strict=True):
            rows = Path(request["rows"])
            refused = rows.with_suffix(".refused")
            if refused.exists():
                readings.append(Reading(refused=refused.read_text()))
                continue
            with pyarrow.OSFile(str(rows), "rb") as file:
                readings.append(build_reading(pyarrow.ipc.open_stream(file).read_all(), state))
        return process.stdout.splitlines()[0], readings

    return read


def read_with_flink(place: Place, states: Sequence[State]) -> tuple[str, list[Reading]]:
    database = place.properties["uri"].removeprefix("sqlite:///")
    catalog = (
        f"CREATE CATALOG {CATALOG} WITH ('type' = 'iceberg', 'catalog-impl' = 'org.apache.iceberg.jdbc.JdbcCatalog', "
        f"'jdbc.schema-version' = 'V1', 'uri' = 'jdbc:sqlite:{database}', 'cache-enabled' = 'false', "
        f"'warehouse' = '{place.properties['warehouse']}')"
    )
    selects = [
        f"SELECT {', '.join(f'`{column.name}`' for column in state.fields.fields)} FROM {CATALOG}.shop.{state.name}"
        for state in states
    ]
    answers = flink.read(place.folder, catalog, *selects)
    readings = []
    for number, state in enumerate(states, 1):
        answer = answers[number]
        if isinstance(answer, str):
            readings.append(Reading(refused=answer))
            continue
        rows = [
            {c.name: parse_text(text, c.field_type) for c, text in zip(state.fields.fields, row, strict=True)}
            for row in answer
        ]
        readings.append(Reading(rows))
    jars = flink.jars.find_folder(flink.PEER)
    version = f"{find_version(jars, 'flink-clients')} with Iceberg {find_version(jars, 'iceberg-flink-runtime')}"
    return f"Flink {version}", readings


def build_reading(table: Any, state: State) -> Reading:
    """Rows of Arrow in the common form, or what cannot be read as the column's type."""
    return Reading([build_row(row, state.fields) for row in table.to_pylist()])


def find_version(jars: Path, name: str) -> str:
    """The version of a jar in that folder."""
    (jar,) = jars.glob(f"{name}-*.jar")
    return jar.stem.rpartition("-")[2]


ENGINES = {
    "spark": Engine("Spark", read_with_spark),
    "pyiceberg": Engine("PyIceberg", read_with_pyiceberg, limits=(EMPTY_OF_STRUCTS,)),
    "duckdb": Engine("DuckDB", read_with("duckdb")),
    "clickhouse": Engine(
        "ClickHouse",
        read_with("clickhouse"),
        limits=(EMPTY_COLLECTIONS, HOLLOW_STRUCTS),
        refusals=("Position deletes are supported only for parquet format",),  # format 3's vectors
    ),
    "flink": Engine("Flink", read_with_flink),
}
