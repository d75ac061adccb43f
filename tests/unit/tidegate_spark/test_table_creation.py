"""Namespaces of several levels are made one in another where the catalog makes none in one that is missing."""

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from tidegate_spark.session import execute


class StrictCatalog:
    """A Spark whose catalog has these namespaces, and makes one only in one that is there."""

    def __init__(self, *namespaces: str, refuses: str = "") -> None:
        self.namespaces = {"`lake`", *namespaces}
        self._refused = refuses

    def sql(self, statement: str) -> None:
        name = statement.removeprefix("CREATE NAMESPACE IF NOT EXISTS ")
        if name in self.namespaces:
            return
        if name == self._refused or name.rpartition(".")[0] not in self.namespaces:
            raise AnalysisException(f"not made: {name}")
        self.namespaces.add(name)


@pytest.mark.parametrize("known", [(), ("`lake`.`a b`",)])
def test_namespaces_above_are_made_first(known: tuple[str, ...]) -> None:
    spark: Any = StrictCatalog(*known)
    execute(spark, "CREATE NAMESPACE IF NOT EXISTS `lake`.`a b`.`C`.`d``e`")
    assert spark.namespaces == {"`lake`", "`lake`.`a b`", "`lake`.`a b`.`C`", "`lake`.`a b`.`C`.`d``e`"}


def test_refusal_of_the_namespace_itself_is_what_is_told() -> None:
    spark: Any = StrictCatalog(refuses="`lake`.`a`.`b`")
    with pytest.raises(AnalysisException, match=r"not made: `lake`\.`a`\.`b`"):
        execute(spark, "CREATE NAMESPACE IF NOT EXISTS `lake`.`a`.`b`")
    assert spark.namespaces == {"`lake`", "`lake`.`a`"}
