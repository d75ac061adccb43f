"""``python -m pythons``: the unit tests under each Python that the README names, but the one that runs this.

Each has a copy of the checkout in `.cache/pythons`, set up as a user does it: ``PYTHON=python3.13 make setup``. A
Python that the machine lacks is said; with `CI` set that is a failure.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".cache" / "pythons"
VERSIONS = ("3.11", "3.12", "3.13")
MISSING = "that runs here"  # the end of what local/setup.sh says


def copy_checkout(version: str) -> Path:
    """The files of this checkout in a folder of their own, beside environment and caches of an earlier run."""
    folder = FOLDER / version
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name not in {".venv", ".cache"}:
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    file_names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, file_names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def run_unit_tests(version: str, words: list[str]) -> bool:
    """Set up, and run the unit tests, or those that `words` choose; whether all passed."""
    folder = copy_checkout(version)
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTHONPATH"))}
    environment = variables | {"PYTHON": f"python{version}"}
    process = subprocess.run(
        ["make", "setup"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    print(process.stdout + process.stderr, end="", flush=True)
    if process.returncode:
        return MISSING in process.stderr and "CI" not in os.environ
    command = [".venv/bin/python", "-m", "pytest", "-q", "-n", "auto", *(words or ["tests/unit"])]
    print(f"pythons: {version}: {' '.join(command)}", flush=True)
    return subprocess.run(command, cwd=folder, env=variables, check=False).returncode == 0


def main() -> int:
    """Run them one after another; 1 where one failed."""
    own_version = ".".join(map(str, sys.version_info[:2]))
    failed = [version for version in VERSIONS if version != own_version and not run_unit_tests(version, sys.argv[1:])]
    print(f"pythons: failed: {', '.join(failed)}" if failed else "pythons: done")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
