"""``tidegate airflow install``, ``jars`` and ``completion``: what an installed package needs around it.

The files of an Airflow are written once and never overwritten; Spark's additional jars are fetched with Maven and
compared with locked checksums.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as MalformedFile
from importlib.util import find_spec
from pathlib import Path

from tidegate.cli.output import name_command
from tidegate.errors import ConfigurationError, RetryLater
from tidegate.settings import (
    FIRST_COMMAND,
    find_airflow_home,
    find_home_folder,
    find_include_folder,
    find_jars_folder,
    find_product_folder,
    is_checkout,
)

ALL_DAGS = '''"""Tidegate's DAGs, those of each file that is right. Written by `tidegate airflow install`."""

from tidegate_airflow.dag_files import build_all_dags

globals().update(build_all_dags())
'''

REFUSED_FILES = '''"""Shows broken files of Tidegate as an import error. Written by `tidegate airflow install`."""

from tidegate_airflow.dag_files import raise_refused_files

raise_refused_files()
'''

CATALOGS = """\
# Where tables live: one entry for each catalog. ${TIDEGATE_HOME} is AIRFLOW_HOME unless it is set;
# other ${NAMES} come from the environment and must be set. Secrets belong
# into an Airflow connection, named here by `connection:`.

# To begin with: Iceberg on one machine, which Spark and Airflow share. Nothing is made before the first flush.
lake:
  type: iceberg
  properties:
    type: sql
    uri: sqlite:///${TIDEGATE_HOME}/lake/catalog.db
    warehouse: file://${TIDEGATE_HOME}/lake/warehouse

# Iceberg behind a REST catalog:
# lake:
#   type: iceberg
#   connection: lake_rest             # an Airflow connection: token, credential, keys of the object store
#   properties:
#     type: rest
#     uri: https://catalog.example.com
#     warehouse: s3://bucket/prefix

# BigQuery:
# warehouse:
#   type: bigquery
#   project: my-project
#   location: EU
#   staging: gs://my-bucket/tidegate
"""
# under the dags folder; not tidegate.py, which `python dags/tidegate.py` would take for the package of that name
DAG_FILES = {"tidegate_dags.py": ALL_DAGS, "tidegate_refused_files.py": REFUSED_FILES}
INCLUDE_FILES = {"catalogs.yaml": CATALOGS}
INCLUDE_FOLDERS = ("pipelines", "publications")
# what became of a file
WRITTEN = "written"
UNCHANGED = "unchanged"
KEPT = "kept"


def run_airflow(args: argparse.Namespace) -> int:
    """Exit code 0, also where a changed file is kept."""
    if is_checkout():
        raise ConfigurationError(
            f"this is a checkout, folder={find_home_folder()}: its dags/ and plugins/ are used as they are; "
            "for another Airflow run in its environment: pip install FOLDER, and then: tidegate airflow install"
        )
    dags = (args.dags_folder or find_dags_folder()).expanduser().resolve()
    include = (args.include or find_include_folder()).expanduser().resolve()
    results = {dags / name: write_missing_file(dags / name, text) for name, text in DAG_FILES.items()}
    results |= {include / name: write_folder(include / name) for name in INCLUDE_FOLDERS}
    results |= {include / name: write_missing_file(include / name, text) for name, text in INCLUDE_FILES.items()}
    steps = list_next_steps(include)
    if args.json:
        print(json.dumps({"files": {str(path): result for path, result in results.items()}, "next": steps}))
    else:
        print("\n".join(describe_result(path, result) for path, result in results.items()))
        print(name_command("\nnext:\n" + "\n".join(f"  {number}. {step}" for number, step in enumerate(steps, 1))))
    return 0


def find_dags_folder() -> Path:
    """Airflow's `[core] dags_folder`, from its variable, its file, or its default."""
    home = find_airflow_home()
    if configured_folder := os.environ.get("AIRFLOW__CORE__DAGS_FOLDER"):
        return Path(configured_folder)
    file = Path(os.environ.get("AIRFLOW_CONFIG") or home / "airflow.cfg")
    parser = ConfigParser(interpolation=None)
    try:
        parser.read(file)
    except (MalformedFile, UnicodeDecodeError) as fault:
        raise ConfigurationError(f"file={file}: cannot be read: {fault}; name the folder with --dags-folder") from fault
    return Path(os.path.expandvars(parser.get("core", "dags_folder", fallback="") or home / "dags"))


def write_missing_file(path: Path, text: str) -> str:
    """Never overwrites a file."""
    try:
        if path.exists():
            return UNCHANGED if path.read_text(encoding="utf-8", errors="replace") == text else KEPT
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise ConfigurationError(f"file={path}: cannot be written: {fault.strerror}; choose another folder") from fault
    return WRITTEN


def write_folder(path: Path) -> str:
    if path.is_dir():
        return UNCHANGED
    try:
        path.mkdir(parents=True)
    except OSError as fault:
        raise ConfigurationError(f"folder={path}: cannot be made: {fault.strerror}; choose another one") from fault
    return WRITTEN


def describe_result(path: Path, result: str) -> str:
    if result != KEPT:
        return f"{result}: {path}"
    reason = (
        "it holds your own settings" if path.name in INCLUDE_FILES else "it was changed; remove it and run this again"
    )
    return f"{result}: {path}: {reason}{'' if path.name in INCLUDE_FILES else ' to get the file of this version'}"


def list_next_steps(include: Path) -> list[str]:
    steps = []
    if find_spec("airflow") is None:
        steps.append("Airflow is not in this Python environment: install tidegate where Airflow is installed")
    copied_plugin = find_airflow_home() / "plugins" / "tidegate_plugin.py"
    if copied_plugin.exists():
        steps.append(f"remove {copied_plugin} and the folders beside it: the plugin comes with the package now")
    if include != find_include_folder().resolve():
        steps.append(f"set TIDEGATE_INCLUDE={include} for every service of Airflow, and in your shell")
    return [
        *steps,
        f"say in {include / 'catalogs.yaml'} where tables live",
        f"write pipeline files into {include / 'pipelines'}, or propose them with: {FIRST_COMMAND}; and "
        "check them: tidegate validate",
        "make the connections that they name: kafka_default and spark_default, unless they name others",
        "give Spark its jars: docs/install.md, or `tidegate jars` for a server on this machine",
        "start Airflow's services again",
    ]


POM = "pom.xml"
LOCK = "jars.sha256"
MARK = ".tidegate-jars"  # in a folder that this command filled, and may replace
LOCK_HEADER = "# What pom.xml brings: SHA-256, and the place in a Maven repository. `make lock` makes it again.\n"
PACKAGES_HINT = "or let Spark fetch them itself by spark.jars.packages: docs/install.md"


def run_jars(args: argparse.Namespace) -> int:
    """Fetch what is missing and verify all; exit code 0 where the folder holds exactly what is locked."""
    source = args.source or find_product_folder() / "local" / "jars" / "spark"
    if args.write_lock:
        with tempfile.TemporaryDirectory(prefix="tidegate-jars-") as temporary:
            download_jars(source / POM, Path(temporary))
            digests = hash_jars(Path(temporary))
        lines = [f"{digest}  {place}\n" for place, digest in sorted(digests.items())]
        (source / LOCK).write_text(LOCK_HEADER + "".join(lines), encoding="utf-8")
        return 0
    folder = (args.into or find_jars_folder()).expanduser().resolve()
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
    print(json.dumps(data) if args.json else text)
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


def run_completion(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["tidegate"], shell=args.shell))
    return 0
