"""Engines that read Iceberg tables, and up to which format; docs/format-3.md has dates and sources."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ReaderSupport:
    """The newest format that an engine reads with vectors of deletes, and that in words.

    `proved`: the version of which `make test-engines` has shown it, on tables of every mode.
    """

    newest_format: int
    words: str
    proved: str = ""


_READS = ReaderSupport(3, "reads format 3")
READERS = {
    "athena": ReaderSupport(2, "reads no vectors of deletes"),
    "bigquery": ReaderSupport(2, "reads format 3 in a preview only"),
    "clickhouse": ReaderSupport(2, "reads no vectors of deletes in version 26.9", "26.9"),
    "databricks": _READS,
    "duckdb": ReaderSupport(3, "reads format 3", "1.5.5"),
    "flink": ReaderSupport(3, "reads format 3", "2.1.1 with Iceberg 1.11.0"),
    "pyiceberg": ReaderSupport(3, "reads format 3", "0.12.0"),
    "redshift": _READS,
    "snowflake": _READS,
    "spark": ReaderSupport(3, "reads format 3", "4.1 with Iceberg 1.12.0"),
    "trino": _READS,
}
Reader = Literal[
    "athena", "bigquery", "clickhouse", "databricks", "duckdb", "flink", "pyiceberg", "redshift", "snowflake", "spark",
    "trino",
]  # fmt: skip


def describe_readers(version: int) -> str:
    """Which engines read that format, with the versions that were tried, and which do not and why."""
    able = [_name_version(name) for name, support in READERS.items() if support.newest_format >= version]
    unable = [f"{name} ({support.words})" for name, support in READERS.items() if support.newest_format < version]
    return f"format {version} is read by: {', '.join(able)}; not by: {', '.join(unable)}"


def _name_version(name: str) -> str:
    proved = READERS[name].proved
    return f"{name} (tried: {proved})" if proved else name
