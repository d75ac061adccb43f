"""Members that are opened together: whatever keeps one from being opened is its own."""

from pathlib import Path
from typing import Any, cast

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import ConfigurationError
from tidegate.fleet import members
from tidegate.fleet.members import open_members

NAMES = ("Carts", "orders", "users")


@pytest.mark.parametrize("problem", [ConfigurationError("pipeline=orders: no connection"), KeyError("uri")])
def test_member_that_cannot_be_opened_keeps_no_other_from_being_opened(
    monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    world = World()

    def assemble(parts: Any, pipeline: Any, broker: Any) -> Any:
        if pipeline.name == "orders":
            raise problem
        return world.open_session(pipeline)

    monkeypatch.setattr(members, "assemble_loaded_pipeline", assemble)
    monkeypatch.setattr(members.ReadAheadBroker, "open", lambda *_: cast("Any", world.broker))
    pipelines = [build_pipeline(build_table(f"lake.shop.{name}"), name=name) for name in NAMES]
    opened = open_members(Path("include"), pipelines, lambda _: {})
    assert list(opened.sessions) == ["Carts", "users"]
    assert opened.failures == {"orders": problem}
