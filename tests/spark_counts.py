"""What the Spark server has open and keeps in memory, from outside of it; memory after a full collection of garbage."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

# Instances that each session, each statement, and each file that is read, could leave behind.
SESSION = "org.apache.spark.sql.classic.SparkSession"
EXECUTION = "org.apache.spark.sql.connect.service.ExecuteInfo"  # with its plan, among the server's last 10,000
ALLOCATOR = "org.apache.iceberg.shaded.org.apache.arrow.memory.ChildAllocator"
SORTER = "org.apache.spark.sql.execution.UnsafeExternalRowSorter"  # each may have a page of 32 MB and more
BLOCK_FOLDER = 2


@dataclass(frozen=True)
class Counts:
    """One look at a server. `entries` are files and folders in its own folder, `threads` the operating system's."""

    connections: int
    descriptors: int
    threads: int
    entries: int
    sessions: int
    executions: int
    allocators: int
    sorters: int
    live_megabytes: int
    metaspace_megabytes: int
    resident_megabytes: int

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())


class SparkServer:
    """The stack's server by its process id; `folder` is the one that holds all that it writes beside tables."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.process, self.folder = psutil.Process(pid), folder

    def open_files(self, path: str = "") -> int:
        """Descriptors, of those alone that stand for the file where one is named."""
        targets: Counter[str] = Counter()
        for entry in Path(f"/proc/{self.process.pid}/fd").iterdir():
            targets[os.path.realpath(entry)] += 1
        return targets[path] if path else targets.total()

    def count_entries(self) -> int:
        """Files and folders, but for the 64 of two digits among which Spark spreads the files of its blocks."""
        names = [name for _, folders, files in os.walk(self.folder) for name in (*folders, *files)]
        return sum(len(name) > BLOCK_FOLDER for name in names)

    def count(self, connections: int) -> Counts:
        self._ask("GC.run")  # Spark's cleaner then removes what shuffles and broadcasts left
        instances, live = self._count_instances()
        return Counts(
            connections=connections,
            descriptors=self.open_files(),
            threads=self.process.num_threads(),
            entries=self.count_entries(),
            sessions=instances.get(SESSION, 0),
            executions=instances.get(EXECUTION, 0),
            allocators=instances.get(ALLOCATOR, 0),
            sorters=instances.get(SORTER, 0),
            live_megabytes=live // 1_000_000,
            metaspace_megabytes=self._read_metaspace(),
            resident_megabytes=self.process.memory_info().rss // 1_000_000,
        )

    def count_sessions(self) -> int:
        return self._count_instances()[0].get(SESSION, 0)

    def _count_instances(self) -> tuple[dict[str, int], int]:
        """Live objects by class, and the bytes of all: the histogram collects garbage first."""
        lines = [line.split() for line in self._ask("GC.class_histogram").splitlines()]
        class_counts = {words[3]: int(words[1]) for words in lines if len(words) >= 4 and words[0].endswith(":")}
        return class_counts, next(int(words[2]) for words in lines if words and words[0] == "Total")

    def _read_metaspace(self) -> int:
        used = re.search(r"Metaspace\s+used (\d+)K", self._ask("GC.heap_info"))
        assert used
        return int(used.group(1)) * 1024 // 1_000_000

    def _ask(self, *words: str) -> str:
        """One command of the JDK that runs the server."""
        jcmd = str(Path(self.process.exe()).with_name("jcmd"))
        command = [jcmd, str(self.process.pid), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


def find_growth(counts: Sequence[Counts], bounds: dict[str, int]) -> dict[str, int]:
    """By name what grew beyond its bound from the first half of the looks to the second, by the most of each half."""
    half = len(counts) // 2
    growth = {
        name: max(getattr(count, name) for count in counts[half:])
        - max(getattr(count, name) for count in counts[:half])
        for name in bounds
    }
    return {name: increase for name, increase in growth.items() if increase > bounds[name]}
