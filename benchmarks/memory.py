"""Part g: the memory that a batch needs, and one of ten times as many records."""

from benchmarks import product
from benchmarks.contest import WARM
from benchmarks.product import Lake, is_right, name_table
from benchmarks.result import Bench, Goal, Result, Table, format_number, format_verdict
from benchmarks.spark_server import start_spark_server
from benchmarks.work import produce

GOAL = 1.5
HEAP = "2g"  # a JVM takes what it is given before it collects: with more, this would tell the heap's size
HEADER = ("records in one batch", "wall s", "CPU s", "server MB before", "server MB, peak", "worker MB, peak", "right?")


def measure(bench: Bench) -> Result:
    """One batch of each size, each on a server of its own that has had the same small flush before."""
    sizes, lake, lines, peaks, is_correct = bench.sizes, Lake(bench.folder), [], {}, True
    bootstrap = bench.stack.kafka_bootstrap
    produce(bootstrap, WARM, sizes.warm_up, sizes.keys)
    for count in sizes.memory:
        bench.say(f"producing {count:,} records, and one batch of them ...")
        name, warm = f"memory_{count}", f"{WARM}_{count}"
        lake.write_pipeline(warm, WARM, sizes.warm_up)
        truth = produce(bootstrap, name, count, sizes.keys).truth
        lake.write_pipeline(name, name, count)
        heap = {"spark.driver.memory": HEAP}
        with start_spark_server(bench.stack, bench.folder / f"spark-{count}", conf=heap) as server:
            product.flush(server, lake, warm)
            flush = product.flush(server, lake, name)
            is_same = is_right(
                truth, product.read(server, lake, [name_table(name)], name_table(warm))[name_table(name)]
            )
        is_correct, peaks[count] = is_correct and is_same, flush.server_mb + flush.worker_mb
        cells = (flush.server_mb_before, flush.server_mb, flush.worker_mb)
        lines.append(
            (
                f"{count:,}",
                format_number(flush.wall),
                format_number(flush.cpu),
                *map(str, cells),
                format_verdict(is_same),
            )
        )
    small_count, large_count = sizes.memory
    return Result(
        tables=[Table(f"g. Peak resident memory, a heap of {HEAP}", HEADER, lines)],
        figures={f"{count} records, MB": float(peak) for count, peak in peaks.items()},
        goals=[
            Goal(
                f"memory, {large_count:,} records against {small_count:,}",
                round(peaks[large_count] / peaks[small_count], 2),
                GOAL,
            )
        ],
        right=is_correct,
    )
