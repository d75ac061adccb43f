"""A batch with dead letters in thousands of partitions is published by a script that BigQuery still reads."""

import re
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from googlesql import Analyzer
from tidegate.adapters.bigquery.commit import MAX_SCRIPT_BYTES, render_transaction
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.merge.owed import render_dead_letter_statements
from tidegate.model.batch import Counts, StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.schema.data_types import Column
from tidegate.table.session import TableSession

SQL = SqlFiles("bigquery", {"lake": "my-project"})
ORDERS = "lake.shop.orders"
TOPIC = "a-topic-with-a-name-of-some-length-"
LETTERS = {
    "my-project.shop.tidegate_shop_dead_letters": tuple(
        Column(name, kind)
        for name, kind in (
            ("topic", "STRING"), ("partition", "BIGINT"), ("offset", "BIGINT"), ("timestamp", "TIMESTAMP"),
            ("batch", "BIGINT"), ("attempt", "STRING"), ("table", "STRING"), ("replayed_at", "TIMESTAMP"),
            ("topic_id", "STRING"), ("replayed_by", "STRING"),
        )
    )
}  # fmt: skip


def render_statements(
    topics: int, partitions: int, monkeypatch: pytest.MonkeyPatch, unknown: int = 0, ahead: list[str] | None = None
) -> tuple[str, ...]:
    """The statements about a batch's dead letters, where each partition has letters of other attempts too.

    The ids of the first `unknown` topics are not known. `ahead` gets the statements that are run before the script.
    """
    ahead = [] if ahead is None else ahead
    session = World().open_session(build_pipeline(build_table(ORDERS)))
    published: Any = SimpleNamespace(highest_batch=2)
    table_session = TableSession(session, session.pipeline.tables[0], published)
    names = [f"{TOPIC}{number}" for number in range(topics)]
    ranges = Ranges({name: {p: (10**9 + p, 10**9 + p + 200) for p in range(partitions)} for name in names})
    count = topics * partitions
    staged = StagedBatch(
        table=ORDERS,
        batch=3,
        attempt="0af3",
        snapshot_id=0,
        ranges=ranges,
        counts=Counts(span=count, read=count, dead_lettered=count),
        topic_ids=dict.fromkeys(names[unknown:], "b9Wd0pQ3RZ2n7yKx1uVtLA"),
    )
    others = Counter({(topic, partition): 1 for topic, partition, *_ in ranges})
    monkeypatch.setattr(session.dead_letters, "count_letters_of_others", lambda *_: others)
    monkeypatch.setattr(session.commits, "has_branches", lambda table: False)
    monkeypatch.setattr(type(session), "get_sql", lambda *_: SQL)
    monkeypatch.setattr(session.engine, "run", lambda job: ahead.extend(job.statements))
    return render_dead_letter_statements(table_session, staged)


def render_script(statements: tuple[str, ...]) -> str:
    return render_transaction(
        SQL, positions=f"{ORDERS}_tidegate_position", pipeline="shop", version=1, attempt="0af3", properties={},
        statements=statements,
    )  # fmt: skip


@pytest.mark.parametrize(("topics", "partitions"), [(2, 2500), (1000, 5)])
def test_script_of_a_batch_with_dead_letters_in_thousands_of_partitions_is_far_from_the_limit(
    monkeypatch: pytest.MonkeyPatch, topics: int, partitions: int
) -> None:
    script = render_script(render_statements(topics, partitions, monkeypatch))
    assert len(script.encode()) < 0.6 * MAX_SCRIPT_BYTES


def test_statements_about_letters_that_no_script_has_room_for_are_run_ahead_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each publish was refused: the script was longer than BigQuery reads, and a staged batch keeps its partitions."""
    ahead: list[str] = []
    statements = render_statements(2, 10_500, monkeypatch, ahead=ahead)
    assert len(render_script(statements).encode()) < 0.1 * MAX_SCRIPT_BYTES
    assert all(len(statement.encode()) < 0.1 * MAX_SCRIPT_BYTES for statement in ahead)
    for word in ("\nDELETE", "\nUPDATE"):
        places = [place for one in ahead if word in one for place in find_places(one)]
        assert sorted(Counter(places).values()) == [2] * 10_500
    assert ["\nMERGE" in statement for statement in statements][-1:] == [True]


def find_places(statement: str) -> list[tuple[int, ...]]:
    """Each partition with its first offset, and the one behind its last."""
    plain = re.sub(r" AS (?:named_partition|first_offset|end_offset)", "", statement)
    return [tuple(map(int, place)) for place in re.findall(r"\((\d+), ?(\d+), ?(\d+)\)", plain)]


def test_every_partition_is_named_once_in_what_is_forgotten_and_in_what_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    statements = render_statements(2, 2500, monkeypatch, unknown=1)
    for word, count in (("\nDELETE", 5000), ("\nUPDATE", 2500)):
        places = [place for one in statements if word in one for place in find_places(one)]
        assert sorted(Counter(places).values()) == [count // 2500] * 2500
        assert (17, 10**9 + 17, 10**9 + 217) in places


def test_statements_that_name_many_ranges_are_ones_that_bigquery_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    analyzer = Analyzer(LETTERS)
    checked = [
        one for one in render_statements(2, 60, monkeypatch, unknown=1) if "\nDELETE" in one or "\nUPDATE" in one
    ]
    assert len(checked) == 2
    for statement in checked:
        analyzer.check(statement)
