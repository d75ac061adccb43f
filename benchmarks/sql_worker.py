"""Runs SQL statements on the Spark Connect server, in a session with every catalog of the include folder."""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tidegate.adapters.iceberg.catalog_conf import build_spark_catalog_conf, resolve_catalog_properties
from tidegate.config.catalogs_file import read_catalogs
from tidegate.settings import find_include_folder
from tidegate.spec.pipeline import Catalog
from tidegate_spark.session import close, connect_session


def open_session(remote: str) -> SparkSession:
    """A new session with the catalogs of the include folder."""
    conf: dict[str, str] = {}
    for catalog in read_catalogs(find_include_folder()).values():
        if isinstance(catalog, Catalog):
            conf |= build_spark_catalog_conf(catalog, resolve_catalog_properties(catalog, lambda _: None))
    return connect_session(remote, conf)


def main(request: dict[str, Any]) -> None:
    """Run the statements in order."""
    spark = open_session(request["remote"])
    try:
        for statement in request["statements"]:
            spark.sql(statement).collect()
    finally:
        close(spark)
    Path(request["answer"]).write_text("{}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
