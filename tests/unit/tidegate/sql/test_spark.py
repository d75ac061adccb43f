"""Names as Spark SQL writes them, and taken off again."""

import pytest
from tidegate.sql.spark import quote, strip_alias


@pytest.mark.parametrize("name", ["x", "x AS y", "AS", "a`b", "` AS `", "x AS y AS `z"])
def test_alias_is_taken_off_whole_whatever_words_the_name_holds(name: str) -> None:
    value = f"CAST(row.{quote(name)} AS INT)"
    assert strip_alias(f"{value} AS {quote(name)}", name) == value
    assert strip_alias(value, name) == value
