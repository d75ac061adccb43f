"""Flushes as `tidegate run` does them, one after the other in one process, each measured."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from tidegate.connections import read_connection_from_env
from tidegate.errors import NothingToDo
from tidegate.runner.pipeline_files import PipelineFiles, PublicationFiles
from tidegate.runner.work import FlushWork, Place
from tidegate.settings import find_include_folder

from benchmarks.measure import count_cpu_seconds


def main(request: dict[str, Any]) -> None:
    """Flush once to be warm, then so many times; answer with wall, worker's and server's CPU seconds of each."""
    include = find_include_folder()
    place = Place(include, read_connection_from_env, PipelineFiles(include), PublicationFiles(include))
    work = FlushWork(place, request["pipeline"])
    costs, staged = [], []
    for _ in range(request["times"] + 1):
        before = (time.monotonic(), time.process_time(), count_cpu_seconds(request["server"]))
        try:
            staged.append(sum(batch.staged for batch in work.run(0).batches))
        except NothingToDo:
            staged.append(0)
        after = (time.monotonic(), time.process_time(), count_cpu_seconds(request["server"]))
        costs.append([round(end - start, 4) for end, start in zip(after, before, strict=True)])
    Path(request["answer"]).write_text(json.dumps({"costs": costs[1:], "staged": staged[1:]}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
