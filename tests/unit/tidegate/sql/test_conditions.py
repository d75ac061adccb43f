"""Which parts of a condition look at none of some columns: those that can be asked of a delete."""

import pytest
from tidegate.sql.conditions import render_without

COLUMNS = ["status", "Amount", "od`d", "t"]


@pytest.mark.parametrize(
    ("condition", "conditions"),
    [
        ("src = 'orders'", ["src = 'orders'"]),
        ("status = 'open'", []),
        ("STATUS IS NOT NULL AND src = 'status'", [" src = 'status'"]),
        ("src = 'it\\'s status AND' AND `amount` > 0", ["src = 'it\\'s status AND' "]),
        ("`od``d` = 1 AND src = r'\\' AND offset > 7", [" src = r'\\' ", " offset > 7"]),
        ("src BETWEEN 'a' AND 'b' AND offset BETWEEN 1 AND amount", ["src BETWEEN 'a' AND 'b' "]),
        ("src = 'a' OR status = 'b' AND offset > 1", []),
        ("src = 'a' OR src = 'b' AND offset > 1", ["src = 'a' OR src = 'b' AND offset > 1"]),
        ("(src = 'a' OR src = 'b') AND (t.x = 1 or offset = 2)", ["(src = 'a' OR src = 'b') "]),
        ("case when src = 'a' and offset > 1 then true end and NOT status = 'x'",
         ["case when src = 'a' and offset > 1 then true end "]),
        ("src = 'a' -- AND status = 'b'\n AND /* status */ offset > 1",
         ["src = 'a' -- AND status = 'b'\n ", " /* status */ offset > 1"]),
        ("src = 'a' /* not /* this: */ AND status = 'b' */ AND offset > 1",
         ["src = 'a' /* not /* this: */ AND status = 'b' */ ", " offset > 1"]),
        ('"status" = 1 AND src = "a"', [' src = "a"']),
        ("hash(*) > 0 AND 2 * offset > 1 AND size(struct(offset, *)) > 0", [" 2 * offset > 1 "]),
        ("src = 'a' AND exists(array(1), x -> x = 1 AND x > 0)",
         ["src = 'a' ", " exists(array(1), x -> x = 1 AND x > 0)"]),
        ("src = ')' AND offset > 1)", ["src = ')' AND offset > 1)"]),
    ],
)  # fmt: skip
def test_parts_that_look_at_no_column_are_left_as_they_are_written(condition: str, conditions: list[str]) -> None:
    assert render_without(condition, COLUMNS) == (" AND ".join(f"(\n{part}\n)" for part in conditions) or None)
