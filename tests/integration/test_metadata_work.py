"""What one flush asks of the real catalog: bounded, and no more for the tenth batch than for the second."""

from collections import Counter

import pytest
from fakes.counted import Calls
from pyiceberg.catalog.sql import SqlCatalog
from tidegate.steps.flush import flush

ROUNDS = 3
# loads of a table's metadata and commits, beside those that Spark makes itself
MOST = {
    "plan": {"load_table": 3},
    "stage": {"load_table": 4},
    "flush": {"load_table": 1},
    "merge": {"load_table": 11, "commit_table": 2},  # each commit loads the table once more
    "record_batch": {"load_table": 2, "commit_table": 1},
    "commit_offsets": {"load_table": 2},
    "clean_up": {"load_table": 5, "commit_table": 1},
    "heartbeat": {"load_table": 2},
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    counted = Calls()
    for verb in ("load_table", "commit_table", "list_tables", "list_namespaces"):
        original = getattr(SqlCatalog, verb)

        def noted(self, *given, _verb=verb, _original=original, **named):
            counted.note(_verb)
            return _original(self, *given, **named)

        monkeypatch.setattr(SqlCatalog, verb, noted)
    return counted


def test_flush_loads_and_commits_a_fixed_number_of_times(workbench, calls: Calls) -> None:
    topic = workbench.topic()
    workbench.pipeline("counted", [topic], key={"fields": ["id"], "schema": "id BIGINT"}, value={"schema": "id BIGINT"})
    found: list[dict[str, Counter[str]]] = []
    for number in range(ROUNDS):
        workbench.produce(topic, ({"id": number}, {"id": number}))
        calls.by_step = {}
        with calls.watching():
            flush(workbench.ports("counted"))
        found.append(calls.by_step)
    steady = found[-1]
    assert {step: dict(made) for step, made in steady.items() if made - Counter(MOST.get(step, {}))} == {}
    assert found[-1] == found[-2]
