"""Part b: the same records in ten batches instead of one."""

from benchmarks import contest
from benchmarks.contest import FLINK, SPARK, Topic
from benchmarks.marginal import HEADER, format_line
from benchmarks.product import Lake
from benchmarks.result import Bench, Goal, Result, Table
from benchmarks.work import produce

BATCHES = 10
GOAL = 35.0
SYSTEMS = (SPARK, FLINK)  # Connect appends whatever comes, and commits by the clock


def measure(bench: Bench) -> Result:
    """Ten flushes by one command, ten batches of Spark, and Flink with a checkpoint each second."""
    sizes, lake = bench.sizes, Lake(bench.folder)
    missing = contest.fetch_peers(SYSTEMS)
    systems = [system for system in SYSTEMS if system not in missing]
    produce(bench.stack.kafka_bootstrap, contest.WARM, sizes.warm_up, sizes.keys)
    bench.say(f"producing {sizes.small:,} records ...")
    produced = produce(bench.stack.kafka_bootstrap, "ten", sizes.small, sizes.keys)
    topic = Topic("ten", sizes.small, produced, sizes.small // BATCHES)
    entries = contest.compete(bench, lake, topic, systems)
    product = entries[0]
    batches = len(product.flush.batches) if product.flush else 0
    goals = [Goal("CPU s, a million records in ten batches", round(product.cpu / sizes.small * 1e6, 1), GOAL)]
    peers = [entry for entry in entries if entry.system in systems]
    goals += [Goal(f"the same beside {e.system}", round(product.cpu, 1), round(e.cpu, 1)) for e in peers]
    title = f"b. {BATCHES} batches; Flink with a checkpoint each second"
    return Result(
        tables=[Table(title, HEADER, [format_line(entry, product, sizes.small) for entry in entries])],
        figures={entry.system: round(entry.cpu, 1) for entry in entries},
        goals=goals,
        right=all(entry.right for entry in entries) and batches >= BATCHES,
        details={"batches": batches, "steps": product.flush.steps if product.flush else {}},
        missing=[f"{system}: {reason}" for system, reason in missing.items()],
    )
