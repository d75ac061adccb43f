"""What a person at a terminal reads while jobs run, and nothing of it anywhere else."""

import sys
from argparse import Namespace

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.cli import session as cli_session
from tidegate.cli.session import open_named_pipeline
from tidegate.flush.flush import flush


@pytest.mark.parametrize(("at_terminal", "json"), [(True, False), (False, False), (False, True), (True, True)])
def test_jobs_of_a_flush_are_named_as_they_begin_where_a_person_looks(
    at_terminal: bool, json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World()
    world.broker.create("orders", 2)
    for partition in (0, 1):
        world.broker.produce("orders", {"id": str(partition)}, {"id": str(partition), "name": "x"}, partition)
    session = world.open_session(build_pipeline(build_table("lake.shop.orders"), build_table("lake.shop.copies")))
    monkeypatch.setattr(cli_session, "assemble_checked_pipeline", lambda *_: session)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: at_terminal)
    flush(open_named_pipeline(Namespace(pipeline="orders", json=json)))
    lines = list(dict.fromkeys(capsys.readouterr().err.splitlines()))
    is_told = at_terminal and not json
    assert lines == (
        ["stage batch=1", "merge batch=1 lake.shop.orders", "merge batch=1 lake.shop.copies"] if is_told else []
    )
