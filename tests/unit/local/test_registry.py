"""The schema registry of a stack, and programs that are one file: fetched whole, verified, started on this machine."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from local import artifact, setup
from local.errors import StackError
from local.layout import RunDir
from local.registry import archive, server


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """The lock of an archive that a Maven of this test's brings."""
    (tmp_path / "app-runner.jar").write_bytes(b"program")
    with tarfile.open(tmp_path / "served", "w:gz") as packed:
        packed.add(tmp_path / "app-runner.jar", "app-runner.jar")
    file = tmp_path / "artifact.sha256"
    digest = hashlib.sha256((tmp_path / "served").read_bytes()).hexdigest()
    file.write_text(f"# why\n{digest}  io.example:app:1.0:tar.gz:all\n")
    return file


def serve(monkeypatch: pytest.MonkeyPatch, source: Path) -> list[list[str]]:
    """Let Maven bring this file; its command lines."""
    commands: list[list[str]] = []

    def run(answer: str, command: list[str]) -> None:
        commands.append(command)
        place = next(word.partition("=")[2] for word in command if word.startswith("-Ddest="))
        Path(place).write_bytes(source.read_bytes())

    monkeypatch.setattr(setup, "run_command", run)
    return commands


def test_archive_is_fetched_verified_and_unpacked_once(lock, tmp_path, monkeypatch) -> None:
    commands = serve(monkeypatch, tmp_path / "served")
    monkeypatch.setattr(archive, "LOCK_FILE", lock)
    monkeypatch.setattr(archive, "FOLDER", tmp_path / "program")
    assert not archive.is_built()
    assert archive.build_program()
    assert archive.is_built()
    assert archive.find_program().read_bytes() == b"program"
    assert not list((tmp_path / "program").glob("*.tar.gz"))
    assert not archive.build_program()
    assert len(commands) == 1
    assert "-Dartifact=io.example:app:1.0:tar.gz:all" in commands[0]


def test_file_that_is_not_the_locked_one_is_not_kept(lock, tmp_path, monkeypatch) -> None:
    (tmp_path / "other").write_bytes(b"another")
    serve(monkeypatch, tmp_path / "other")
    with pytest.raises(setup.SetupError, match=r"app:1\.0:tar\.gz:all sha256=\w+ is not the locked"):
        artifact.fetch_artifact(lock, tmp_path / "program")
    assert list((tmp_path / "program").iterdir()) == []


def test_registry_listens_on_this_machine_alone_and_keeps_its_schemas_in_a_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(archive, "is_built", lambda: True)
    monkeypatch.setattr(archive, "find_program", lambda: Path("/programs/app-runner.jar"))
    registry_server = server.build_server(RunDir(tmp_path), 5)
    assert registry_server.command[-2:] == ("-jar", "/programs/app-runner.jar")
    assert (registry_server.env["QUARKUS_HTTP_HOST"], registry_server.env["QUARKUS_HTTP_PORT"]) == ("127.0.0.1", "5")
    assert registry_server.env["APICURIO_DATASOURCE_URL"] == f"jdbc:h2:file:{tmp_path}/registry/schemas"
    variables = server.build_variables(5)
    assert variables["REGISTRY_URL"] == "http://127.0.0.1:5/apis/ccompat/v7"
    assert json.loads(variables["AIRFLOW_CONN_SCHEMA_REGISTRY_DEFAULT"])["extra"]["url"] == variables["REGISTRY_URL"]


def test_registry_that_was_not_fetched_is_one_line(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(archive, "is_built", lambda: False)
    with pytest.raises(StackError, match=r"^registry: .* run make setup WITH=registry$"):
        server.build_server(RunDir(tmp_path), 1)
