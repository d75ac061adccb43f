"""Values in which no scalar lies become null, at every level, and no other text changes."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from drifting_topics import drop_nothing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CASES = {
    '{"a": []}': '{"a": null}', '{"a": {"b": [ {}, null ] } , "c": 1}': '{"a": null , "c": 1}',
    '{"a": [1, null, [ ]]}': '{"a": [1, null, null]}', '{"a": "[]", "b": "{\\"x\\": {}}"}': None, "{}": None,
    '{"a": null}': None, "[]": None, "[{}]": None, '{"a": [}': None, '{"a": {,}}': None, '{"a": [null,]}': None,
    '{"a": {"b": null "c": null}}': None, '{"a": [null null]}': None, '{"a": {} ': '{"a": null ',
    '{"a": {"b\\u0022": {}}}': '{"a": null}', '{"a": {"b\\x": {}}}': '{"a": {"b\\x": null}}', "null": None, "": None,
    '{"a": ' + "[" * 11 + "]" * 11 + "}": '{"a": null}', '{"a": 1.50, "b": [{"c": -0.0, "d": []}]}':
    '{"a": 1.50, "b": [{"c": -0.0, "d": null}]}',
}  # fmt: skip
EVENTS = {
    '{"op": "c", "after": {"a": null, "b": [{}]}, "s": {}}': '{"op": "c", "after": {"a": null, "b": null}, "s": null}',
    '{"after": {"a": null}, "s": {"b": [], "c": NaN}}': '{"after": {"a": null}, "s": {"b": null, "c": NaN}}',
    '{"payload": {"after": {"a": {}}, "before": {}}}': '{"payload": {"after": {"a": null}, "before": {}}}',
    '{"after": {"after": {}, "c": 1}, "old": {"x": []}}': '{"after": {"after": null, "c": 1}, "old": {"x": null}}',
    '{"after": {"old": {}, "b": {"old": [], "c": 1}}}': '{"after": {"old": null, "b": {"old": null, "c": 1}}}',
}


def replace(spark: Any, texts: list[str], rows: Sequence[tuple[str, ...]] = ()) -> list[str]:
    from tidegate_spark.fields.json.hollow_values import render_without_hollow_values

    frame = spark.createDataFrame([(number, text) for number, text in enumerate(texts)], "n INT, text STRING")
    found = frame.selectExpr("n", f"{render_without_hollow_values('text', rows)} AS text").collect()
    return [row.text for row in sorted(found, key=lambda row: row.n)]


def test_value_without_a_scalar_is_null_and_other_text_stays(spark) -> None:
    assert replace(spark, [*CASES]) == [text if expected is None else expected for text, expected in CASES.items()]
    rows = [("after",), ("before",), ("old",), ("payload",), ("payload", "after"), ("payload", "before")]
    assert replace(spark, [*EVENTS], rows) == [*EVENTS.values()]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "[]", '"{', "\\", "é\n"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", '"', "["]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.repeats("test_value_without_a_scalar_is_null_and_other_text_stays")
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2), min_size=40, max_size=40))
def test_any_object_keeps_exactly_what_it_holds(spark, values: list[dict[str, Any]]) -> None:
    for found, value in zip(replace(spark, [json.dumps(value) for value in values]), values, strict=True):
        assert json.loads(found) == {name: drop_hollow(field) for name, field in value.items()}


def drop_hollow(value: Any) -> Any:
    """Fields that are null stay, as the text has them."""
    if isinstance(value, dict):
        return {name: drop_hollow(field) for name, field in value.items()} if drop_nothing(value) else None
    if isinstance(value, list):
        return [drop_hollow(element) for element in value] if drop_nothing(value) else None
    return value
