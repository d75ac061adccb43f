"""Tables and namespaces that are made where they are missing, also when two first runs meet in it."""

import re
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

NAMESPACE_PREFIX = "CREATE NAMESPACE IF NOT EXISTS "
CREATE_PREFIXES = (NAMESPACE_PREFIX, "CREATE TABLE IF NOT EXISTS ")
QUOTED_PART_PATTERN = re.compile(r"`(?:[^`]|``)+`")


def execute(spark: SparkSession, statement: str) -> None:
    """Run one statement. One that creates what is missing is run again if it fails: another run may have made it.

    Some catalogs make no namespace in one that is missing: those above it are made first then.
    """
    try:
        spark.sql(statement)
    except PySparkException:
        if not statement.lstrip().startswith(CREATE_PREFIXES):
            raise
        for above in _list_namespaces_above(statement):
            with suppress(PySparkException):  # one that is there needs no right to make it
                spark.sql(above)
        spark.sql(statement)


def _list_namespaces_above(statement: str) -> list[str]:
    if not statement.lstrip().startswith(NAMESPACE_PREFIX):
        return []
    parts = QUOTED_PART_PATTERN.findall(statement)
    return [NAMESPACE_PREFIX + ".".join(parts[:count]) for count in range(2, len(parts))]
