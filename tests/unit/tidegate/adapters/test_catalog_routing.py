"""Each call goes to the port of the catalog that its table lies in, with all that it was given."""

import inspect
from dataclasses import fields
from typing import Any

import pytest
from tidegate.adapters.catalog_routing import RoutedEngine, route_by_catalog
from tidegate.jobs.statements_job import StatementsJob
from tidegate.model.table_state import TableCommit
from tidegate.ports.destination import (
    BatchHistory,
    BranchCommits,
    DeadLetterStore,
    Destination,
    StagingStore,
    TableStore,
)

Call = tuple[str, str, tuple[Any, ...], dict[str, Any]]
PORTS: dict[str, type] = {
    "tables": TableStore,
    "commits": BranchCommits,
    "staging": StagingStore,
    "dead_letters": DeadLetterStore,
    "history": BatchHistory,
}
METHODS = [(port, name) for port, kind in PORTS.items() for name in vars(kind) if not name.startswith("_")]


class RecordingPort:
    """Any port, or engine: writes down who was called with what, and answers with it."""

    def __init__(self, owner: str, calls: list[Call]) -> None:
        self._owner, self._calls = owner, calls

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Call:
            self._calls.append((self._owner, name, arguments, options))
            return self._calls[-1]

        return call


def record_destination(owner: str, calls: list[Call]) -> Destination:
    port: Any = RecordingPort(owner, calls)
    return Destination(tables=port, commits=port, staging=port, dead_letters=port, history=port)


def test_destination_consists_of_these_ports() -> None:
    assert [field.name for field in fields(Destination)] == list(PORTS)


@pytest.mark.parametrize("table", ["lake.a.b", "dwh.a.b"])
@pytest.mark.parametrize(("port", "name"), METHODS)
def test_method_is_called_on_the_port_of_its_tables_catalog(port: str, name: str, table: str) -> None:
    calls: list[Call] = []
    routed_destination = route_by_catalog(
        {"lake": record_destination("lake", calls), "dwh": record_destination("dwh", calls)}
    )
    signature = inspect.signature(getattr(PORTS[port], name))
    first, *other_parameters = list(signature.parameters.values())[1:]
    subject = TableCommit(table, "", 0, 0, "", 0, {}) if first.name == "table_commit" else table
    given = [subject, *(object() for parameter in other_parameters if parameter.kind is not parameter.KEYWORD_ONLY)]
    named = {parameter.name: object() for parameter in other_parameters if parameter.kind is parameter.KEYWORD_ONLY}
    answer = getattr(getattr(routed_destination, port), name)(*given, **named)
    ((owner, method, arguments, options),) = calls
    assert (owner, method) == (table.split(".", 1)[0], name)
    assert signature.bind(None, *arguments, **options) == signature.bind(None, *given, **named)
    assert answer is calls[0], "what the port answers is what the caller gets"


def test_one_catalog_alone_is_asked_without_a_way_round() -> None:
    alone = record_destination("lake", [])
    assert route_by_catalog({"lake": alone}) is alone


def test_engine_of_a_jobs_table_runs_it() -> None:
    calls: list[Call] = []
    spark: Any = RecordingPort("spark", calls)
    bigquery: Any = RecordingPort("bigquery", calls)
    engine = RoutedEngine(spark, {"dwh": bigquery})
    engine.run(StatementsJob("one", 1, (), table="lake.a.b"))
    engine.run(StatementsJob("two", 1, (), table="dwh.a.b"))
    engine.run(StatementsJob("three", 1, ()))
    assert [(owner, arguments[0].pipeline) for owner, _, arguments, _ in calls] == [
        ("spark", "one"),
        ("bigquery", "two"),
        ("spark", "three"),
    ]
