"""Owns programs that Maven keeps as one file with all that it needs: fetched without its POM, and kept only if locked.

Maven's newer goals would ask for the parents of that POM, which not every mirror has, and for dependencies that are in
the file. Runs on a plain system Python, so it imports nothing but the standard library.
"""

import hashlib
import shutil
from pathlib import Path

from local import setup

# the last line of the plugin that fetches a file by its coordinates alone, and puts it where it is asked to
GET = "org.apache.maven.plugins:maven-dependency-plugin:2.8:get"


def fetch_artifact(lock_file: Path, folder: Path) -> Path:
    """Fetch the locked file into the folder, which then has no other file; SetupError if Maven's file differs."""
    digest, artifact = read_lock(lock_file)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file = folder / name_file(artifact)
    get = ["mvn", "-B", "-q", GET, f"-Dartifact={artifact}", "-Dtransitive=false", f"-Ddest={file}"]
    with setup.MAVEN:
        setup.run_command(f"fetch {artifact}", get)
    with file.open("rb") as content:
        actual_digest = hashlib.file_digest(content, "sha256").hexdigest()
    if actual_digest != digest:
        file.unlink()
        raise setup.SetupError(
            f"artifact={artifact} sha256={actual_digest} is not the locked one, sha256={digest}: "
            "look at what Maven's mirror serves, and remove it from ~/.m2/repository"
        )
    return file


def read_lock(lock_file: Path) -> tuple[str, str]:
    """SHA-256 and Maven's coordinates, `group:name:version:kind:classifier`, of the one file."""
    (line,) = (line for line in lock_file.read_text().splitlines() if not line.startswith("#"))
    digest, artifact = line.split()
    return digest, artifact


def name_file(artifact: str) -> str:
    """The name of the file in a Maven repository."""
    _, name, version, kind, classifier = artifact.split(":")
    return f"{name}-{version}-{classifier}.{kind}"
