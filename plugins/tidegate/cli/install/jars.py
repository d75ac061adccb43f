"""``tidegate jars``: Spark's additional jars, fetched with Maven and compared with locked checksums."""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tidegate.errors import ConfigurationError, RetryLater
from tidegate.settings import find_jars_folder, find_product_folder

POM = "pom.xml"
LOCK = "jars.sha256"
MARK = ".tidegate-jars"  # in a folder that this command filled, and may replace
LOCK_HEADER = "# What pom.xml brings: SHA-256, and the place in a Maven repository. `make lock` makes it again.\n"
PACKAGES_HINT = "or let Spark fetch them itself by spark.jars.packages: docs/install.md"


def run_jars(words: argparse.Namespace) -> int:
    """Fetch what is missing and verify all; exit code 0 where the folder holds exactly what is locked."""
    source = words.source or find_product_folder() / "local" / "jars" / "spark"
    if words.write_lock:
        write_lock(source)
        return 0
    folder = (words.into or find_jars_folder()).expanduser().resolve()
    locked_jars = read_lock(source / LOCK)
    try:
        fetched = bool(compare_jars(hash_jars(folder), flatten(locked_jars)))
        if fetched:
            print(f"fetching {len(locked_jars)} jars with Maven; minutes the first time", file=sys.stderr)
            fetch_jars(source, locked_jars, folder)
    except OSError as fault:
        raise ConfigurationError(
            f"folder={folder}: the jars cannot be put there: {fault.strerror or fault}; name another folder with --into"
        ) from fault
    data = {"folder": str(folder), "jars": sorted(flatten(locked_jars)), "fetched": fetched}
    result = "fetched" if fetched else "there already"
    text = f"{len(locked_jars)} jars, {result}, each with the checksum that is locked: {folder}"
    print(json.dumps(data) if words.json else text)
    return 0


def read_lock(path: Path) -> dict[str, str]:
    """SHA-256 of each jar, by its path in a Maven repository."""
    try:
        lines = [
            line.split() for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
        ]
        return {place: digest for digest, place in lines}
    except (OSError, ValueError) as fault:
        raise ConfigurationError(f"file={path}: not a list of checksums: {fault}; restore it, or: make lock") from fault


def write_lock(source: Path) -> None:
    """Lock what Maven resolves now."""
    with tempfile.TemporaryDirectory(prefix="tidegate-jars-") as temporary:
        download_jars(source / POM, Path(temporary))
        digests = hash_jars(Path(temporary))
    lines = [f"{digest}  {place}\n" for place, digest in sorted(digests.items())]
    (source / LOCK).write_text(LOCK_HEADER + "".join(lines), encoding="utf-8")


def fetch_jars(source: Path, locked_jars: Mapping[str, str], folder: Path) -> None:
    """Replace the folder by what Maven brings, if that is locked; else leave it."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise ConfigurationError(f"folder={folder}: it holds files that are not of tidegate jars; name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".jars-", dir=folder.parent) as temporary:
        repository = Path(temporary) / "repository"
        flat = Path(temporary) / "flat"
        download_jars(source / POM, repository)
        if problems := compare_jars(hash_jars(repository), locked_jars):
            raise ConfigurationError(
                f"jars of {source / POM} are not the locked ones, none was kept: {'; '.join(problems)}; "
                "look at what Maven's mirror serves, and remove it from ~/.m2/repository"
            )
        flat.mkdir()
        (flat / MARK).touch()
        for place in locked_jars:
            shutil.move(repository / place, flat / Path(place).name)
        shutil.rmtree(folder, ignore_errors=True)
        flat.rename(folder)


def download_jars(pom: Path, folder: Path) -> None:
    """In the layout of a repository."""
    if shutil.which("mvn") is None:
        raise ConfigurationError(f"mvn was not found: install Maven and a JDK, {PACKAGES_HINT}")
    copy = ["mvn", "-B", "-ntp", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    copy += [f"-DoutputDirectory={folder}", "-Dmdep.useRepositoryLayout=true"]
    completed = subprocess.run(copy, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if completed.returncode:
        error_lines = [
            line for line in (completed.stdout + completed.stderr).splitlines() if line.startswith("[ERROR]")
        ]
        reason = (error_lines or ["no message"])[0].removeprefix("[ERROR]").strip()
        raise RetryLater(f"Maven failed, exit_code={completed.returncode}: {reason}; run it again, {PACKAGES_HINT}")


def hash_jars(folder: Path) -> dict[str, str]:
    """SHA-256 of each jar, by its path below the folder."""
    digests = {}
    for path in sorted(folder.rglob("*.jar")):
        with path.open("rb") as file:
            digests[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def flatten(locked_jars: Mapping[str, str]) -> dict[str, str]:
    """By file name alone."""
    return {Path(place).name: digest for place, digest in locked_jars.items()}


def compare_jars(installed: Mapping[str, str], locked_jars: Mapping[str, str]) -> list[str]:
    """Missing, additional and changed jars; empty where all is right."""
    missing = [f"missing: {name}" for name in sorted(locked_jars.keys() - installed.keys())]
    foreign = [f"not locked: {name}" for name in sorted(installed.keys() - locked_jars.keys())]
    changed_jars = [
        f"another checksum: {name} sha256={installed[name]}, locked={locked_jars[name]}"
        for name in sorted(installed.keys() & locked_jars.keys())
        if installed[name] != locked_jars[name]
    ]
    return [*missing, *foreign, *changed_jars]
