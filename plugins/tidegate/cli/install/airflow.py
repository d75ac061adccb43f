"""``tidegate airflow install``: what Airflow needs beside the package, written once and never overwritten."""

import argparse
import json
import os
from configparser import ConfigParser
from configparser import Error as MalformedFile
from importlib.util import find_spec
from pathlib import Path

from tidegate.errors import ConfigurationError
from tidegate.settings import FIRST_COMMAND, find_airflow_home, find_home_folder, find_include_folder, is_checkout

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


WRITTEN = "written"
UNCHANGED = "unchanged"
KEPT = "kept"


def run_airflow(words: argparse.Namespace) -> int:
    """Exit code 0, also where a changed file is kept."""
    if is_checkout():
        raise ConfigurationError(
            f"this is a checkout, folder={find_home_folder()}: its dags/ and plugins/ are used as they are; "
            "to install into another Airflow: pip install FOLDER, then run tidegate of that environment"
        )
    dags = (words.dags_folder or find_dags_folder()).expanduser().resolve()
    include = (words.include or find_include_folder()).expanduser().resolve()
    results = {dags / name: write_missing_file(dags / name, text) for name, text in DAG_FILES.items()}
    results |= {include / name: write_folder(include / name) for name in INCLUDE_FOLDERS}
    results |= {include / name: write_missing_file(include / name, text) for name, text in INCLUDE_FILES.items()}
    steps = list_next_steps(include)
    if words.json:
        print(json.dumps({"files": {str(path): result for path, result in results.items()}, "next": steps}))
    else:
        print("\n".join(describe_result(path, result) for path, result in results.items()))
        print("\nnext:\n" + "\n".join(f"  {number}. {step}" for number, step in enumerate(steps, 1)))
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
    """What is left to do by hand, in order."""
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
