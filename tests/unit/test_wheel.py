"""The wheel: what lies in it, that two builds are equal, and that the product works from it, outside of a checkout."""

import email
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from links import find_anchors

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# folder of the checkout -> folder of the wheel, and what lies in it
PLACES = {
    "plugins/tidegate": ("tidegate", "**/*.py"),
    "plugins/tidegate_airflow": ("tidegate_airflow", "**/*"),
    "jobs/tidegate_spark": ("tidegate_spark", "**/*.py"),
    "include/sql": ("tidegate/files/include/sql", "**/*.sql"),
    "jobs": ("tidegate/files/jobs", "*.*"),
    "local/jars/spark": ("tidegate/files/local/jars/spark", "*"),
    "docs": ("tidegate/files/docs", "*.md"),
    "docs/runbook": ("tidegate/files/docs/runbook", "*.md"),
}
PAGE_PATTERN = re.compile(r"docs/[\w/-]+\.md(?:#[\w-]+)?")
PIPELINE = """
source:
  topics: [shop.orders]
  key: {fields: [id], schema: id BIGINT}
  value: {format: json, schema: name STRING}
tables:
  - name: lake.shop.orders
"""


FIND_FILES = """
import zipfile
from tidegate.adapters.spark.entry_points import JOBS_FOLDER
from tidegate.adapters.spark.submit import pack_files
from tidegate.adapters.sql_templates import SQL_FOLDER

print(SQL_FOLDER, JOBS_FOLDER)
with pack_files({}) as files:
    print(*zipfile.ZipFile(files.libraries).namelist())
"""


def build(folder: Path, epoch: str) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        env=os.environ | {"SOURCE_DATE_EPOCH": epoch},
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"), "1700000000")


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory) -> Path:
    """The wheel as pip lays it out, with the libraries of this environment beside it."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def run(site, tmp_path):
    def call(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept_variables = {
            name: value for name, value in os.environ.items() if not name.startswith(("TIDEGATE_", "AIRFLOW"))
        }
        environ = {**kept_variables, "PYTHONPATH": str(site), "AIRFLOW_HOME": str(tmp_path / "airflow"), **variables}
        command = [sys.executable, "-m", "tidegate", *words]
        return subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)

    return call


def list_expected_files() -> Iterator[str]:
    for source, (place, pattern) in PLACES.items():
        for path in (ROOT / source).glob(pattern):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{place}/{path.relative_to(ROOT / source).as_posix()}"
    yield "tidegate_plugin.py"


def test_wheel_holds_the_product_and_nothing_else(wheel) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == set(list_expected_files())


def test_every_page_that_a_message_names_is_in_the_wheel(site) -> None:
    """With its heading, if one is named: whoever installed the wheel has no other copy of the manual."""
    files = [file for file in site.rglob("*") if file.suffix in {".py", ".js", ".html"}]
    named = {name for file in files for name in PAGE_PATTERN.findall(file.read_text())}
    assert len(named) > 10
    for name in named:
        page, _, anchor = name.partition("#")
        assert (site / "tidegate/files" / page).is_file(), name
        assert not anchor or anchor in find_anchors(site / "tidegate/files" / page), name


def test_two_builds_are_equal_byte_by_byte(wheel, tmp_path) -> None:
    assert build(tmp_path, "1700000000").read_bytes() == wheel.read_bytes()


def test_backend_of_the_build_is_the_one_that_is_locked() -> None:
    (requirement,) = PROJECT["build-system"]["requires"]
    assert f"\n{requirement} " in (ROOT / "requirements.txt").read_text()


def test_samples_of_init_are_read_with_what_every_installation_has() -> None:
    """Not with what an extra brings: each value that is no text is tried as MessagePack."""
    sources = [file.read_text() for file in (ROOT / "plugins/tidegate/sampling").glob("*.py")]
    imported = {name for text in sources for name in re.findall(r"^ *(?:from|import) (\w+)", text, re.MULTILINE)}
    required = {re.split(r"[^\w-]", text)[0] for text in PROJECT["project"]["dependencies"]}
    libraries = imported - sys.stdlib_module_names - {"tidegate"}
    assert "msgpack" in libraries
    assert libraries <= required


def test_metadata_tells_name_version_plugin_and_script(site) -> None:
    (folder,) = site.glob("*.dist-info")
    metadata = email.message_from_string((folder / "METADATA").read_text())
    assert (metadata["Name"], metadata["Version"]) == ("tidegate", PROJECT["project"]["version"])
    assert set(metadata.get_all("Provides-Extra")) == {"iceberg", "bigquery", "airflow", "spark", "openlineage", "all"}
    entries = (folder / "entry_points.txt").read_text()
    assert "[airflow.plugins]\ntidegate = tidegate_plugin:TidegatePlugin\n" in entries
    assert "[console_scripts]\ntidegate = tidegate.__main__:run_and_exit\n" in entries


def test_installed_command_tells_its_version_and_finds_its_statements_and_jobs(run, site) -> None:
    assert run("--version").stdout == f"tidegate {PROJECT['project']['version']}\n"
    environ = os.environ | {"PYTHONPATH": str(site)}
    process = subprocess.run(
        [sys.executable, "-c", FIND_FILES], env=environ, capture_output=True, text=True, check=True
    )
    folders, packed = process.stdout.splitlines()
    assert folders.split() == [str(site / "tidegate/files/include/sql"), str(site / "tidegate/files/jobs")]
    assert {"tidegate/settings.py", "tidegate_spark/stage/job.py", "tidegate/jobs/stage_job.py"} <= set(packed.split())


def test_install_writes_what_an_airflow_needs_and_a_second_one_changes_nothing(run, tmp_path) -> None:
    home = tmp_path / "airflow"
    first = run("airflow", "install")
    assert (first.returncode, first.stderr) == (0, "")
    written_files = {path.relative_to(home).as_posix() for path in home.rglob("*")}
    dags = {"dags/tidegate_dags.py", "dags/tidegate_refused_files.py"}
    assert dags | {"include/pipelines", "include/publications", "include/catalogs.yaml"} <= written_files
    assert (
        "tidegate init --topic TOPIC --to CATALOG.NAMESPACE.TABLE; and check them: tidegate validate\n" in first.stdout
    )
    before = {path: (path.read_text(), path.stat().st_mtime_ns) for path in home.rglob("*") if path.is_file()}
    second = run("airflow", "install", "--json")
    assert set(json.loads(second.stdout)["files"].values()) == {"unchanged"}
    assert {path: (path.read_text(), path.stat().st_mtime_ns) for path in before} == before
    (home / "include" / "pipelines" / "orders.yaml").write_text(PIPELINE)
    assert run("validate").stdout == "orders: ok\n"


def test_command_before_the_install_says_how_to_make_the_folder(run, tmp_path) -> None:
    answer = run("validate")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith(f"include={tmp_path}/airflow/include: no such folder; ")
    assert answer.stderr.endswith("or make it: tidegate airflow install\n")


def test_install_keeps_a_file_that_was_changed_and_says_so(run, tmp_path) -> None:
    home = tmp_path / "airflow"
    run("airflow", "install")
    for name in ("dags/tidegate_dags.py", "include/catalogs.yaml"):
        (home / name).write_text("# mine\n")
    answer = run("airflow", "install")
    assert answer.returncode == 0
    assert f"kept: {home}/dags/tidegate_dags.py: it was changed; remove it and run this again" in answer.stdout
    assert f"kept: {home}/include/catalogs.yaml: it holds your own settings" in answer.stdout
    assert (home / "dags" / "tidegate_dags.py").read_text() == "# mine\n"
    assert (home / "include" / "catalogs.yaml").read_text() == "# mine\n"


def test_install_follows_airflows_own_settings_and_the_commands_words(run, tmp_path) -> None:
    home, elsewhere = tmp_path / "airflow", tmp_path / "elsewhere"
    home.mkdir()
    (home / "airflow.cfg").write_text(f"[core]\ndags_folder = {tmp_path}/100%/dags\n")
    assert run("airflow", "install").returncode == 0
    assert (tmp_path / "100%" / "dags" / "tidegate_dags.py").exists()
    answer = run("airflow", "install", "--dags-folder", str(elsewhere / "dags"), "--include", str(elsewhere / "in"))
    assert (elsewhere / "dags" / "tidegate_refused_files.py").exists()
    assert (elsewhere / "in" / "catalogs.yaml").exists()
    assert f"set TIDEGATE_INCLUDE={elsewhere / 'in'} for every service of Airflow" in answer.stdout


def test_install_says_in_one_line_where_it_cannot_write(run, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    answer = run("airflow", "install", "--dags-folder", str(tmp_path / "file" / "dags"))
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith(f"file={tmp_path}/file/dags/tidegate_dags.py: cannot be written: ")
    assert len(answer.stderr.splitlines()) == 1


def test_checkout_is_not_installed_into_an_airflow(tmp_path) -> None:
    answer = subprocess.run(
        [str(ROOT / "bin" / "tidegate"), "airflow", "install"],
        env=os.environ | {"AIRFLOW_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, list(tmp_path.iterdir())) == (1, [])
    assert "this is a checkout" in answer.stderr
