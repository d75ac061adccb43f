"""The destination's contract on catalogs and stores beyond one machine: {SQLite, PostgreSQL, REST} x {files, S3}.

And of PostgreSQL a second time, on a store of another make.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contract import test_branch, test_destination
from contract.test_branch import BRANCH
from contract.test_destination import Kit, build_iceberg_kit
from contract_words import PIPELINE
from lake_servers import FILES, OTHER_STORE, TABLES, LakeServers
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion
from sqlalchemy import text as statement
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.errors import GiveUp

PLACES = [f"{tables}-{files}" for tables in TABLES for files in FILES][1:]  # SQLite on files is in every build
VIEW = statement(
    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type) "
    "VALUES (:catalog, :namespace, :name, 's3://lake/view.metadata.json', 'VIEW')"
)
PLACES.append(f"postgres-{OTHER_STORE}")
PLACES += [f"{tables}-file-3" for tables in ("postgres", "rest")]  # tables of format 3


def list_behaviours(module: Any) -> list[Any]:
    """The tests of a module that ask for nothing but a destination."""
    tests = {name.removeprefix("test_"): test for name, test in vars(module).items() if name.startswith("test_")}
    asks = {name: list(inspect.signature(test).parameters) for name, test in tests.items()}
    return [pytest.param(test, id=name) for name, test in tests.items() if asks[name] == ["kit"]]


@pytest.fixture(params=PLACES)
def kit(request: pytest.FixtureRequest, lake_servers: LakeServers, tmp_path: Path) -> Kit:
    tables, files, *version = request.param.split("-")
    properties = lake_servers.make_catalog(tables, files, tmp_path).properties
    return build_iceberg_kit(tmp_path, properties, version=int(version[0]) if version else 2)


# the same behaviour of the same code, by way of other servers
@pytest.mark.repeats("integration/test_lake.py::test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance")
@pytest.mark.parametrize("behaviour", list_behaviours(test_destination))
def test_destination_on_servers_does_the_same(behaviour: Callable[[Kit], None], kit: Kit) -> None:
    behaviour(kit)


# the same behaviour of the same code, by way of other servers
@pytest.mark.repeats("integration/test_lake.py::test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance")
@pytest.mark.parametrize("behaviour", list_behaviours(test_branch))
def test_named_branch_on_servers_does_the_same(behaviour: Callable[[Kit], None], kit: Kit) -> None:
    kit.port = build_iceberg_destination(kit.port.tables.catalogs, {test_destination.TABLE: BRANCH})
    behaviour(kit)


@pytest.mark.parametrize("tables", ["postgres", "rest"])
def test_view_of_a_tables_name_is_refused(tables: str, lake_servers: LakeServers, tmp_path: Path) -> None:
    kit = build_iceberg_kit(tmp_path, lake_servers.make_catalog(tables, "file", tmp_path).properties)
    catalog: Any = kit.port.tables.catalogs.catalog(test_destination.TABLE.partition(".")[0])
    identifier = test_destination.TABLE.partition(".")[2]
    assert kit.port.tables.read_state(test_destination.TABLE, PIPELINE) is None
    if tables == "rest":
        text: Any = SQLViewRepresentation(type="sql", sql="SELECT 1 AS id", dialect="spark")
        namespace = list(catalog.identifier_to_tuple(identifier)[:-1])
        version = ViewVersion(
            version_id=1, schema_id=0, timestamp_ms=1, summary={}, representations=[text], default_namespace=namespace
        )
        catalog.create_view(identifier, Schema(NestedField(1, "id", LongType())), version)
    else:  # as Spark makes it
        namespace, _, name = identifier.rpartition(".")
        values = {"catalog": catalog.name, "namespace": namespace, "name": name}
        with catalog.engine.begin() as connection:
            connection.execute(VIEW, values)
    with pytest.raises(GiveUp, match="is a view: it has no rows of its own"):
        kit.port.tables.read_state(test_destination.TABLE, PIPELINE)
