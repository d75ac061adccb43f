"""Owns the Flink peer: its jars, its compiled program, and one run of it to the end of a topic."""

from benchmarks.jars import build_classpath, compile_program
from benchmarks.measure import Spent, follow
from benchmarks.work import Assignment
from local.server import build_clean_environment

OPEN = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.util", "java.util.concurrent",
    "java.util.concurrent.atomic", "java.net", "java.io", "java.nio", "java.time", "java.text", "java.math",
    "sun.net.util",
)  # fmt: skip
PARALLELISM = 2


def consume(assignment: Assignment, checkpoint: str) -> Spent:
    """Bring the topic into ``shop.orders`` of the catalog named like its folder; RuntimeError when that fails."""
    program = compile_program("flink", "UpsertFromKafka")
    open_options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPEN]
    command = ["java", "-Xmx3g", *open_options, "-cp", f"{program}:{build_classpath('flink')}", "UpsertFromKafka"]
    command += [
        assignment.place.name,
        str(assignment.place),
        assignment.bootstrap,
        assignment.topic,
        checkpoint,
        str(PARALLELISM),
    ]
    usage = follow(command, build_clean_environment(), assignment.log, assignment.limit)
    if usage.code:
        raise RuntimeError(f"Flink exited with code={usage.code} (log: {assignment.log})")
    return usage
