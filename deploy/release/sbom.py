"""Writes what a release carries: ``sbom.py PYTHON FOLDER`` makes `sbom.json` (CycloneDX) and `third-party.md`.

`cyclonedx-py` describes the environment of that Python, CycloneDX's Maven plugin Spark's jars. Here both are cut down
to what is locked for users, without what only tests and the local stack need, and joined. The result is checked by its
schema. It runs in an environment of its own, that of `requirements.txt` beside this file.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / "local" / "jars" / "spark"
VENDOR = ROOT / "plugins" / "tidegate_airflow" / "web" / "static" / "vendor"
MAVEN_GOAL = "org.cyclonedx:cyclonedx-maven-plugin:2.9.1:makeBom"
Bom = dict[str, Any]


def normalize(name: str) -> str:
    """A Python package's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def describe_python(python: Path) -> Bom:
    """All packages of the environment of this interpreter, with licences and what each needs."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    command += ["--pyproject", str(ROOT / "pyproject.toml"), str(python)]
    bom: Bom = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return bom


def describe_jars() -> Bom:
    """All jars that Maven resolves for Spark, also those that Spark brings itself."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["mvn", "-B", "-ntp", "-q", "-f", str(JARS / "pom.xml"), MAVEN_GOAL, "-DoutputFormat=json"]
        subprocess.run([*command, "-DoutputName=jars", f"-DoutputDirectory={folder}"], check=True)
        bom: Bom = json.loads((Path(folder) / "jars.json").read_text())
        return bom


def describe_vendored() -> list[Bom]:
    """The files of others that are in the wheel itself: the chart library of the operator's page."""
    (script,) = VENDOR.glob("uplot-*.min.js")
    version = script.name.removeprefix("uplot-").removesuffix(".min.js")
    purl = f"pkg:npm/uplot@{version}"
    licences = [{"license": {"id": "MIT"}}]
    return [
        {"bom-ref": purl, "type": "library", "name": "uplot", "version": version, "purl": purl, "licenses": licences}
    ]


def read_runtime_names() -> set[str]:
    """The packages of the lock that users get."""
    files = [str(ROOT / name) for name in ("deploy/airflow/runtime.py", "requirements.in", "requirements.txt")]
    locked_text = subprocess.run([sys.executable, *files], check=True, capture_output=True, text=True).stdout
    return {normalize(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", locked_text, re.MULTILINE)}


def read_locked_jars() -> dict[str, str]:
    """SHA-256 of each jar by its package URL."""
    digests = {}
    for line in (JARS / "jars.sha256").read_text().splitlines():
        if not line.startswith("#"):
            digest, place = line.split()
            *group, artifact, version, _ = place.split("/")
            digests[f"pkg:maven/{'.'.join(group)}/{artifact}@{version}?type=jar"] = digest
    return digests


def select_packages(components: Iterable[Bom], names: set[str]) -> list[Bom]:
    """The components of these names."""
    return [component for component in components if normalize(component["name"]) in names]


def select_jars(components: Iterable[Bom], locked_digests: Mapping[str, str]) -> list[Bom]:
    """The components that are locked; ValueError where one is missing, or another file than the locked one."""
    jars = [component for component in components if component["purl"] in locked_digests]
    hashes = {jar["purl"]: {h["content"] for h in jar["hashes"] if h["alg"] == "SHA-256"} for jar in jars}
    mismatches = sorted(purl for purl, digest in locked_digests.items() if digest not in hashes.get(purl, ()))
    if mismatches:
        raise ValueError(f"not the jars that are locked: {', '.join(mismatches)}; run make lock")
    return jars


def join_boms(python: Bom, packages: list[Bom], jars: Bom, locked_components: list[Bom], vendored: list[Bom]) -> Bom:
    """One BOM of all: the product needs its packages, as its environment says, the locked jars, and what it vendors."""
    components = [*packages, *locked_components, *vendored]
    refs = {component["bom-ref"] for component in components}
    root = python["metadata"]["component"]["bom-ref"]
    needs = {
        dependency["ref"]: sorted(refs & set(dependency.get("dependsOn", ())))
        for bom in (python, jars)
        for dependency in bom["dependencies"]
    }
    needed_refs = {ref for ref in refs for ref in needs.get(ref, ())}
    graph = {root: sorted(refs - needed_refs), **{ref: needs.get(ref, []) for ref in sorted(refs)}}
    tools = [*python["metadata"]["tools"]["components"], *jars["metadata"]["tools"]["components"]]
    return {
        **{name: python[name] for name in ("$schema", "bomFormat", "specVersion", "version")},
        "metadata": {"component": python["metadata"]["component"], "tools": {"components": tools}},
        "components": sorted(components, key=lambda component: str(component["bom-ref"])),
        "dependencies": [{"ref": ref, "dependsOn": refs} for ref, refs in graph.items()],
    }


def list_licences(component: Bom) -> str:
    """The licences that a component declares."""
    names = [
        licence.get("expression") or licence["license"].get("id") or licence["license"]["name"]
        for licence in component.get("licenses", ())
    ]
    return ", ".join(dict.fromkeys(name.splitlines()[0] for name in names)) or "not declared"


def format_notices(bom: Bom) -> str:
    """Name, version and licences of each component, as Markdown."""
    rows = []
    for component in bom["components"]:
        name = f"{component['group']}:{component['name']}" if component.get("group") else component["name"]
        rows.append(f"| {name} | {component['version']} | {list_licences(component)} |")
    head = "# Third-party software\n\nWhat an installation uses, by the lock. The wheel itself holds uPlot only.\n"
    return "\n".join([head, "| component | version | licences |", "| --- | --- | --- |", *rows, ""])


def check_schema(text: str) -> None:
    """ValueError where the text is no CycloneDX."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    if problem := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"the SBOM does not fit its schema: {problem}")


def main(interpreter: Path, folder: Path) -> None:
    """Write both files into the folder."""
    python, jars = describe_python(interpreter), describe_jars()
    packages = select_packages(python["components"], read_runtime_names())
    bom = join_boms(python, packages, jars, select_jars(jars["components"], read_locked_jars()), describe_vendored())
    text = json.dumps(bom, indent=1, sort_keys=True) + "\n"
    check_schema(text)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sbom.json").write_text(text)
    (folder / "third-party.md").write_text(format_notices(bom))
    print(f"sbom: {len(bom['components'])} components: {folder / 'sbom.json'}, {folder / 'third-party.md'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
