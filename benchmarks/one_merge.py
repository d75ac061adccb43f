"""Part m: batches that are staged one by one and merged as one, beside a flush for each, and beside Spark."""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks import contest
from benchmarks.contest import IDLE, SPARK, Entry, Topic
from benchmarks.marginal import HEADER, format_line
from benchmarks.product import Lake
from benchmarks.result import Bench, Goal, Result, Table
from benchmarks.work import create_topic, produce

BATCHES = 10
SMALL_BATCHES, SMALL_SHARE = 60, 100  # of so many records one is in each small batch
GOALS = {"beside Spark by hand": 0.7, "beside ten flushes": 0.6, "beside sixty flushes": 0.4}


def measure(bench: Bench) -> Result:
    """A large topic in ten batches, and small batches as of an hour: each way on a new server of its own."""
    sizes, lake = bench.sizes, Lake(bench.folder)
    create_topic(bench.stack.kafka_bootstrap, IDLE)
    produce(bench.stack.kafka_bootstrap, contest.WARM, sizes.warm_up, sizes.keys)
    few = _produce(bench, "queued", BATCHES, sizes.small // BATCHES)
    few_entries = _measure_topic(bench, lake, few, (SPARK,))
    many = _produce(bench, "hour", SMALL_BATCHES, sizes.small // SMALL_SHARE)
    many_entries = _measure_topic(bench, lake, many, ())
    entries = [*few_entries, *many_entries]
    (once, each, spark), (hour_once, hour_each) = few_entries, many_entries
    ratios = [once.cpu / spark.cpu, once.cpu / each.cpu, hour_once.cpu / hour_each.cpu]
    return Result(
        tables=[
            Table(
                f"m. {BATCHES} batches and one merge", HEADER, [format_line(e, once, few.records) for e in few_entries]
            ),
            Table(
                f"{SMALL_BATCHES} small batches",
                HEADER,
                [format_line(e, hour_once, many.records) for e in many_entries],
            ),
        ],
        figures={f"{entry.table} {entry.system}": round(entry.cpu, 1) for entry in entries},
        goals=[
            Goal(f"CPU of one merge, {name}", round(ratio, 2), limit)
            for (name, limit), ratio in zip(GOALS.items(), ratios, strict=True)
        ],
        right=all(entry.right for entry in entries) and _count_merges(once) == _count_merges(hour_once) == 1,
        details={entry.table: entry.flush.steps for entry in entries if entry.flush},
    )


def _produce(bench: Bench, name: str, batches: int, per_batch: int) -> Topic:
    records = batches * per_batch
    bench.say(f"producing {records:,} records ...")
    return Topic(name, records, produce(bench.stack.kafka_bootstrap, name, records, bench.sizes.keys), per_batch)


def _measure_topic(bench: Bench, lake: Lake, topic: Topic, systems: Sequence[str]) -> list[Entry]:
    """What it cost: merged once, with a merge for each batch, and what the peers took."""
    once = contest.compete(bench, lake, replace(topic, merges_once=True), ())
    return [*once, *contest.compete(bench, lake, topic, systems)]


def _count_merges(entry: Entry) -> int:
    return len(entry.flush.batches) if entry.flush else 0
