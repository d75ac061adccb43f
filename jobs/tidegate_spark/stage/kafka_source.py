"""Kafka read as a batch: exactly the planned offsets, each once."""

import json
import math
import re

from pyspark.sql import DataFrame, SparkSession
from tidegate.jobs.stage_job import KAFKA_CONF, DeadLetterSource, StageJob, StageTable
from tidegate.model.offsets import Ranges
from tidegate.schema.wire_format import has_schema_ids_in_headers
from tidegate.sql.spark import quote_name, render_literal

from tidegate_spark.formats.change_events.unavailable_values import reads_old_key_header
from tidegate_spark.session import read_private_conf

# One task reads at most this many offsets, so that a single large partition is read by all cores.
RECORDS_PER_TASK = 250_000
# Where the last record of each key is taken, a task leaves one of each key that it meets: fewer, larger tasks leave
# fewer records to move. They get larger as long as each core has as many of them.
TASKS_PER_SLOT = 2
MAX_RECORDS_PER_TASK = 1_000_000
# Spark plans a task for each partition. Each costs more than some thousand records: its consumer, its copies of the
# expressions, its file. So a task reads several partitions, until it has this many records, or this many partitions,
# for which it waits one after the other. What one task reads is also grouped by key without being moved.
MIN_RECORDS_PER_TASK = 50_000
MAX_PARTITIONS_PER_TASK = 8
# Behind each poll Spark asks for the partition's first and last offset; the client's default of 500 records makes that
# a tenth of the work.
RECORDS_PER_POLL = "10000"
# A range that ends in transaction markers has no last record to wait for; the default would wait two minutes for it.
POLL_TIMEOUT_MS = "15000"
# A consumer that has read its range asks for more beforehand. At the end of the log a broker keeps that request open,
# by default for half a second, and the first and last offset that Spark asks for wait behind it, in every task.
FETCH_WAIT_MS = "20"
HEADER_METADATA = {"headers", "header-list"}


def read_records(spark: SparkSession, job: StageJob) -> DataFrame:
    """Return the records of the job's ranges, lazily; of a replay those of the dead-letter table, in these columns."""
    if job.letters is not None:
        return _read_dead_letters(spark, job.letters, job.ranges)
    options = {
        **build_client_options(spark, job.isolation),
        **build_offsets_options(job.ranges, compute_records_per_task(spark, job)),
        "includeHeaders": str(any(wants_headers(table) for table in job.all_tables)).lower(),
    }
    records = spark.read.format("kafka").options(**options).load()
    tasks = choose_tasks(job.ranges)
    return records if tasks is None else records.coalesce(tasks)


def choose_tasks(ranges: Ranges) -> int | None:
    """Return how many tasks read these ranges, if fewer than the partitions that have records suffice; else None."""
    if ranges.span > RECORDS_PER_TASK:
        return None  # Spark would bring parts of a large partition together as well
    busy_partitions = sum(end > start for _, _, start, end in ranges)
    by_records = ranges.span // MIN_RECORDS_PER_TASK
    by_partitions = math.ceil(busy_partitions / MAX_PARTITIONS_PER_TASK)
    tasks = max(by_records, by_partitions, 1)
    return tasks if tasks < busy_partitions else None


def build_client_options(spark: SparkSession, isolation: str) -> dict[str, str]:
    """Return the source's options of the client: the connection's, which may name another wait of a fetch."""
    settings = json.loads(read_private_conf(spark, KAFKA_CONF))
    return {"kafka.fetch.max.wait.ms": FETCH_WAIT_MS, **settings, "kafka.isolation.level": isolation}


def build_offsets_options(ranges: Ranges, records_per_task: int) -> dict[str, str]:
    """Return the source's options for exactly these ranges: empty ones are left out, and lost offsets fail the job."""
    starts: dict[str, dict[int, int]] = {}
    ends: dict[str, dict[int, int]] = {}
    for topic, partition, start, end in ranges:
        if end > start:
            starts.setdefault(topic, {})[partition] = start
            ends.setdefault(topic, {})[partition] = end
    return {
        "assign": json.dumps({topic: list(partitions) for topic, partitions in starts.items()}),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "maxRecordsPerPartition": str(records_per_task),
        "kafka.max.poll.records": RECORDS_PER_POLL,
        "kafkaConsumer.pollTimeoutMs": POLL_TIMEOUT_MS,
        "failOnDataLoss": "true",
    }


def compute_records_per_task(spark: SparkSession, job: StageJob) -> int:
    """Return how many offsets a task reads at most. Deduplicated large batches get few large tasks."""
    is_small = job.ranges.span <= TASKS_PER_SLOT * RECORDS_PER_TASK  # a single core's tasks would not be larger
    if is_small or not any(table.last_per_raw_key for table in job.tables):
        return RECORDS_PER_TASK
    # Spark divides a range of numbers into as many parts as tasks run at once
    plan = spark.sql("EXPLAIN SELECT * FROM range(1)").collect()[0][0]
    match = re.search(r"splits=(\d+)", plan)
    slots = int(match[1]) if match else 0
    share = math.ceil(job.ranges.span / (TASKS_PER_SLOT * slots)) if slots else 0
    return max(RECORDS_PER_TASK, min(MAX_RECORDS_PER_TASK, share))


def _read_dead_letters(spark: SparkSession, letters: DeadLetterSource, ranges: Ranges) -> DataFrame:
    # how they were stamped is not kept
    is_of_topic = {topic: f"= {render_literal(topic_id)}" for topic, topic_id in letters.topic_ids.items() if topic_id}
    within = [
        f"(topic = {render_literal(topic)} AND partition = {partition} AND offset >= {start} AND offset < {end} "
        f"AND topic_id {is_of_topic.get(topic, 'IS NULL')})"
        for topic, partition, start, end in ranges
    ]
    is_waiting = f"replayed_at IS NULL AND `table` = {render_literal(letters.destination)} AND ({' OR '.join(within)})"
    columns = ("key", "value", "topic", "partition", "offset", "timestamp", "-1 AS timestampType", "headers")
    rows = spark.read.parquet(letters.folder) if letters.folder else spark.table(quote_name(letters.table))
    return rows.where(is_waiting).selectExpr(*columns)


def wants_headers(table: StageTable) -> bool:
    """Whether the table needs a record's headers: the source gives them only if asked."""
    are_read = any(has_schema_ids_in_headers(part.options) for part in (table.key, table.value))
    are_needed = are_read or bool(HEADER_METADATA & set(table.metadata.values()))
    return are_needed or table.set_aside is not None or reads_old_key_header(table)
