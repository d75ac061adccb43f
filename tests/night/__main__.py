"""``python -m night [name …]``: provoke these failures, or all, one after the other, and write what was seen.

The table stands in ``benchmarks/results/failures.md``. Rows of failures that are not named stay as they are. The exit
code is 1 where a failure was not told, not fixed, or left something behind.
"""

import argparse
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from examples import is_of_today

from night import report
from night.catalogue import FAILURES
from night.observation import Observation, observe
from night.scene import open_scene


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped
    parser = argparse.ArgumentParser(prog="python -m night", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="; ".join(FAILURES))
    parser.add_argument("--no-table", action="store_true", help="print what was seen, and write nothing")
    words = parser.parse_args()
    if unknown := set(words.names) - set(FAILURES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(FAILURES)}")
    failures = [FAILURES[name](name) for name in words.names or filter(is_of_today, FAILURES)]

    def write_files(bench: object, doors: object) -> None:
        for failure in failures:
            failure.write_files(bench, doors)

    observations = []
    folder = Path(tempfile.mkdtemp(prefix="tidegate-night-"))
    with open_scene(folder, write_files) as scene:
        for failure in failures:
            print(f"{failure.name}: {failure.title}", flush=True)
            try:
                observation = observe(failure, scene)
            except Exception as problem:
                traceback.print_exc()
                observation = Observation.from_problem(failure, problem)
            print(f"  {observation}", flush=True)
            observations.append(observation)
            if not words.no_table:
                report.write_rows(observations)
    return 1 if any(not result.is_good for result in observations) else 0


if __name__ == "__main__":
    sys.exit(main())
