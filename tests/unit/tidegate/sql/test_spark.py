"""Names as Spark SQL writes them."""

from tidegate.sql.spark import render_columns


def test_each_value_is_named_whatever_words_and_quotes_it_and_its_name_hold() -> None:
    values = {"x": "CAST(a.`y AS z` AS INT)", "a`b": "1", "x AS y": "`` AS `"}
    assert render_columns(values) == "CAST(a.`y AS z` AS INT) AS `x`, 1 AS `a``b`, `` AS ` AS `x AS y`"
