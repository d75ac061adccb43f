"""Owns what must be there before any record moves: the Python environment and the jars, each built once per lock.

Runs on a plain system Python, so it imports nothing but the standard library. A step whose inputs have not changed
since its stamp was written is skipped; an interrupted step has no stamp and is done again.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

ROOT = Path(__file__).resolve().parent.parent
LOCK_FILE = ROOT / "requirements.txt"
VENV = ROOT / ".venv"
CACHE = ROOT / ".cache"
LOG_FILE = CACHE / "setup.log"
SYSTEM_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
JAR_SETS = ("spark", "kafka")
PROGRESS_SECONDS = 10
POLL_SECONDS = 0.5
STAMP_NAME = ".tidegate-stamp"
JARS_MARK = ".tidegate-jars"  # as `tidegate jars` marks a folder that it may replace
MAVEN = threading.Lock()  # its processes do not share ~/.m2/repository while they write it
_interrupted = threading.Event()


class SetupError(Exception):
    """A step of the set-up failed; the message names it and the log."""


def main(extras: Sequence[str] = ()) -> int:
    """Build what is missing; 0 when everything is there, else 1 after one message. `extras` are of EXTRA_STEPS."""
    CACHE.mkdir(exist_ok=True)
    start_seconds = time.monotonic()
    try:
        with (CACHE / "setup.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a second `make setup` beside this one waits and finds everything done
            outcomes = [_build_packages()]
            jars = [partial(build_jars, name) for name in JAR_SETS]
            outcomes += run_beside([*jars, *(build for name, build in EXTRA_STEPS.items() if name in extras)])
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    result = f"done in {time.monotonic() - start_seconds:.0f} s" if any(outcomes) else "everything is there"
    print(f"setup: {result}; Python {platform.python_version()}")
    return 0


def run_beside(steps: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run the steps in threads beside each other, as most of them wait for a network; their results in their order.

    The first failure is raised once all of them have ended. Ctrl-C ends their commands, and none is tried again.
    """
    with ThreadPoolExecutor(max(1, len(steps))) as pool:
        futures = [pool.submit(step) for step in steps]
        try:
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            _interrupted.set()
            raise SetupError("interrupted") from None


def _build_packages() -> bool:
    label = "Python packages (1-3 minutes the first time)"
    return build_unless_stamped(VENV, compute_digest(LOCK_FILE), label, _build_environment)


def _build_registry() -> bool:
    """The schema registry's program."""
    from local.registry import archive

    return archive.build_program()


def build_jars(name: str) -> bool:
    """Fetch one set of `local/jars` unless it is there; True when it was fetched."""
    source, folder = ROOT / "local" / "jars" / name, CACHE / "jars" / name
    inputs = (source / "pom.xml").read_bytes() + (source / "jars.sha256").read_bytes()
    digest = hashlib.sha256(inputs).hexdigest()  # the same for every Python
    return build_unless_stamped(folder, digest, f"jars for {name}", lambda: _fetch_jars(source, folder))


def _build_bigquery() -> bool:
    """Build the environment of the BigQuery server; without its Python, print a message and skip it."""
    from local.bigquery import environment

    try:
        return environment.build_environment()
    except SetupError as error:
        if str(error) != environment.MISSING_PYTHON:
            raise
        print(f"setup: without the BigQuery server: {error}", file=sys.stderr)
        return False


def _build_celery() -> bool:
    """The packages of Airflow's Celery executor."""
    from local.airflow import environment

    return environment.build_environment()


def _build_s3() -> bool:
    """The S3 server's environment, and the client that Spark needs."""
    from local.lake import environment

    jars = build_jars("s3")
    return environment.build_environment() or jars


def compute_digest(path: Path) -> str:
    """The content of an environment's stamp: the digest of its input file and of the Python that runs this."""
    version = ".".join(map(str, sys.version_info[:2]))
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()} python {version}"


def build_unless_stamped(folder: Path, digest: str, label: str, build: Callable[[], None]) -> bool:
    """Run `build` unless `folder` carries the stamp of the same inputs; True when it ran."""
    stamp = folder / STAMP_NAME
    if stamp.exists() and stamp.read_text().startswith(digest):
        return False
    print(f"setup: {label} ...", flush=True)
    stamp.unlink(missing_ok=True)
    build()
    stamp.write_text(digest)
    return True


def has_packages(folder: Path, lock_file: Path) -> bool:
    """Whether a server's own environment has the packages of its lock file."""
    stamp = folder / STAMP_NAME
    return stamp.exists() and stamp.read_text() == compute_digest(lock_file)


def install_packages(folder: Path, python: str, lock_file: Path, server: str) -> None:
    """Create the environment of `server` again, with this Python and exactly the packages of the lock."""
    shutil.rmtree(folder, ignore_errors=True)
    run_command(f"create the {server}'s environment", [python, "-m", "venv", str(folder)])
    sync = [str(VENV / "bin" / "uv"), "pip", "sync", "--require-hashes", "--python", str(folder / "bin" / "python")]
    run_command(f"install the {server}", [*sync, str(lock_file)], build_uv_settings(VENV / "bin" / "python"))


EXTRA_STEPS: dict[str, Callable[[], bool]] = {
    "bigquery": _build_bigquery,
    "celery": _build_celery,
    "registry": _build_registry,
    "rest": lambda: build_jars("rest"),
    "s3": _build_s3,
}


def _build_environment() -> None:
    """Create `.venv`, put the locked uv into it, and let uv make it exactly what the lock says."""
    python = VENV / "bin" / "python"
    if not _is_usable(python):
        shutil.rmtree(VENV, ignore_errors=True)
        run_command("create the environment", [sys.executable, "-m", "venv", str(VENV)])
    only_uv = CACHE / "uv-requirement.txt"
    only_uv.write_text(_find_locked_entry("uv", LOCK_FILE.read_text()))
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    run_command("install uv", [*pip, "--require-hashes", "--no-deps", "-r", str(only_uv)])
    uv = [str(VENV / "bin" / "uv"), "pip", "sync", "--require-hashes", "--python", str(python), str(LOCK_FILE)]
    run_command("install the packages", uv, build_uv_settings(python))


def _is_usable(python: Path) -> bool:
    """Whether the environment's Python starts and is the version that runs this file."""
    code = f"import sys; sys.exit(sys.version_info[:2] != {tuple(sys.version_info[:2])})"
    try:
        return subprocess.run([str(python), "-c", code], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def _find_locked_entry(package: str, lock: str) -> str:
    """The lock's entry of one package, with its hashes."""
    match = re.search(rf"^{package}==.*(?:\n    --hash=.*)+", lock, re.MULTILINE)
    if not match:
        raise SetupError(f"requirements.txt has no pinned entry with hashes for package={package}: run make lock")
    return match.group(0) + "\n"


def build_uv_settings(python: Path) -> dict[str, str]:
    """What uv needs from the machine's own settings: certificates of a private CA, and pip's package index."""
    settings = {"UV_HTTP_TIMEOUT": "180"}
    if SYSTEM_CERTIFICATES.exists():
        settings["SSL_CERT_FILE"] = str(SYSTEM_CERTIFICATES)
    command = [str(python), "-m", "pip", "config", "get", "global.index-url"]
    index = (
        os.environ.get("PIP_INDEX_URL")
        or subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()
    )
    if index and "UV_INDEX_URL" not in os.environ:
        settings["UV_DEFAULT_INDEX"] = index
    return {name: value for name, value in settings.items() if name not in os.environ}


def _fetch_jars(source: Path, folder: Path) -> None:
    """Let the product's own command fetch and verify the jars; it touches no folder that holds the right ones."""
    if folder.exists():
        (folder / JARS_MARK).touch()  # the set-up's own, of whatever version: it may be replaced
    command = [str(VENV / "bin" / "python"), "-m", "tidegate", "jars", "--from", str(source), "--into", str(folder)]
    paths = {"PYTHONPATH": str(ROOT / "plugins")}
    with MAVEN:
        run_command(f"fetch the jars of {source.relative_to(ROOT)}", command, paths)


def run_command(label: str, command: list[str], settings: dict[str, str] | None = None) -> None:
    """Run a long command twice at most (networks hiccup), its output in the log, a sign of life every ten seconds."""
    for _ in range(2):
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=os.environ | (settings or {})
            )
            code = _wait_for(child, label)
            output.seek(0)
            lines = output.read().strip().splitlines()
        with LOG_FILE.open("a") as log:
            log.writelines(f"{line}\n" for line in lines)
        if code == 0:
            return
    reason = lines[-1].strip() if lines else "no output"
    raise SetupError(f"cannot {label}, exit_code={code}: {reason} (log: {LOG_FILE})")


def _wait_for(child: "subprocess.Popen[bytes]", label: str) -> int:
    start_seconds = report_seconds = time.monotonic()
    try:
        while not _interrupted.is_set():
            try:
                return child.wait(timeout=POLL_SECONDS)
            except subprocess.TimeoutExpired:
                if time.monotonic() - report_seconds >= PROGRESS_SECONDS:
                    report_seconds = time.monotonic()
                    print(f"setup: {label}: {report_seconds - start_seconds:.0f} s ...", flush=True)
    except KeyboardInterrupt:
        pass
    child.terminate()
    raise SetupError("interrupted")
