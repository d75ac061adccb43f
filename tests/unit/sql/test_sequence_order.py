"""BigQuery has no order of structs: what its SQL writes instead, column by column, is evaluated by SQLite."""

import re
import sqlite3
from itertools import product

from tidegate.adapters.sql_templates import SqlFiles
from unit.sql.test_iceberg_golden import REMEMBERED, SEQUENCED

Sequence = tuple[int | None, int | None]
SEQUENCES: list[Sequence | None] = [None, *product((None, 1, 2), repeat=2)]
PLACES = list(product((None, 1, 5), (3, 7)))  # of a key's last delete without a sequence, and of a later record
LAST_OFFSET = 5


def build_rank(sequence: Sequence) -> tuple[tuple[bool, int], ...]:
    """NULL is lower than any value."""
    return tuple((value is not None, value or 0) for value in sequence)


def is_later(mine: Sequence | None, theirs: Sequence | None, reset: int | None, offset: int) -> bool:
    """Of several records of a key the highest sequence counts, wherever it lies, and behind it a delete without one."""
    if mine is None or theirs is None:
        return offset > max(-1 if reset is None else reset, -1 if mine is None else LAST_OFFSET)
    is_behind = offset > LAST_OFFSET and build_rank(theirs) == build_rank(mine)
    return offset > (-1 if reset is None else reset) and (is_behind or build_rank(theirs) > build_rank(mine))


def test_later_record_decides_a_replayed_key_by_each_column_of_its_sequence() -> None:
    values = {**SEQUENCED, "sequence": ["term", "lsn"], "flag": None, "guarded": True, "by_offset": True}
    sql = SqlFiles("bigquery").render("merge_sequenced", **values).replace("`", "")
    found = re.search(r"AND (\(t\._tidegate_topic.*?)\n  WHERE t\._tidegate_is_later", sql, re.DOTALL)
    assert found is not None
    condition = re.sub(r"\b([st])\.(\w+(?:\.\w+)+)", lambda m: f"{m[1]}.{m[2].replace('.', '_')}", found[1])
    wrong = []
    with sqlite3.connect(":memory:") as database:
        for mine, theirs, (reset, offset) in product(SEQUENCES, SEQUENCES, PLACES):
            my_columns = (mine and 1, *(mine or (None, None)), mine and LAST_OFFSET, reset)
            their_columns = (theirs and 1, *(theirs or (None, None)), offset)
            (answer,) = database.execute(
                f"SELECT {condition} FROM (SELECT 'a' AS _tidegate_topic, ? AS _tidegate_last_sequence, "
                "? AS _tidegate_last_sequence_term, ? AS _tidegate_last_sequence_lsn, ? AS _tidegate_last_offset, "
                "? AS _tidegate_reset_offset) AS s, (SELECT 'a' AS _tidegate_topic, ? AS _tidegate_sequence, "
                "? AS _tidegate_sequence_term, ? AS _tidegate_sequence_lsn, ? AS _tidegate_offset) AS t",
                (*my_columns, *their_columns),
            ).fetchone()
            if bool(answer) != is_later(mine, theirs, reset, offset):
                wrong.append((mine, theirs, reset, offset, answer))
    assert wrong == []


def test_change_that_is_read_again_is_remembered_as_it_is_read_now_and_an_earlier_one_is_not() -> None:
    """As in Iceberg: a corrected file, and `rebase`, would otherwise leave the rows of the first reading."""
    values = {**REMEMBERED, "sequence": ["term", "lsn"]}
    sql = SqlFiles("bigquery").render("remember_changes", **values).replace("`", "")
    found = re.search(r"WHEN MATCHED AND (.*) THEN UPDATE", sql)
    assert found is not None
    condition = re.sub(r"IF\((t\._tidegate_kind = 't'), NULL, t\._tidegate_sequence\.(\w+)\)", r"t.\2", found[1])
    condition = condition.replace("s._tidegate_sequence_1", "s.term").replace("s._tidegate_sequence_2", "s.lsn")
    columns = ("term", "lsn", *(f"_tidegate_{name}" for name in ("offset", "topic", "partition", "i")))
    named = ", ".join(f"? AS {column}" for column in columns)
    changes = [
        (*sequence, offset, "a", 0, i) for sequence in SEQUENCES[1:] if sequence for offset in (3, 7) for i in (0, 1)
    ]
    wrong = []
    with sqlite3.connect(":memory:") as database:
        for one, other in product(changes, changes):
            query = f"SELECT {condition} FROM (SELECT {named}) AS s, (SELECT {named}) AS t"
            (answer,) = database.execute(query, (*one, *other)).fetchone()
            if bool(answer) != ((build_rank(one[:2]), one[2:]) >= (build_rank(other[:2]), other[2:])):
                wrong.append((one, other, answer))
    assert wrong == []
