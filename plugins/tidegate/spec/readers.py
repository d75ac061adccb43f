"""Engines that read Iceberg tables, and up to which format; docs/format-3.md has dates and sources."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ReaderSupport:
    """The newest format that an engine reads with vectors of deletes, and that in words."""

    newest_format: int
    words: str


_READS = ReaderSupport(3, "reads format 3")
READERS = {
    "athena": ReaderSupport(2, "reads no vectors of deletes"),
    "bigquery": ReaderSupport(2, "reads format 3 in a preview only"),
    "clickhouse": _READS,
    "databricks": _READS,
    "duckdb": _READS,
    "pyiceberg": _READS,
    "redshift": _READS,
    "snowflake": _READS,
    "spark": _READS,
    "trino": _READS,
}
Reader = Literal[
    "athena", "bigquery", "clickhouse", "databricks", "duckdb", "pyiceberg", "redshift", "snowflake", "spark", "trino"
]


def describe_readers(version: int) -> str:
    """Which engines read that format, and which do not and why."""
    able = [name for name, support in READERS.items() if support.newest_format >= version]
    unable = [f"{name} ({support.words})" for name, support in READERS.items() if support.newest_format < version]
    return f"format {version} is read by: {', '.join(able)}; not by: {', '.join(unable)}"
