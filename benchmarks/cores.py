"""Part f: one executor core against two, and one standalone worker against two; broker and driver accounted apart.

On a machine with few cores broker, driver and executors take them from each other. So executors are told by their own
CPU time: each stage takes as long as its busiest core computed. What the clock said stands beside it.
The second flush of the records counts: during the first each JVM compiles, once in its life, what cores don't share.
"""

from dataclasses import dataclass

from benchmarks import product
from benchmarks.cluster import build_executor_conf, start_cluster
from benchmarks.events import count_busy_seconds, count_core_seconds, list_tasks
from benchmarks.product import Lake, is_right, name_table
from benchmarks.result import Bench, Goal, Result, Table, format_number, format_ratio, format_verdict
from benchmarks.spark_server import start_spark_server
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
        folder, first, second = bench.folder / f"cluster-{index}", f"first_{index}", f"second_{index}"
        for pipeline in (first, second):
            lake.write_pipeline(pipeline, TOPIC, count)
        with (
            start_cluster(folder, workers) as master,
            start_spark_server(
                bench.stack, folder / "spark", master, build_executor_conf(executors_, cores), logs_events=True
            ) as server,
        ):
            product.flush(server, lake, first)
            flush = product.flush(server, lake, second)
            figures = product.read(server, lake, [name_table(second)], name_table(first))[name_table(second)]
            tasks = list_tasks(server.events, flush.begun, flush.ended)
        on_core, cpu = count_core_seconds(tasks, executors_ * cores), sum(task.cpu for task in tasks)
        is_correct = is_right(truth, figures)
        shapes.append(Shape(name, flush.wall, count_busy_seconds(tasks), on_core, cpu, flush.server_cpu, is_correct))
    smallest_shape = shapes[0]
    times = {shape.name: round(smallest_shape.executors / shape.executors, 2) for shape in shapes[1:]}
    return Result(
        tables=[
            Table(
                f"f. Scaling, {count:,} records",
                HEADER,
                [_format_line(shape, smallest_shape, count) for shape in shapes],
            )
        ],
        figures={f"{name}, times one core": value for name, value in times.items()}
        | {f"{shape.name}, wall s": round(shape.wall, 1) for shape in shapes},
        goals=[Goal(f"{name}, times the rows per second", value, GOAL, True) for name, value in times.items()],
        right=all(shape.right for shape in shapes),
    )


def _format_line(shape: Shape, other_shape: Shape, count: int) -> tuple[str, ...]:
    return (
        shape.name,
        format_number(shape.wall),
        format_number(shape.busy),
        format_number(shape.executors),
        format_number(shape.cpu),
        format_number(shape.driver),
        f"{count / shape.executors:,.0f}",
        "" if shape is other_shape else format_ratio(other_shape.executors, shape.executors),
        format_verdict(shape.right),
    )
