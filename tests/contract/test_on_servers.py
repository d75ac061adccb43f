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
from contract.test_destination import Kit, in_iceberg
from lake_servers import FILES, OTHER_STORE, TABLES, LakeServers
from tidegate.adapters.iceberg.destination import build_iceberg_destination

PLACES = [f"{tables}-{files}" for tables in TABLES for files in FILES][1:]  # SQLite on files is in every build
PLACES.append(f"postgres-{OTHER_STORE}")


def list_behaviours(module: Any) -> list[Any]:
    """The tests of a module that ask for nothing but a destination."""
    tests = {name.removeprefix("test_"): test for name, test in vars(module).items() if name.startswith("test_")}
    asks = {name: list(inspect.signature(test).parameters) for name, test in tests.items()}
    return [pytest.param(test, id=name) for name, test in tests.items() if asks[name] == ["kit"]]


@pytest.fixture(params=PLACES)
def kit(request: pytest.FixtureRequest, lake_servers: LakeServers, tmp_path: Path) -> Kit:
    tables, _, files = request.param.partition("-")
    return in_iceberg(tmp_path, lake_servers.make_catalog(tables, files, tmp_path).properties)


@pytest.mark.parametrize("behaviour", list_behaviours(test_destination))
def test_destination_on_servers_does_the_same(behaviour: Callable[[Kit], None], kit: Kit) -> None:
    behaviour(kit)


@pytest.mark.parametrize("behaviour", list_behaviours(test_branch))
def test_named_branch_on_servers_does_the_same(behaviour: Callable[[Kit], None], kit: Kit) -> None:
    kit.port = build_iceberg_destination(kit.port.tables.catalogs, {test_destination.TABLE: BRANCH})
    behaviour(kit)
