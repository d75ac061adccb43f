"""The SBOM holds what users get: locked packages and jars, what needs what, and no tool of the tests."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
specification = importlib.util.spec_from_file_location("sbom", ROOT / "deploy" / "release" / "sbom.py")
sbom = importlib.util.module_from_spec(specification)
specification.loader.exec_module(sbom)


def build_tools(name: str) -> dict[str, Any]:
    return {"components": [{"type": "application", "name": name}]}


BSD = [{"expression": "BSD-3-Clause"}]
PYTHON = {
    "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
    "bomFormat": "CycloneDX",
    "specVersion": "1.6",
    "version": 1,
    "metadata": {
        "component": {"bom-ref": "root", "type": "application", "name": "tidegate"},
        "tools": build_tools("a"),
    },
    "components": [
        {"bom-ref": "Jinja2==3", "type": "library", "name": "Jinja2", "version": "3", "licenses": BSD},
        {"bom-ref": "markup_safe==2", "type": "library", "name": "markup_safe", "version": "2"},
        {"bom-ref": "pytest==9", "type": "library", "name": "pytest", "version": "9"},
    ],
    "dependencies": [
        {"ref": "Jinja2==3", "dependsOn": ["markup_safe==2"]},
        {"ref": "pytest==9", "dependsOn": ["Jinja2==3"]},
    ],
}  # fmt: skip


def build_jar(purl: str, digest: str) -> dict[str, Any]:
    name, version = purl.rpartition("/")[2].partition("?")[0].split("@")
    licences = [{"license": {"id": "Apache-2.0"}}]
    hashes = [{"alg": "SHA-256", "content": digest}, {"alg": "SHA-1", "content": "0" * 40}]
    return {"bom-ref": purl, "purl": purl, "type": "library", "group": "org.a", "name": name, "version": version,
            "hashes": hashes, "licenses": licences}  # fmt: skip


ONE_PURL, OTHER_PURL = "pkg:maven/org.a/one@1?type=jar", "pkg:maven/org.a/provided@1?type=jar"
JARS = {
    "metadata": {"tools": build_tools("b")},
    "components": [build_jar(ONE_PURL, "1" * 64), build_jar(OTHER_PURL, "2" * 64)],
    "dependencies": [{"ref": ONE_PURL, "dependsOn": [OTHER_PURL]}],
}


def test_joined_bom_is_valid_and_holds_what_is_locked_for_users() -> None:
    packages = sbom.select_packages(PYTHON["components"], {"jinja2", "markup-safe"})
    jars = sbom.select_jars(JARS["components"], {ONE_PURL: "1" * 64})
    boms = sbom.join_boms(PYTHON, packages, JARS, jars, sbom.describe_vendored())
    sbom.check_schema(json.dumps(boms))
    uplot = "pkg:npm/uplot@1.6.32"
    assert {component["bom-ref"] for component in boms["components"]} == {
        "Jinja2==3",
        "markup_safe==2",
        ONE_PURL,
        uplot,
    }
    assert {dependency["ref"]: dependency["dependsOn"] for dependency in boms["dependencies"]} == {
        "root": sorted(["Jinja2==3", ONE_PURL, uplot]),
        "Jinja2==3": ["markup_safe==2"],
        "markup_safe==2": [],
        ONE_PURL: [],
        uplot: [],
    }
    notices = sbom.format_notices(boms)
    for row in (
        "| Jinja2 | 3 | BSD-3-Clause |",
        "| markup_safe | 2 | not declared |",
        "| org.a:one | 1 | Apache-2.0 |",
    ):
        assert row in notices


def test_jar_that_is_missing_or_another_file_is_refused() -> None:
    for locked_digests in ({ONE_PURL: "f" * 64}, {"pkg:maven/org.a/gone@1?type=jar": "1" * 64}):
        with pytest.raises(ValueError, match=r"not the jars that are locked: pkg:maven/org\.a/"):
            sbom.select_jars(JARS["components"], locked_digests)


def test_text_that_is_no_bom_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit its schema"):
        sbom.check_schema(json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"name": "x"}]}))


def test_users_get_the_product_s_packages_and_no_tool_of_the_tests() -> None:
    names = sbom.read_runtime_names()
    assert {"pyiceberg", "apache-airflow", "confluent-kafka", "pydantic", "argcomplete"} <= names
    assert not {"pytest", "ruff", "playwright", "hatchling", "cyclonedx-bom"} & names


def test_every_locked_jar_has_its_package_url() -> None:
    jars = sbom.read_locked_jars()
    assert len(jars) == len(list((ROOT / ".cache" / "jars" / "spark").glob("*.jar")))
    assert "pkg:maven/org.apache.iceberg/iceberg-spark-runtime-4.1_2.13@1.12.0?type=jar" in jars


def test_lock_has_nothing_that_slows_each_process_down() -> None:
    """jsonschema imports it where it is installed, and it compiles 38 grammars then; Airflow imports jsonschema."""
    assert "rfc3987-syntax" in (ROOT / "deploy" / "release" / "requirements.txt").read_text()
    assert "rfc3987-syntax" not in (ROOT / "requirements.txt").read_text()
