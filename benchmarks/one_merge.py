"""Part m: batches that are staged one by one and merged as one, beside a flush for each, and beside Spark."""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks import contest
from benchmarks.contest import IDLE, SPARK, SPARK_ONCE, Entry, Topic
from benchmarks.marginal import HEADER, format_line
from benchmarks.product import Lake
from benchmarks.result import Bench, Goal, Result, Table
from benchmarks.work import create_topic, produce

BATCHES = 10
SMALL_BATCHES, SMALL_SHARE = 60, 100  # of so many records one is in each small batch
GOALS = {
    "beside Spark by hand": 0.7,
    "beside ten flushes": 0.6,
    "beside Spark by hand, the second ten batches": 0.7,
    "beside ten flushes, the second ten batches": 0.6,
    "beside sixty flushes": 0.4,
}


def measure(bench: Bench) -> Result:
    """A large topic in ten batches, another behind it, and small batches as of an hour: each way on a new server."""
    sizes, lake = bench.sizes, Lake(bench.folder)
    create_topic(bench.stack.kafka_bootstrap, IDLE)
    produce(bench.stack.kafka_bootstrap, contest.WARM, sizes.warm_up, sizes.keys)
    few = _produce(bench, "queued", BATCHES, sizes.small // BATCHES)
    few_entries = _measure_topic(bench, lake, few, (SPARK, SPARK_ONCE))
    before = _produce(bench, "before", BATCHES, sizes.small // BATCHES)
    later = _produce(bench, "later", BATCHES, sizes.small // BATCHES)
    later_entries = _measure_topic(bench, lake, later, (SPARK, SPARK_ONCE), before)
    many = _produce(bench, "hour", SMALL_BATCHES, sizes.small // SMALL_SHARE)
    many_entries = _measure_topic(bench, lake, many, ())
    entries = [*few_entries, *later_entries, *many_entries]
    (once, each, spark, _), (hour_once, hour_each) = few_entries, many_entries
    later_once, later_each, later_spark, _ = later_entries
    ratios = {
        "beside Spark by hand": once.cpu / spark.cpu,
        "beside ten flushes": once.cpu / each.cpu,
        "beside Spark by hand, the second ten batches": later_once.cpu / later_spark.cpu,
        "beside ten flushes, the second ten batches": later_once.cpu / later_each.cpu,
        "beside sixty flushes": hour_once.cpu / hour_each.cpu,
    }
    lines = {
        f"m. {BATCHES} batches and one merge": (few_entries, few),
        f"The second {BATCHES} batches of the same servers": (later_entries, later),
        f"{SMALL_BATCHES} small batches": (many_entries, many),
    }
    return Result(
        tables=[
            Table(title, HEADER, [format_line(entry, ways[0], topic.records) for entry in ways])
            for title, (ways, topic) in lines.items()
        ],
        figures={f"{entry.table} {entry.system}": round(entry.cpu, 1) for entry in entries},
        goals=[Goal(f"CPU of one merge, {name}", round(ratio, 2), GOALS[name]) for name, ratio in ratios.items()],
        right=all(entry.right for entry in entries)
        and all(_count_merges(entry) == 1 for entry in (once, later_once, hour_once)),
        details={entry.table: entry.flush.steps for entry in entries if entry.flush},
    )


def _produce(bench: Bench, name: str, batches: int, per_batch: int) -> Topic:
    records = batches * per_batch
    bench.say(f"producing {records:,} records ...")
    return Topic(name, records, produce(bench.stack.kafka_bootstrap, name, records, bench.sizes.keys), per_batch)


def _measure_topic(
    bench: Bench, lake: Lake, topic: Topic, systems: Sequence[str], before: Topic | None = None
) -> list[Entry]:
    """What it cost: merged once, with a merge for each batch, and what the peers took."""
    once_before = before and replace(before, merges_once=True)
    once = contest.compete(bench, lake, replace(topic, merges_once=True), (), once_before)
    return [*once, *contest.compete(bench, lake, topic, systems, before)]


def _count_merges(entry: Entry) -> int:
    return len(entry.flush.batches) if entry.flush else 0
