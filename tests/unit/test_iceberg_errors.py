"""What a runner is told when files go, or cannot be reached, between its look at a table's metadata and its reading."""

from pathlib import Path
from typing import Any

import pytest
from contract.test_destination import Kit, in_iceberg
from contract_words import FIRST, PIPELINE, STAGED, START, TABLE
from fakes import World, a_pipeline
from sqlalchemy.exc import OperationalError
from tidegate.errors import OutcomeUnknown, PublishedElsewhere, RetryLater
from tidegate.flush import flush
from tidegate.steps.merge import merge
from tidegate.steps.plan import plan
from tidegate.steps.stage import stage


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return in_iceberg(tmp_path)


def after_a_load(kit: Kit, happens: Any) -> Any:
    """A second runner's destination, to which something happens just after it has read a table's metadata."""
    catalogs = kit.port._catalogs

    class Late:
        def __getattr__(self, name: str) -> Any:
            return getattr(catalogs, name)

        def table(self, name: str) -> Any:
            found = catalogs.table(name)
            happens()
            return found

    return type(kit.port)(Late())


def test_staged_files_that_another_run_cleans_up_while_they_are_read_are_a_fault_that_passes(kit: Kit) -> None:
    kit.seeded()
    kit.stage(1, "a1", 3)
    snapshot = kit.load(STAGED).current_snapshot().snapshot_id
    values = {"source": STAGED, "snapshot_id": snapshot, "batch": 1, "leaves": [("n",)], "keys": {"n": None}}
    with pytest.raises(RetryLater, match=f"table={TABLE}: a file went during bounds"):
        after_a_load(kit, lambda: kit.port.clean_up(STAGED, 1)).bounds(TABLE, values)
    assert not kit.port.bounds(TABLE, values).found


def test_publish_that_cannot_write_has_an_unknown_outcome_and_changes_nothing(kit: Kit) -> None:
    publication = kit.seeded().merged(FIRST)
    metadata = Path(kit.load(TABLE).location().removeprefix("file://")) / "metadata"

    def no_folder() -> None:
        metadata.rename(metadata.with_suffix(".away"))
        metadata.touch()

    with pytest.raises(OutcomeUnknown, match=f"table={TABLE}: .* did not answer during publish; it will be tried"):
        after_a_load(kit, no_folder).publish(publication)
    metadata.unlink()
    metadata.with_suffix(".away").rename(metadata)
    assert kit.state().recorded == START
    kit.port.publish(publication)
    assert kit.state().recorded == FIRST


def test_database_that_is_locked_is_a_fault_that_passes_and_its_statement_is_not_told(kit: Kit) -> None:
    kit.seeded()

    def locked() -> None:
        raise OperationalError("SELECT secret", {"password": "hunter2"}, Exception("database is locked"))

    with pytest.raises(RetryLater, match="did not answer during state") as told:
        after_a_load(kit, locked).state(TABLE, PIPELINE)
    assert str(told.value).endswith("database is locked")


def test_runner_whose_staged_files_went_says_that_another_run_published() -> None:
    world = World()
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"}, 0)
    ports = world.ports(a_pipeline())
    (staged,) = stage(ports, plan(ports))
    found = ports.destination.bounds

    def bounds(table: str, values: Any) -> Any:
        ports.destination.bounds = found
        flush(world.ports(a_pipeline()))
        raise RetryLater(f"table={table}: a file went during bounds")

    ports.destination.bounds = bounds
    with pytest.raises(PublishedElsewhere, match="another run published first"):
        merge(ports, staged)
