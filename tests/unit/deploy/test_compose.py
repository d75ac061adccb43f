"""docker-compose.yaml without an engine: what can be known of it before anybody has a container runtime."""

import ast
import importlib.util
import json
import os
import re
import shutil
import socket
import string
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tidegate.adapters.iceberg import catalog as sql_catalog
from tidegate.adapters.iceberg.catalog_conf import build_spark_catalog_conf, resolve_catalog_properties
from tidegate.adapters.spark.target import resolve_spark_remote
from tidegate.config.catalogs_file import load_catalogs
from tidegate.connections import read_connection_from_env
from tidegate.spec.runtime import SparkTarget

from local.airflow.services import SERVICES
from local.spark import JVM_OPTIONS

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
ONCE = {"object-store-init", "airflow-init"}
# The keys of a service in the Compose specification that this file may use, with the type of each.
SERVICE: dict[str, type | tuple[type, ...]] = {
    "image": str, "build": dict, "hostname": str, "command": list, "entrypoint": list, "environment": dict,
    "volumes": list, "ports": list, "healthcheck": dict, "restart": str, "depends_on": dict, "secrets": list,
    "mem_limit": str, "cpus": int, "pids_limit": int, "security_opt": list, "cap_drop": list,
}  # fmt: skip
HEALTHCHECK = {"test", "interval", "timeout", "retries", "start_period"}
CONDITIONS = {"service_healthy", "service_completed_successfully"}
DURATION = re.compile(r"\d+(s|m)")
VARIABLE = re.compile(r"\$\{(\w+)(:?[-?+][^}]*)?\}")


@cache
def read_compose() -> Any:
    return yaml.safe_load((ROOT / "docker-compose.yaml").read_text())


def read_services() -> dict[str, dict[str, Any]]:
    return dict(read_compose()["services"])


def list_long_running() -> list[str]:
    return [name for name in read_services() if name not in ONCE]


def import_script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def list_mounts() -> Iterator[tuple[str, str, str]]:
    for name, service in read_services().items():
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            yield name, source, target


def test_only_keys_and_types_of_the_specification() -> None:
    assert set(read_compose()) - {key for key in read_compose() if key.startswith("x-")} == {
        "name",
        "services",
        "volumes",
        "secrets",
    }
    for name, service in read_services().items():
        assert service["restart"] == ("no" if name in ONCE else "unless-stopped"), name
        for key, value in service.items():
            assert key in SERVICE, (name, key)
            assert isinstance(value, SERVICE[key]), (name, key)
        for variable, value in service.get("environment", {}).items():
            assert isinstance(value, str), f"{name}: {variable} must be quoted"
        assert all(isinstance(word, str) for word in service.get("command", [])), name


def test_every_image_is_pinned_and_none_is_of_a_registry_that_has_dropped_it() -> None:
    for name, service in read_services().items():
        image, _, tag = service["image"].rpartition(":")
        assert image, f"{name} has no tag"
        assert image != "minio/minio", "its public images are gone"
        assert re.fullmatch(r"v?\d+\.\d+(\.\d+|-.+)?|\d+\.\d+\.\d+-.+", tag), f"{name}: {tag} can change"


def test_base_images_of_the_build_are_pinned() -> None:
    stages = re.findall(r"^FROM (\S+) AS (\w+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert [name for _, name in stages] == ["jars", "java", "spark", "airflow"]
    assert all(":" in image or image in {"java"} for image, _ in stages)
    assert not any(image.endswith(":latest") for image, _ in stages)
    build_targets = {s["build"]["target"] for s in read_services().values() if "build" in s}
    assert build_targets == {"spark", "airflow"}


def test_long_running_services_have_health_checks_and_none_starts_a_jvm() -> None:
    for name in list_long_running():
        check = read_services()[name]["healthcheck"]
        assert set(check) <= HEALTHCHECK, name
        assert check["test"][0] == "CMD", name
        assert all(DURATION.fullmatch(check[key]) for key in ("interval", "timeout")), name
        assert not any("/opt/kafka/bin" in word or "java" in word for word in check["test"]), name


def test_everything_of_the_include_folder_reaches_airflow_but_for_the_catalogs_of_the_stack() -> None:
    for name, service in read_services().items():
        if name.startswith("airflow-"):
            mounted = [volume.split(":")[:2] for volume in service["volumes"] if "/etc/tidegate" in volume]
            assert mounted[0] == ["./include", service["environment"]["TIDEGATE_INCLUDE"]], name
            assert mounted[1:] == [["./deploy/include/catalogs.yaml", "/etc/tidegate/catalogs.yaml"]], name
            assert (ROOT / "include" / "catalogs.yaml").is_file(), "a file is mounted over a file that is there"


def test_every_setting_is_one_that_the_installed_airflow_knows() -> None:
    airflow_settings = list_airflow_settings()
    variables = {name for service in read_services().values() for name in service.get("environment", {})}
    setting_names = [name.split("__")[1:] for name in variables if name.startswith("AIRFLOW__")]
    assert len(setting_names) > 10
    for section, key in setting_names:
        assert key.lower() in airflow_settings.get(section.lower(), {}), f"AIRFLOW__{section}__{key}"


def list_airflow_settings() -> dict[str, set[str]]:
    """By section the settings that Airflow describes itself."""
    spec = importlib.util.find_spec("airflow")
    assert spec
    assert spec.submodule_search_locations
    text = (Path(next(iter(spec.submodule_search_locations))) / "config_templates" / "config.yml").read_text()
    return {section: set(section_options["options"]) for section, section_options in yaml.safe_load(text).items()}


def test_services_wait_for_a_condition_that_can_come_true() -> None:
    for name, service in read_services().items():
        for dependency, wait in service.get("depends_on", {}).items():
            assert set(wait) == {"condition"}, (name, dependency)
            assert wait["condition"] in CONDITIONS
            assert (wait["condition"] == "service_completed_successfully") == (dependency in ONCE), (name, dependency)


def test_no_service_waits_for_itself() -> None:
    finished_services: set[str] = set()
    dependencies = {name: set(service.get("depends_on", {})) for name, service in read_services().items()}
    while dependencies:
        ready = [name for name, needs in dependencies.items() if needs <= finished_services]
        assert ready, f"a circle among {sorted(dependencies)}"
        finished_services.update(ready)
        dependencies = {name: needs for name, needs in dependencies.items() if name not in finished_services}


def test_mounted_paths_exist_and_named_volumes_are_declared() -> None:
    used = set()
    for name, source, target in list_mounts():
        assert target.startswith("/"), name
        if source.startswith("./"):
            assert (ROOT / source).exists(), f"{name} mounts {source}"
        else:
            used.add(source)
    assert used == set(read_compose()["volumes"])


def test_scripts_that_are_run_are_executable() -> None:
    mounted = [ROOT / source for _, source, _ in list_mounts() if source.endswith(".sh")]
    copied = re.findall(r"deploy/[\w/.-]+\.(?:sh|py)", "".join(_list_executable_copies()))
    assert len(mounted) == 3
    assert copied
    for path in [*mounted, *(ROOT / name for name in copied)]:
        assert os.access(path, os.X_OK), path
        assert path.read_text().startswith("#!"), path


def _list_executable_copies() -> list[str]:
    return [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if line.startswith("COPY --chmod=755")]


def test_what_the_build_copies_exists_and_is_not_ignored() -> None:
    ignore_lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    allowed_names = [line[1:] for line in ignore_lines if line.startswith("!")]
    for line in (DEPLOY / "Dockerfile").read_text().splitlines():
        if not line.startswith("COPY ") or "--from" in line:
            continue
        for source in [word for word in line.split()[1:-1] if not word.startswith("--")]:
            assert list(ROOT.glob(source)), source
            assert any(source.rstrip("/").startswith(name) for name in allowed_names), source


def test_shell_scripts_parse() -> None:
    for path in sorted(DEPLOY.rglob("*.sh")):
        shell = "bash" if "bash" in path.read_text().splitlines()[0] else "sh"
        subprocess.run([shell, "-n", str(path)], check=True)


def test_every_variable_must_be_set_and_none_has_a_default() -> None:
    mentions = VARIABLE.findall((ROOT / "docker-compose.yaml").read_text())
    assert mentions
    for name, default_text in mentions:
        assert default_text.startswith(":?"), f"{name} may be empty"
    example = (ROOT / ".env.example").read_text()
    example_values = re.findall(r"^(\w+)=(.*)$", example, re.MULTILINE)
    secrets = {secret["environment"] for secret in read_compose()["secrets"].values()}
    assert {name for name, _ in example_values} == {name for name, _ in mentions} | secrets
    assert all(value == "" for _, value in example_values), "an example with a value becomes a password"


def test_no_secret_stands_in_the_file() -> None:
    """Nor among the settings of a container, which `docker inspect` shows: they are files there."""
    secrets = {secret["environment"] for secret in read_compose()["secrets"].values()}
    assert {name for name, _ in VARIABLE.findall((ROOT / "docker-compose.yaml").read_text())} & secrets == set()
    for name, service in read_services().items():
        assert set(service.get("secrets", ())) <= set(read_compose()["secrets"]), name
        for variable in service.get("environment", {}):
            assert not re.search(r"PASSWORD$|SECRET|FERNET|_KEY$|TOKEN$", variable), f"{name}: {variable}"


def test_secret_that_a_script_reads_is_one_that_its_service_gets() -> None:
    scripts = {
        "postgres": ("postgres/init.sh",),
        "object-store": ("s3/server.sh",),
        "airflow-api-server": ("airflow/entrypoint.sh", "airflow/api-server.sh"),
        "airflow-scheduler": ("airflow/entrypoint.sh",),
        "prometheus": ("monitoring/scrape.yaml",),
    }
    for name, files in scripts.items():
        text = "".join((DEPLOY / file).read_text() for file in files)
        secret_names = set(re.findall(r"/run/secrets/(\w+)", text)) | set(re.findall(r"read_secret (\w+)", text))
        service_secrets = set(read_services()[name]["secrets"])
        asked_for_if_there = {"tidegate_metrics_token"} if name == "airflow-scheduler" else set()
        assert secret_names - asked_for_if_there == service_secrets - {"postgres_password"}, name


def test_every_container_has_limits_and_ours_cannot_get_rights() -> None:
    for name, service in read_services().items():
        assert {"mem_limit", "cpus", "pids_limit"} <= set(service), name
        if "build" in service or name in ("kafka", "prometheus"):
            assert service["cap_drop"] == ["ALL"], name
            assert service["security_opt"] == ["no-new-privileges:true"], name


def test_memory_of_spark_fits_its_containers() -> None:
    megabytes = {
        name: int(s["mem_limit"][:-1]) * (1024 if s["mem_limit"][-1] == "g" else 1)
        for name, s in read_services().items()
    }
    worker, connect = read_services()["spark-worker"]["environment"], read_services()["spark-connect"]["environment"]
    assert int(worker["SPARK_WORKER_MEMORY"][:-1]) * 1024 + 2048 <= megabytes["spark-worker"]
    assert int(connect["SPARK_DRIVER_MEMORY"][:-1]) * 1024 + 1024 <= megabytes["spark-connect"]


def test_our_images_do_not_run_as_root() -> None:
    users = re.findall(r"^USER (\w+)$", _read_text("deploy/Dockerfile"), re.MULTILINE)
    assert users == ["tidegate", "tidegate"]


def test_spark_connect_starts_the_program_that_the_local_stack_starts() -> None:
    assert 'str(ROOT / "jobs" / "serve.py")' in (ROOT / "local" / "spark.py").read_text()
    names = ("SharedCatalog", "AllocatorPlugin", "SorterPlugin", "LocalFiles", "ShutdownHooks")
    classes = " ".join(f"jobs/{name}.java" for name in names)
    assert f"COPY jobs/serve.py {classes} /opt/tidegate/" in (DEPLOY / "Dockerfile").read_text()
    assert "/opt/tidegate/serve.py" in (DEPLOY / "spark" / "entrypoint.sh").read_text()


def test_spark_settings_are_those_of_the_local_stack() -> None:
    local = (ROOT / "local" / "spark.py").read_text()
    lines = (DEPLOY / "spark" / "spark-defaults.conf").read_text().splitlines()
    settings = dict(line.split(None, 1) for line in lines if line and not line.startswith("#"))
    for name in (
        "spark.sql.extensions",
        "spark.sql.session.timeZone",
        *(setting for setting in settings if "retained" in setting),
    ):
        assert f'"{name}": "{settings[name].strip()}"' in local
    for name in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        assert settings[name].split() == [*JVM_OPTIONS]
    port = read_services()["spark-connect"]["healthcheck"]["test"][-1].rpartition(":")[2]
    assert settings["spark.connect.grpc.binding.port"].strip() == port


def test_airflow_runs_the_four_services_of_the_local_stack() -> None:
    assert len(SERVICES) == 4
    for name in SERVICES:
        command = read_services()[f"airflow-{name}"]["command"]
        text = (DEPLOY / "airflow" / command[0]).read_text() if command[0].endswith(".sh") else " ".join(command)
        assert f"airflow {name}" in text


def test_jars_come_from_the_pinned_poms() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    assert all(pom in dockerfile for pom in ("local/jars/spark/pom.xml", "local/jars/s3/pom.xml"))
    runtime, bundle = (
        re.findall(rf"{name}[^<]*</artifactId>\s*<version>([^<]+)", _read_text(pom))
        for name, pom in (
            ("iceberg-spark-runtime", "local/jars/spark/pom.xml"),
            ("iceberg-aws-bundle", "local/jars/s3/pom.xml"),
        )
    )
    assert runtime == bundle != []


def _read_text(name: str) -> str:
    return (ROOT / name).read_text()


def test_the_image_gets_pyspark_from_the_lock() -> None:
    find_entry = import_script(DEPLOY / "spark" / "locked.py").find_entry
    assert "--hash=sha256:" in find_entry(_read_text("requirements.txt"), "pyspark")
    with pytest.raises(KeyError, match="run make lock"):
        find_entry(_read_text("requirements.txt"), "no-such-package")


def test_the_spark_image_has_what_the_jobs_import_on_its_workers() -> None:
    installed = re.search(r"locked.py /tmp/requirements.txt (.*) >", _read_text("deploy/Dockerfile"))
    assert installed
    own_modules = {"pyspark", "tidegate", "tidegate_spark", *sys.stdlib_module_names}
    imported = set()
    for file in (ROOT / "jobs").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
    foreign = {name.partition(".")[0] for name in imported} - own_modules
    packages = {name: name for name in ("pyarrow", "msgpack")}
    packages |= {"confluent_kafka": "confluent-kafka", "google": "protobuf"}
    assert {packages[name] for name in foreign} == set(installed.group(1).split()) - {"pyspark", "py4j"}


def test_the_airflow_image_has_no_tools_of_tests_and_all_that_the_rest_needs() -> None:
    select_entries = import_script(DEPLOY / "airflow" / "runtime.py").select_runtime_entries
    entries = select_entries(_read_text("requirements.in"), _read_text("requirements.txt"))
    tools = {"pytest", "pytest-xdist", "hypothesis", "zetasql", "playwright", "ruff", "mypy", "pre-commit", "uv"}
    assert not tools & set(entries)
    assert {"apache-airflow", "pyspark", "pyiceberg", "psycopg2-binary", "confluent-kafka"} <= set(entries)
    assert all("--hash=sha256:" in entry for entry in entries.values())
    for name in entries:
        with suppress(PackageNotFoundError):  # of another platform
            requirements = (Requirement(text) for text in requires(name) or ())
            for column in requirements:
                if column.marker is None or column.marker.evaluate({"extra": ""}):
                    assert canonicalize_name(column.name) in entries, f"{name} needs {column.name}"
    with pytest.raises(KeyError, match="nothing-like-it"):
        select_entries("nothing-like-it==1\n", _read_text("requirements.txt"))


def test_the_object_stores_user_is_the_one_of_the_catalogs_connection() -> None:
    text = _read_text("deploy/s3/server.sh")
    values = {"LAKE_ACCESS_KEY": "key1", "LAKE_SECRET_KEY": "secret1"}
    document = re.search(r"<<EOF\n(.*?)\nEOF", text, re.DOTALL)
    assert document
    [user] = json.loads(string.Template(document.group(1)).substitute(values))["identities"]
    assert user["credentials"] == [{"accessKey": "key1", "secretKey": "secret1"}]
    bucket = load_catalogs(DEPLOY / "include")["lake"].properties["warehouse"].split("/")[2]
    assert {action.partition(":")[2] for action in user["actions"]} == {bucket}
    assert {name.lower() for name in values} == set(read_services()["object-store"]["secrets"])
    endpoint = load_catalogs(DEPLOY / "include")["lake"].properties["s3.endpoint"]
    assert endpoint == "http://object-store:8333"
    assert "-s3.port=8333" in text
    assert f"-name {bucket}" in _read_text("deploy/s3/bucket.sh")


def test_the_catalog_database_is_made_as_sqlites_is() -> None:
    script_text = " ".join((DEPLOY / "postgres" / "init.sh").read_text().split())
    for statement in sql_catalog.CREATE_TABLES_SQL.strip().split(";"):
        assert " ".join(statement.split()) in script_text


def read_environment(service: dict[str, Any], folder: Path) -> dict[str, str]:
    """What Airflow's processes find, after the entry point has read the secrets."""
    for name in service["secrets"]:
        (folder / name).write_text("secret1")
    script = _read_text("deploy/airflow/entrypoint.sh").replace("secrets=/run/secrets", f"secrets={folder}")
    printed = subprocess.run(
        ["bash", "-c", script, "entrypoint", "env", "-0"],
        env={"PATH": os.environ["PATH"], **service["environment"]},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return dict(line.split("=", 1) for line in printed.split("\0") if line)


def test_connections_and_catalogs_are_ones_the_product_can_use(tmp_path: Path) -> None:
    environment = read_environment(read_services()["airflow-scheduler"], tmp_path)

    def resolve(conn_id: str) -> Any:
        return read_connection_from_env(conn_id, environment)

    lake = load_catalogs(DEPLOY / "include")["lake"]
    properties = resolve_catalog_properties(lake, resolve)
    assert properties["uri"].partition("?")[0] == "postgresql+psycopg2://iceberg:secret1@postgres:5432/iceberg"
    conf = build_spark_catalog_conf(lake, properties)
    assert conf["spark.sql.catalog.lake.jdbc.user"] == "iceberg"
    assert conf["spark.sql.catalog.lake.s3.secret-access-key"] == "secret1"
    assert conf["spark.sql.catalog.lake.io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert resolve_spark_remote(SparkTarget(), resolve, {}) == "sc://spark-connect:15002"
    assert resolve("kafka_default").extra == {"bootstrap.servers": "kafka:9092"}
    assert resolve("spark_cluster").host == "spark://spark-master"


def test_the_compose_catalogs_serve_the_demos_pipelines() -> None:
    files = [yaml.safe_load(file.read_text()) for file in (ROOT / "demo" / "pipelines").glob("*.yaml")]
    catalog_names = {table["name"].partition(".")[0] for file in files for table in file["tables"]}
    assert catalog_names == set(load_catalogs(DEPLOY / "include"))


def test_password_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "passwords.json"
    import_script(DEPLOY / "airflow" / "passwords.py").write(str(path), "secret1")
    assert json.loads(path.read_text()) == {"admin": "secret1"}
    assert path.stat().st_mode & 0o077 == 0


def test_health_check_tells_an_open_port_from_a_closed_one() -> None:
    healthy = import_script(DEPLOY / "healthy.py").main
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        assert healthy(place) == 0
    assert healthy(place) == 1


def test_compose_itself_accepts_the_file() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], check=False, capture_output=True).returncode:
        pytest.skip("docker compose is not installed here")
    values = dict.fromkeys(re.findall(r"^(\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE), "secret1")
    command = [docker, "compose", "-f", str(ROOT / "docker-compose.yaml"), "config", "--quiet"]
    process = subprocess.run(command, env={**os.environ, **values}, check=False, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
