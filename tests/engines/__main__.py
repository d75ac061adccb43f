"""``python -m engines``: fetch the engines that `make test-engines` needs; 1 after a line for each that is missing."""

import sys

import machine


def main() -> int:
    missing = [*machine.bring_engines(), *machine.bring_flink()]
    for line in missing:
        print(f"test-engines: missing: {line}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
