"""Live aggregates over a changing table: the topic holds what recomputing all gives, and only changes are produced."""

import json
from typing import Any

import pytest
from round_trip import ROWS, Way, build_rows, create_table, read, write_rows


@pytest.mark.repeats("test_windows_and_a_global_aggregate_equal_recomputing_all[tumbling]")
def test_word_count_over_an_upsert_topic_follows_each_change_with_retractions(workbench) -> None:
    """As in Flink's documentation: a count for each word, and a tombstone where a count falls to nothing."""
    sql = "SELECT name AS word, count(*) AS frequency FROM {table} GROUP BY name"
    way = Way(workbench, "wordcount", sql=sql, key={"fields": ["word"]}, create={"partitions": 1}, parallelism=1)

    def flush_and_publish(**rows: str | None) -> dict[str, Any]:
        before = len(way.read_records())
        way.flush(**rows)
        way.publish()
        return {json.loads(k)["word"]: v and v["frequency"] for k, v in way.read_records()[before:]}

    assert flush_and_publish(k1="hello", k2="world", k3="hello") == {"hello": 2, "world": 1}
    assert flush_and_publish(k4="world", k5="flink") == {"world": 2, "flink": 1}
    assert flush_and_publish(k1="world") == {"hello": 1, "world": 3}, "an update leaves one group and joins another"
    assert flush_and_publish(k5=None) == {"flink": None}, "a vanished group is a tombstone"
    assert flush_and_publish(k3=None, k4="hello") == {"world": 2}, "hello lost one and won one: its result is the same"


GROUPED = {
    "tumbling": ("minute(at) AS m, window.start", "count(*)", "GROUP BY m, window(at, '2 seconds')"),  # m is no key
    "hopping": ("window.start", "sum(price)", "GROUP BY window(at, '4 seconds', '2 seconds')"),
    "session": ("session_window.start", "max(name)", "GROUP BY session_window(at, '2 seconds')"),
    "whole": ("'all'", "count(DISTINCT name)", ""),
}


FIRST_ROWS = {f"k{n}": f"n{n % 3}" for n in (1, 2, 3, 7, 8, 20)}
CHANGES = ({"k5": "x", "k3": None, "k20": "n1"}, {"k1": None, "k8": None, "k21": "y"})
AT_ONCE = "tumbling"  # a window comes, one goes, one loses a row, one wins a row, one has another row, one stays


@pytest.mark.repeats(
    "test_windows_and_a_global_aggregate_equal_recomputing_all[tumbling]", "hopping", "session", "whole"
)
@pytest.mark.parametrize("kind", GROUPED)
def test_windows_and_a_global_aggregate_equal_recomputing_all(workbench, kind: str) -> None:
    key, value, by = GROUPED[kind]
    sql = f"SELECT {key} AS began, {value} AS n FROM {{table}} {by}"
    way = Way(workbench, "source")
    groups = Way.over(way, kind, sql=sql, key={"fields": ["began"]}, create={"partitions": 1}, parallelism=1)
    table = create_table(way, build_rows(**FIRST_ROWS), ROWS)
    groups.publish()
    for rows in [{**CHANGES[0], **CHANGES[1]}] if kind == AT_ONCE else CHANGES:
        ids = ", ".join(key[1:] for key in rows)
        write_rows(table, build_rows(**{key: name for key, name in rows.items() if name}), f"id in ({ids})")
        before = len(groups.read_records())
        groups.publish()
        assert {k: v["n"] for k, v in groups.read_latest().items()} == compute_aggregate(workbench, sql)
        produced = [k for k, _ in groups.read_records()[before:]]
        assert len(produced) == len(set(produced))
    if kind == "whole":
        assert len(read(workbench, groups.topic)) == 2, "the second change leaves three names as they were"


def compute_aggregate(workbench, sql: str) -> dict[str, Any]:
    rows = workbench.run_spark_sql(
        f"SELECT to_json(named_struct('began', began), map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\")), "
        f"to_json(named_struct('n', n)) FROM ({sql.replace('{table}', 'lake.shop.source')})"
    )
    return {row[0]: json.loads(row[1])["n"] for row in rows}
