"""Whether a server's JVMs decode Avro with limits; on those without, each record is walked through first."""

import logging
from dataclasses import replace
from typing import Any

from tidegate.formats.record_format import SchemaKind
from tidegate.formats.registry import get_format
from tidegate.jobs.stage_job import StageJob, StageTable
from tidegate.schema.avro_limits import AVRO_LIMITS, JAVA_OPTIONS, has_limits
from tidegate.spec.formats import KeyFormat, ValueFormat

log = logging.getLogger(__name__)
LENGTH_CHECK_OPTION = "check_lengths"


def guard_lengths(spark: Any, job: StageJob) -> StageJob:
    """The job as this server can run it: where its JVMs lack Avro's limits, Avro records are walked through first."""
    finder = [job.finder] if job.finder else []
    if not any(_is_avro(part) for table in (*job.tables, *finder) for part in (table.key, table.value)):
        return job
    is_local = str(spark.conf.get("spark.master", "")).startswith("local")
    if has_limits(str(spark.conf.get(JAVA_OPTIONS[0 if is_local else 1], "") or "")):
        return job
    log.warning(
        "Avro records are checked on Python workers, which costs several times the CPU: set %s in %s of this server",
        " ".join(f"-D{name}={value}" for name, value in AVRO_LIMITS.items()), " and ".join(JAVA_OPTIONS),
    )  # fmt: skip
    tables = tuple(add_length_check(table) for table in job.tables)
    return replace(job, tables=tables, finder=add_length_check(job.finder) if job.finder else None)


def add_length_check(table: StageTable) -> StageTable:
    """The table with Avro records walked through before they are decoded."""
    key = table.key
    value = table.value
    if _is_avro(key):
        key = replace(key, options={**key.options, LENGTH_CHECK_OPTION: True})
    if _is_avro(value):
        value = replace(value, options={**value.options, LENGTH_CHECK_OPTION: True})
    return replace(table, key=key, value=value)


def _is_avro(part: KeyFormat | ValueFormat) -> bool:
    return get_format(part.format).schema is SchemaKind.AVRO
