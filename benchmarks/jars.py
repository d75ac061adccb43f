"""Owns the peers' jars: fetched by Maven once, into the run folder, and what is compiled against them."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from local.layout import ROOT, find_run_dir
from local.setup import SetupError, build_unless_stamped, run_command

PEERS = ("flink", "connect")


def find_folder(peer: str) -> Path:
    """The folder of a peer's jars."""
    return find_run_dir() / "bench-jars" / peer


def build_classpath(peer: str) -> str:
    """All of them."""
    return f"{find_folder(peer)}/*"


def fetch_jars(peer: str) -> str:
    """Fetch a peer's jars if they are not there; why it cannot be, or nothing."""
    pom = ROOT / "benchmarks" / "jars" / peer / "pom.xml"
    try:
        build_unless_stamped(
            find_folder(peer), _digest(pom), f"jars of the peer {peer}", lambda: _fetch(pom, find_folder(peer))
        )
    except (SetupError, OSError) as error:
        return f"its jars are not to be had: {error}"
    return ""


def compile_program(peer: str, name: str) -> Path:
    """Compile a program of ``benchmarks/java`` against a peer's jars; the folder of its classes."""
    source, classes = ROOT / "benchmarks" / "java" / f"{name}.java", find_run_dir() / "bench-classes" / peer
    compiled = ["javac", "-nowarn", "-cp", build_classpath(peer), "-d", str(classes), str(source)]
    classes.mkdir(parents=True, exist_ok=True)
    build_unless_stamped(classes, _digest(source), f"compiling {name}", lambda: _compile(compiled))
    return classes


def _fetch(pom: Path, into: Path) -> None:
    shutil.rmtree(into, ignore_errors=True)
    copy = ["mvn", "-B", "-ntp", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    run_command(f"fetch the jars of {pom.relative_to(ROOT)}", [*copy, f"-DoutputDirectory={into}"])


def _compile(command: list[str]) -> None:
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"javac failed: {process.stderr.strip()[:400]}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
