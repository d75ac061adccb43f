"""deploy/kubernetes without a cluster: each object by Kubernetes' own schemas, and all of them by each other."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from containers.dockerfile import split_stages
from tidegate.config.catalogs_file import load_catalogs

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "kubernetes"
VERSIONS = ("1.32", "1.37")  # the oldest that is meant, and the newest schemas at hand
OBJECTS = [
    document
    for file in ("spark-connect.yaml", "network-policy.yaml")
    for document in yaml.safe_load_all((FOLDER / file).read_text())
]
SET = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
VALUES = yaml.safe_load((FOLDER / "airflow-values.yaml").read_text())
SECRETS = {"tidegate-secrets", "spark-connect-certificate"}  # made by hand, as README.md says


def find_one(kind: str) -> Any:
    (matches,) = (document for document in OBJECTS if document["kind"] == kind)
    return matches


def find_pod() -> Any:
    return find_one("Deployment")["spec"]["template"]["spec"]


def find_container(name: str) -> Any:
    (container,) = (container for container in find_pod()["containers"] if container["name"] == name)
    return container


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_what_the_schemas_of_kubernetes_know(version: str) -> None:
    for document in OBJECTS:
        kubernetes_validate.validate(document, version, strict=True)


def test_word_that_no_schema_knows_is_refused() -> None:
    service = find_one("Service")
    wrong = {**service, "spec": {**service["spec"], "prots": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_set_names_every_file_of_the_folder_and_nothing_else() -> None:
    generated = [file for entry in SET["configMapGenerator"] for file in entry["files"]]
    file_names = {*SET["resources"], *generated, "kustomization.yaml", "airflow-values.yaml", "README.md"}
    assert {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()} == file_names


def test_set_is_marked_as_not_run() -> None:
    assert "not run" in (FOLDER / "README.md").read_text().splitlines()[0]
    for file in ("kustomization.yaml", "airflow-values.yaml"):
        assert "Not run on a cluster" in (FOLDER / file).read_text()


def test_secrets_are_named_and_none_stands_in_a_file() -> None:
    secret_entries = {entry["secretName"] for entry in VALUES["secret"]}
    secret_entries |= {
        volume["secret"]["secretName"]
        for volume in [*find_pod()["volumes"], *VALUES["volumes"], *VALUES["apiServer"]["extraVolumes"]]
        if "secret" in volume
    }
    environment = find_container("spark-connect")["env"]
    secret_entries |= {entry["valueFrom"]["secretKeyRef"]["name"] for entry in environment if "valueFrom" in entry}
    assert secret_entries == SECRETS
    readme = (FOLDER / "README.md").read_text()
    keys = {entry["secretKey"] for entry in VALUES["secret"]} | {"spark-connect-token", "admin-password"}
    (item,) = VALUES["apiServer"]["extraVolumes"][0]["secret"]["items"]
    assert item["key"] == "admin-password"
    assert set(re.findall(r"--from-file=([\w-]+)=", readme)) == keys
    assert not [document for document in OBJECTS if document["kind"] == "Secret"]


def test_config_maps_that_are_mounted_are_generated_under_that_very_name() -> None:
    generated_names = {entry["name"] for entry in SET["configMapGenerator"]}
    mounted = {v["configMap"]["name"] for v in [*find_pod()["volumes"], *VALUES["volumes"]] if "configMap" in v}
    assert mounted == generated_names
    assert SET["generatorOptions"] == {"disableNameSuffixHash": True}
    volumes = {volume["name"] for volume in VALUES["volumes"]}
    assert {mount["name"] for mount in VALUES["volumeMounts"]} == volumes


def test_ports_fit_from_the_service_to_the_server() -> None:
    settings = (FOLDER / "nginx.conf").read_text()
    (tls,) = find_container("tls")["ports"]
    (port,) = find_one("Service")["spec"]["ports"]
    assert f"listen {tls['containerPort']} ssl" in settings
    assert (port["port"], port["targetPort"]) == (tls["containerPort"], tls["name"])
    server = re.search(r"binding\.port\s+(\d+)", (ROOT / "deploy" / "spark" / "spark-defaults.conf").read_text())
    assert server
    assert f"grpc_pass grpc://127.0.0.1:{server[1]};" in settings
    assert find_container("spark-connect")["startupProbe"]["exec"]["command"] == ["healthy", f"127.0.0.1:{server[1]}"]
    (rule,) = find_one("NetworkPolicy")["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [tls["name"]], "nobody reaches the port without TLS"


def test_server_reaches_the_registry_to_which_its_driver_registers_publications() -> None:
    egress = find_one("NetworkPolicy")["spec"]["egress"]
    assert {443, 8081} <= {port["port"] for rule in egress for port in rule["ports"]}


def test_selectors_find_the_pods() -> None:
    labels = find_one("Deployment")["spec"]["template"]["metadata"]["labels"]
    for selector in (find_one("Deployment")["spec"]["selector"]["matchLabels"], find_one("Service")["spec"]["selector"],
                     find_one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]):  # fmt: skip
        assert selector.items() <= labels.items()


def test_containers_run_as_the_images_user_with_limits_and_without_rights() -> None:
    user = re.search(r"useradd --uid (\d+)", (ROOT / "deploy" / "Dockerfile").read_text())
    assert user
    assert find_pod()["securityContext"]["runAsUser"] == VALUES["uid"] == int(user[1])
    assert find_pod()["securityContext"]["runAsNonRoot"]
    for container in find_pod()["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {"memory"} <= set(container["resources"]["limits"]), container["name"]


def test_images_have_a_tag_and_are_those_of_the_compose_file() -> None:
    tags = {image["name"]: image["newTag"] for image in SET["images"]}
    assert {container["image"] for container in find_pod()["containers"]} == set(tags)
    compose = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
    assert compose["spark-connect"]["image"] == f"tidegate/spark:{tags['tidegate/spark']}"
    assert compose["airflow-scheduler"]["image"].rpartition(":")[2] == VALUES["images"]["airflow"]["tag"]


def test_image_has_what_the_chart_calls_in_it_and_the_rest_is_switched_off() -> None:
    """The chart is made for Airflow's own image: its probes run /entrypoint there, its sidecars /clean-logs."""
    stages = dict(split_stages((ROOT / "deploy" / "Dockerfile").read_text()))
    copied = [words.split()[-2:] for word, words in stages["airflow"][1] if word == "COPY"]
    assert ["deploy/airflow/entrypoint.sh", "/entrypoint"] in copied
    for component in ("scheduler", "dagProcessor", "triggerer"):
        assert VALUES[component]["logGroomerSidecar"] == {"enabled": False}, component


def test_manual_makes_the_namespace_before_anything_is_put_into_it() -> None:
    manual, namespace = (FOLDER / "README.md").read_text(), SET["namespace"]
    made_at = manual.find(f"kubectl create namespace {namespace}")
    assert 0 <= made_at < manual.find(f"-n {namespace}")


def test_chart_that_is_named_knows_each_word_of_the_values() -> None:
    """Helm refuses a word that the chart has not. `createUserJob.enabled` came after 1.18: apache/airflow#56057."""
    text = (FOLDER / "airflow-values.yaml").read_text()
    (version,) = re.findall(r"apache-airflow/airflow, (\d+)\.(\d+) or newer", text)
    assert "enabled" in VALUES["createUserJob"]
    assert tuple(map(int, version)) >= (1, 19)


def test_airflow_logs_people_in_by_what_the_image_has() -> None:
    """The chart's default is FAB, with a user admin of the password admin; the image has no provider of that name."""
    assert "apache-airflow-providers-fab" not in (ROOT / "requirements.txt").read_text()
    module, _, name = VALUES["config"]["core"]["auth_manager"].rpartition(".")
    assert hasattr(import_module(module), name)
    assert VALUES["createUserJob"] == {"enabled": False}
    server = VALUES["apiServer"]
    start = (ROOT / "deploy" / "airflow" / "api-server.sh").read_text()
    (password,) = server["extraVolumeMounts"]
    assert password["mountPath"] in start
    assert server["args"] == ["api-server.sh"]
    environment = {entry["name"]: entry["value"] for entry in VALUES["env"]}
    compose = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["x-airflow-environment"]
    for name in ("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"):
        assert environment[name] == compose[name]
    assert "TIDEGATE_METRICS_TOKEN" in {entry["envName"] for entry in VALUES["secret"]}


def test_examples_are_files_that_the_product_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tidegate.cli.main import main

    assert set(load_catalogs(FOLDER)) == {"lake"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_INCLUDE", str(FOLDER))
        assert main(["validate"]) == 0, capsys.readouterr()
