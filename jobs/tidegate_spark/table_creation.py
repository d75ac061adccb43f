"""Tables and namespaces that are made where they are missing, also when two first runs meet in it."""

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

CREATE_PREFIXES = ("CREATE NAMESPACE IF NOT EXISTS ", "CREATE TABLE IF NOT EXISTS ")


def execute(spark: SparkSession, statement: str) -> None:
    """Run one statement. One that makes what is missing is run again where it fails: another run may have made it.

    Spark looks first and then creates; of two runs the slower one is refused by the catalog, each in its own words.
    """
    try:
        spark.sql(statement)
    except PySparkException:
        if not statement.lstrip().startswith(CREATE_PREFIXES):
            raise
        spark.sql(statement)
