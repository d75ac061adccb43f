"""Whether a server's JVMs decode Avro with limits; on those without, each record is walked through first."""

import logging
from dataclasses import replace
from typing import Any

from tidegate.jobs.stage_job import StageJob, StageTable
from tidegate.schema.avro_limits import JAVA_OPTIONS, LIMITS, has_limits

log = logging.getLogger(__name__)
AVRO = ("avro", "debezium-avro")
CHECK = "check_lengths"


def guard_lengths(spark: Any, job: StageJob) -> StageJob:
    """The job as this server can run it: where its JVMs lack Avro's limits, Avro records are walked through first."""
    finder = [job.finder] if job.finder else []
    if not any(part.format in AVRO for table in (*job.tables, *finder) for part in (table.key, table.value)):
        return job
    is_local = str(spark.conf.get("spark.master", "")).startswith("local")
    if has_limits(str(spark.conf.get(JAVA_OPTIONS[0 if is_local else 1], "") or "")):
        return job
    log.warning(
        "Avro records are checked on Python workers, which costs several times the CPU: set %s in %s of this server",
        " ".join(f"-D{name}={value}" for name, value in LIMITS.items()), " and ".join(JAVA_OPTIONS),
    )  # fmt: skip
    tables = tuple(with_length_check(table) for table in job.tables)
    return replace(job, tables=tables, finder=with_length_check(job.finder) if job.finder else None)


def with_length_check(table: StageTable) -> StageTable:
    """The table with Avro records walked through before they are decoded."""
    key, value = table.key, table.value
    if key.format in AVRO:
        key = replace(key, options={**key.options, CHECK: True})
    if value.format in AVRO:
        value = replace(value, options={**value.options, CHECK: True})
    return replace(table, key=key, value=value)
