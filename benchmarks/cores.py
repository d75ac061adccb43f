"""Part f: one executor core against two, and one standalone worker against two; broker and driver accounted apart.

On a machine with few cores broker, driver and executors take them from each other. So executors are told by their own
CPU time: each stage takes as long as its busiest core computed. What the clock said stands beside it.
The second flush of the records counts: during the first each JVM compiles, once in its life, what cores don't share.
"""

from dataclasses import dataclass

from benchmarks import product
from benchmarks.cluster import cluster, executors
from benchmarks.events import busy_seconds, core_seconds, tasks
from benchmarks.product import Lake, is_right, table_of
from benchmarks.result import Bench, Goal, Result, Table, number, ratio, yes
from benchmarks.spark_server import spark_server
from benchmarks.work import produce

GOAL = 1.7
TOPIC = "cores"
# name: cores of each worker, executors, cores of each executor
SHAPES = {
    "one worker, one core": ((1,), 1, 1),
    "one worker, two cores": ((2,), 1, 2),
    "two workers, one core each": ((1, 1), 2, 1),
}
HEADER = (
    "", "wall s", "tasks ran, s", "executor time, s", "executors' CPU s", "driver's CPU s", "rows per s of it",
    "times one core", "right?",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """One cluster's flush. `busy` is the clock while tasks ran, `executors` their CPU time on the busiest core."""

    name: str
    wall: float
    busy: float
    executors: float
    cpu: float
    driver: float
    right: bool


def measure(bench: Bench) -> Result:
    """The same records by each cluster, into tables of their own."""
    lake, count = Lake(bench.folder), bench.sizes.cores
    bootstrap = bench.stack.kafka_bootstrap
    bench.say(f"producing {count:,} records ...")
    truth = produce(bootstrap, TOPIC, count, bench.sizes.keys).truth
    shapes = []
    for index, (name, (workers, executors_, cores)) in enumerate(SHAPES.items()):
        bench.say(f"{name} ...")
        folder, first, own = bench.folder / f"cluster-{index}", f"first_{index}", f"second_{index}"
        for pipeline in (first, own):
            lake.pipeline(pipeline, TOPIC, count)
        with (
            cluster(folder, workers) as master,
            spark_server(
                bench.stack, folder / "spark", master, executors(executors_, cores), logs_events=True
            ) as server,
        ):
            product.flush(server, lake, first)
            flush = product.flush(server, lake, own)
            read = product.read(server, lake, [table_of(own)], table_of(first))[table_of(own)]
            ran = tasks(server.events, flush.begun, flush.ended)
        on_core, cpu = core_seconds(ran, executors_ * cores), sum(task.cpu for task in ran)
        right = is_right(truth, read)
        shapes.append(Shape(name, flush.wall, busy_seconds(ran), on_core, cpu, flush.server_cpu, right))
    one = shapes[0]
    times = {shape.name: round(one.executors / shape.executors, 2) for shape in shapes[1:]}
    return Result(
        tables=[Table(f"f. Scaling, {count:,} records", HEADER, [_line(shape, one, count) for shape in shapes])],
        figures={f"{name}, times one core": value for name, value in times.items()}
        | {f"{shape.name}, wall s": round(shape.wall, 1) for shape in shapes},
        goals=[Goal(f"{name}, times the rows per second", value, GOAL, True) for name, value in times.items()],
        right=all(shape.right for shape in shapes),
    )


def _line(shape: Shape, one: Shape, count: int) -> tuple[str, ...]:
    return (
        shape.name, number(shape.wall), number(shape.busy), number(shape.executors), number(shape.cpu),
        number(shape.driver), f"{count / shape.executors:,.0f}",
        "" if shape is one else ratio(one.executors, shape.executors), yes(shape.right),
    )  # fmt: skip
