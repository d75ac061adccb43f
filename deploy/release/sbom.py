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
    """What lies in the wheel itself: the chart library of the operator's page."""
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
    locked = subprocess.run([sys.executable, *files], check=True, capture_output=True, text=True).stdout
    return {normalize(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", locked, re.MULTILINE)}


def read_locked_jars() -> dict[str, str]:
    """SHA-256 of each jar by its package URL."""
    found = {}
    for line in (JARS / "jars.sha256").read_text().splitlines():
        if not line.startswith("#"):
            digest, place = line.split()
            *group, artifact, version, _ = place.split("/")
            found[f"pkg:maven/{'.'.join(group)}/{artifact}@{version}?type=jar"] = digest
    return found


def select_packages(components: Iterable[Bom], names: set[str]) -> list[Bom]:
    """The components of these names."""
    return [one for one in components if normalize(one["name"]) in names]


def select_jars(components: Iterable[Bom], locked: Mapping[str, str]) -> list[Bom]:
    """The components that are locked; ValueError where one is missing, or another file than the locked one."""
    chosen = [one for one in components if one["purl"] in locked]
    hashes = {one["purl"]: {h["content"] for h in one["hashes"] if h["alg"] == "SHA-256"} for one in chosen}
    wrong = sorted(purl for purl, digest in locked.items() if digest not in hashes.get(purl, ()))
    if wrong:
        raise ValueError(f"not the jars that are locked: {', '.join(wrong)}; run make lock")
    return chosen


def join_boms(python: Bom, packages: list[Bom], jars: Bom, locked: list[Bom], vendored: list[Bom]) -> Bom:
    """One BOM of all: the product needs its packages, as its environment says, the locked jars, and what it vendors."""
    components = [*packages, *locked, *vendored]
    kept = {one["bom-ref"] for one in components}
    root = python["metadata"]["component"]["bom-ref"]
    needs = {
        one["ref"]: sorted(kept & set(one.get("dependsOn", ())))
        for bom in (python, jars)
        for one in bom["dependencies"]
    }
    needed = {ref for ref in kept for ref in needs.get(ref, ())}
    graph = {root: sorted(kept - needed), **{ref: needs.get(ref, []) for ref in sorted(kept)}}
    tools = [*python["metadata"]["tools"]["components"], *jars["metadata"]["tools"]["components"]]
    return {
        **{name: python[name] for name in ("$schema", "bomFormat", "specVersion", "version")},
        "metadata": {"component": python["metadata"]["component"], "tools": {"components": tools}},
        "components": sorted(components, key=lambda one: str(one["bom-ref"])),
        "dependencies": [{"ref": ref, "dependsOn": refs} for ref, refs in graph.items()],
    }


def list_licences(component: Bom) -> str:
    """The licences that a component declares."""
    found = [
        one.get("expression") or one["license"].get("id") or one["license"]["name"]
        for one in component.get("licenses", ())
    ]
    return ", ".join(dict.fromkeys(name.splitlines()[0] for name in found)) or "not declared"


def format_notices(bom: Bom) -> str:
    """Name, version and licences of each component, as Markdown."""
    rows = []
    for one in bom["components"]:
        name = f"{one['group']}:{one['name']}" if one.get("group") else one["name"]
        rows.append(f"| {name} | {one['version']} | {list_licences(one)} |")
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
