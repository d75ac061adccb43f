"""verify and explain by chance, as often as asked: `PROOF_RUNS`, `PROOF_KEYS`, `PROOF_ROWS` and `PROOF_SEED`.

100 runs of planted faults and 1,000 explained keys take hours:

    PROOF_RUNS=100 PROOF_KEYS=1000 PROOF_ROWS=100000 make integration ARGS='-m long -k proofs'
"""

import json
import os
import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from integration.test_verify import KEY, VALUE, count, make_record, verify

RUNS = int(os.environ.get("PROOF_RUNS", "2"))
KEYS = int(os.environ.get("PROOF_KEYS", "8"))
ROWS = int(os.environ.get("PROOF_ROWS", "200"))
SEED = int(os.environ.get("PROOF_SEED", "1"))
WHOLE, PARTIAL, PAST = "lake.shop.Whole", "lake.shop.partial", "lake.shop.Past"
LONELY = 1_000_000  # from here on ids have one row, whose part is a text
RowKey = tuple[int, str | None]
Difference = tuple[str, str, str | None, int, str | None]  # table, kind, column, and the key


class Fault(NamedTuple):
    """What somebody does to a row of a table, and what is to be found."""

    table: str
    statement: str
    found: Callable[[RowKey], list[Difference]]


def change(table: str, column: str, value: str, where: str = "true") -> Fault:
    statement = f"UPDATE {{table}} SET {column} = {value} WHERE {{row}} AND {where}"
    return Fault(table, statement, lambda key: [(table, "different", column, *key)])


FAULTS = {
    "a value": change(WHOLE, "note", "concat(note, '!')"),
    "NULL for a value": change(WHOLE, "n", "NULL"),
    "a decimal's scale": change(WHOLE, "Amount", "Amount * 10"),
    "a time's zone": change(WHOLE, "At", "At + INTERVAL 2 HOURS"),
    "a stale partial update": change(PARTIAL, "note", "'first'"),
    "a missing row": Fault(WHOLE, "DELETE FROM {table} WHERE {row}", lambda key: [(WHOLE, "missing", None, *key)]),
    "a surplus row": Fault(
        WHOLE, "INSERT INTO {table} (Id, part, n) SELECT Id + 5000000, part, 1 FROM {table} WHERE {row}",
        lambda key: [(WHOLE, "surplus", None, key[0] + 5_000_000, key[1])],
    ),
    "NULL in a key": Fault(
        WHOLE, "UPDATE {table} SET part = NULL WHERE {row}",
        lambda key: [(WHOLE, "missing", None, *key), (WHOLE, "surplus", None, key[0], None)],
    ),
    "a version's end": change(PAST, "Till", "coalesce(Till, Since) + INTERVAL 1 MICROSECOND", "note = 'first'"),
    "an old version's value": change(PAST, "Amount", "NULL", "note = 'first'"),
    "a missing version": Fault(
        PAST, "DELETE FROM {table} WHERE {row} AND note = 'last'", lambda key: [(PAST, "missing", None, *key)],
    ),
    "a surplus version": Fault(
        PAST, "INSERT INTO {table} (Id, part, Since, Now) "
        "SELECT Id, part, Since + INTERVAL 9 DAYS, false FROM {table} WHERE {row} AND note = 'last'",
        lambda key: [(PAST, "surplus", None, *key)],
    ),
}  # fmt: skip


def render_row(key: RowKey) -> str:
    part = "NULL" if key[1] is None else f"'{key[1]}'"
    return f"Id = {key[0]} AND part <=> {part}"


def read_rows(workbench: Any) -> list[list[str]]:
    return [sorted(map(str, workbench.read_rows(table))) for table in (WHOLE, PARTIAL, PAST)]


@pytest.mark.repeats("integration/test_verify.py::test_each_planted_fault_is_named_and_nothing_else")
def test_faults_of_random_rows_are_named_and_repaired(workbench: Any, record_property: Any) -> None:
    topic = workbench.topic()
    # the second records, with one value, are for the partial table alone
    tables = [
        {"name": WHOLE, "when": "n >= 0", "when_false": "ignore"},
        {"name": PARTIAL, "partial_updates": True},
        {
            "name": PAST,
            "history": "scd2",
            "history_columns": {"valid_from": "Since", "valid_to": "Till", "is_current": "Now"},
        },
    ]
    workbench.pipeline("proved", [topic], key=KEY, value=VALUE, tables=tables)
    lonely = [(LONELY + number, "a") for number in range(ROWS // 4)]
    keys: list[RowKey] = [(number, part) for number in range(ROWS // 2) for part in ("a", None)]
    workbench.produce(topic, *[make_record(*key, note="first") for key in [*keys, *lonely]])
    workbench.drain("proved")
    workbench.produce(topic, *[(make_record(*key)[0], {"Id": key[0], "part": key[1], "note": "last"}) for key in keys])
    workbench.drain("proved")
    right_rows = read_rows(workbench)
    total = len(keys) + len(lonely)
    right_counts = [{"equal": total}, {"equal": total}, {"equal": total + len(keys)}]
    before = workbench.load_iceberg(PAST).metadata.current_snapshot_id
    for run in range(RUNS):
        chance = random.Random(SEED + run)
        lost = chance.choice(lonely)  # for the key's own NULL
        others = iter(chance.sample(keys, len(FAULTS) - 1))
        expected = set()
        for name, fault in FAULTS.items():
            key = lost if name == "NULL in a key" else next(others)
            workbench.run_spark_sql(fault.statement.format(table=fault.table, row=render_row(key)))
            expected |= set(fault.found(key))
        found = set()
        for table in verify(workbench, "proved"):
            for entry in table["differences"]:
                key_values = json.loads(entry["key"])  # a field that is NULL is left out
                place = (table["table"], entry["kind"], entry["column"])
                found.add((*place, key_values["Id"], key_values.get("part")))
        assert found == expected, f"PROOF_SEED={SEED + run}"
        # versions are not repaired
        workbench.run_spark_sql(f"CALL lake.system.rollback_to_snapshot('shop.Past', {before})")
        repaired = workbench.run_cli("verify", "proved", "--repair", "--yes")
        assert repaired.returncode == 0, (repaired.stderr, SEED + run)
        assert read_rows(workbench) == right_rows, f"PROOF_SEED={SEED + run}"
        assert [count(table) for table in verify(workbench, "proved")] == right_counts
    record_property("counted", {"planted faults named and repaired": RUNS * len(FAULTS)})


@pytest.mark.repeats("integration/test_explain.py::test_each_key_of_two_tables_is_told_its_cause")
def test_random_keys_are_explained_and_none_wrongly(workbench: Any, record_property: Any) -> None:
    topic = workbench.topic(4)
    workbench.pipeline(
        "proved", [topic], key=KEY, value=VALUE, source={"errors": {"tolerance": "all", "max_per_batch": ROWS}}
    )
    offsets = dict.fromkeys(range(4), 0)
    places: dict[int, list[str]] = {}

    def send(number: int, record: tuple[Any, Any]) -> tuple[Any, ...]:
        partition = number % 4
        places.setdefault(number, []).append(f"{topic}:{partition}:{offsets[partition]}")
        offsets[partition] += 1
        return (*record, {"partition": partition})

    # by the last digit: 3 deleted, 5 superseded, 7 deleted and back again, 9 bad, the others written once
    bad = {"n": 3_000_000_000}
    workbench.produce(topic, *[send(n, make_record(n, **(bad if n % 10 == 9 else {}))) for n in range(ROWS)])
    workbench.drain("proved")
    second = [n for n in range(ROWS) if n % 10 in (3, 5, 7)]
    workbench.produce(
        topic, *[send(n, (make_record(n)[0], None) if n % 10 != 5 else make_record(n, note="newer")) for n in second]
    )
    workbench.drain("proved")
    workbench.produce(topic, *[send(n, make_record(n, note="back")) for n in second if n % 10 == 7])
    workbench.drain("proved")
    causes = {3: ("deleted", 0), 9: ("bad", 0)}
    slowest = 0.0
    chance = random.Random(SEED)
    for _ in range(KEYS):
        number = chance.randrange(ROWS + ROWS // 5)  # beyond: never seen
        cause, rows = causes.get(number % 10, ("record", 1)) if number < ROWS else ("never", 0)
        begun = time.monotonic()
        done = workbench.run_cli("explain", "proved", json.dumps({"Id": number, "part": "a"}), "--json")
        slowest = max(slowest, time.monotonic() - begun)
        assert done.returncode == 0, done.stderr
        (answer,) = json.loads(done.stdout)["tables"]
        told = (answer["cause"], answer["row_count"], answer["decided_by"], answer["limits"])
        assert told == (cause, rows, places.get(number, [None])[-1], []), (number, answer)
    record_property("counted", {"keys explained": KEYS, "seconds of the slowest": round(slowest, 1)})
