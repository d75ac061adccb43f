"""``python -m mutations [part of a name]``: switch each guard off in a copy of the tree, and see its test fail.

First all named tests must pass in an untouched copy; then, one guard at a time, exactly the named test must fail.
Exit code 1 names every guard whose text is gone and every test that did not notice.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import shared_servers
from examples import ALL, DAYS, is_of_today

from local.stack import stop_stack
from mutations.guards import Guard, list_guards

ROOT = Path(__file__).parents[2]
COPIED = (
    "plugins",
    "jobs",
    "include",
    "tests",
    "local",
    "bin",
    "dags",
    "deploy",
    "pyproject.toml",
    "docker-compose.yaml",
)
LINKED = (".venv", ".cache")
# Spark's workers import it: servers that stay up between the guards would run what they have imported already
CODE_OF_WORKERS = "jobs/tidegate_spark/publish/"
MAX_OUTPUT_LINES = 30


def main(part: str) -> int:
    """Run the guards whose names contain `part`; the exit code."""
    chosen_guards = [guard for guard in list_guards() if part in guard.name and is_of_today(guard.name)]
    broken_guards = [guard for guard in chosen_guards if (ROOT / guard.file).read_text().count(guard.text) != 1]
    for guard in broken_guards:
        print(
            f"guard={guard.name!r}: its text is not found once in file={guard.file}; correct the mark of {guard.test}"
        )
    if broken_guards or not chosen_guards:
        return 1
    with tempfile.TemporaryDirectory(prefix="tidegate-mutations-") as folder:
        tree, servers = copy_tree(Path(folder) / "tree"), Path(folder) / "servers"
        try:
            tests = sorted({guard.test for guard in chosen_guards})
            print(f"{len(tests)} tests with every guard on ...", flush=True)
            code, output = run_tests(tree, servers, *tests)
            if code:
                print("\n".join(output.splitlines()[-MAX_OUTPUT_LINES:]))
                print("red with every guard on: nothing can be said about the guards")
                return 1
            missed = [guard.name for guard in chosen_guards if not is_noticed(tree, servers, guard)]
        finally:
            for env_file in servers.rglob("env"):
                stop_stack(env_file.parent)
    print(f"the tests notice {len(chosen_guards) - len(missed)} of {len(chosen_guards)} guards that are switched off")
    return 1 if missed else 0


def copy_tree(folder: Path) -> Path:
    folder.mkdir()
    for name in COPIED:
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, folder / name)
    for name in LINKED:
        (folder / name).symlink_to((ROOT / name).resolve())
    return folder


def is_noticed(tree: Path, servers: Path, guard: Guard) -> bool:
    """Whether the guard's test fails, as a test does, while the guard is off."""
    file = tree / guard.file
    text = file.read_text()
    file.write_text(text.replace(guard.text, guard.off))
    try:
        kept_servers = None if guard.file.startswith(CODE_OF_WORKERS) else servers
        code, output = run_tests(tree, kept_servers, guard.test)
    finally:
        file.write_text(text)
    failed = code == 1 and re.search(r"\d+ failed", output) is not None and " error" not in output.splitlines()[-1]
    print(f"{'red' if failed else 'NOT NOTICED'}: {guard.name}: {guard.test}", flush=True)
    if not failed:
        print("\n".join(output.splitlines()[-MAX_OUTPUT_LINES:]))
    return failed


def run_tests(tree: Path, servers: Path | None, *tests: str) -> tuple[int, str]:
    """Run them on servers that stay up in a folder, or with None on new ones; pytest's exit code and output."""
    words = [str(tree / ".venv/bin/python"), "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    # a guard may be missed by the calls of a walk that `make test` chooses
    environment = {**os.environ, ALL: "all", DAYS: "1"}
    if servers:
        environment[shared_servers.KEPT_VARIABLE] = str(servers)
    process = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    return process.returncode, process.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
