"""Jars are kept when they are the locked ones, all of them and no other."""

import errno
import hashlib
import json
import os
import re
from pathlib import Path

import pytest
from tidegate.cli.commands import install
from tidegate.cli.main import main
from tidegate.errors import ConfigurationError, RetryLater

ROOT = Path(__file__).parents[4]
SOURCE = ROOT / "local" / "jars" / "spark"
PLACES = {"org/a/one/1/one-1.jar": b"first", "org/b/two/2/two-2.jar": b"second"}


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    """A folder with a POM and a lock of two jars, and an `mvn` that lays out what lies in `served`."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "pom.xml").write_text("<project/>")
    lines = [f"{hashlib.sha256(data).hexdigest()}  {place}\n" for place, data in PLACES.items()]
    (folder / "jars.sha256").write_text("# a comment\n" + "".join(lines))
    serve(tmp_path, PLACES)
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(
        "#!/usr/bin/env bash\n"
        f'[ -d {tmp_path}/served ] || {{ echo "[INFO] x"; echo "[ERROR] cannot reach the mirror"; exit 1; }}\n'
        f'for word in "$@"; do case $word in -DoutputDirectory=*) cp -r {tmp_path}/served "${{word#*=}}";; esac; done\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return folder


def serve(folder: Path, files: dict[str, bytes]) -> None:
    for place, data in files.items():
        path = folder / "served" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def test_steps_behind_an_installation_name_pages_and_commands_as_they_can_be_opened_and_typed(
    tmp_path, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(install, "is_checkout", lambda: False)
    monkeypatch.setattr("tidegate.monitoring.runbook.is_checkout", lambda: False)
    monkeypatch.setattr("tidegate.monitoring.runbook.find_product_folder", lambda: tmp_path / "product")
    monkeypatch.setenv("TIDEGATE_COMMAND", "/venv/bin/tidegate")
    folders = ["--dags-folder", str(tmp_path / "dags"), "--include", str(tmp_path / "include")]
    assert main(["airflow", "install", *folders]) == 0
    steps = capsys.readouterr().out.partition("next:")[2]
    assert f"give Spark its jars: {tmp_path}/product/docs/install.md, or `/venv/bin/tidegate jars`" in steps
    assert "propose them with: /venv/bin/tidegate init --topic TOPIC" in steps
    assert "check them: /venv/bin/tidegate validate" in steps


def fetch(source: Path, into: Path) -> int:
    return main(["jars", "--from", str(source), "--into", str(into), "--json"])


def test_jars_are_fetched_once_and_verified_each_time(source, tmp_path, capsys) -> None:
    into = tmp_path / "new" / "jars"
    assert fetch(source, into) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == {"folder": str(into), "jars": ["one-1.jar", "two-2.jar"], "fetched": True}
    assert {path.name: path.read_bytes() for path in into.glob("*.jar")} == {
        "one-1.jar": b"first",
        "two-2.jar": b"second",
    }
    assert fetch(source, into) == 0
    assert json.loads(capsys.readouterr().out)["fetched"] is False
    (into / "one-1.jar").write_bytes(b"changed since")
    (into / "old-0.jar").write_bytes(b"of an older version")
    assert fetch(source, into) == 0
    assert json.loads(capsys.readouterr().out)["fetched"] is True
    assert {path.name for path in into.glob("*.jar")} == {"one-1.jar", "two-2.jar"}
    assert (into / "one-1.jar").read_bytes() == b"first"


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"org/a/one/1/one-1.jar": b"forged"}, "another checksum: org/a/one/1/one-1.jar sha256="),
        ({"org/c/three/3/three-3.jar": b"more"}, "not locked: org/c/three/3/three-3.jar"),
    ],
)
def test_jar_that_is_not_the_locked_one_is_refused_and_none_is_kept(source, tmp_path, capsys, files, problem) -> None:
    serve(tmp_path, files)
    assert fetch(source, tmp_path / "jars") == 1
    output = capsys.readouterr()
    assert problem in output.err
    assert "none was kept" in output.err
    assert not (tmp_path / "jars").exists()


def test_folder_of_others_is_left_alone(source, tmp_path, capsys) -> None:
    spark = tmp_path / "spark" / "jars"
    spark.mkdir(parents=True)
    (spark / "spark-core.jar").write_bytes(b"Spark's own")
    assert fetch(source, spark) == 1
    assert f"folder={spark}: it holds files that are not of tidegate jars; name a new folder" in capsys.readouterr().err
    assert [path.name for path in spark.iterdir()] == ["spark-core.jar"]


@pytest.mark.parametrize("place", ["file", "file/jars", "full/jars"])
def test_folder_that_takes_no_file_is_one_line(source, tmp_path, capsys, monkeypatch, place) -> None:
    (tmp_path / "file").write_text("no folder")
    make_temporary = install.tempfile.mkdtemp

    def refuse(suffix=None, prefix=None, dir=None):
        if dir is not None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return make_temporary(suffix, prefix, dir)

    monkeypatch.setattr(install.tempfile, "mkdtemp", refuse)
    assert fetch(source, tmp_path / place) == 1
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert line.startswith(f"folder={tmp_path / place}: the jars cannot be put there: "), line
    assert line.endswith("; name another folder with --into"), line
    assert (tmp_path / "file").read_text() == "no folder"


def test_machine_without_maven_and_mirror_that_fails_are_told_in_a_line(source, tmp_path, monkeypatch) -> None:
    (tmp_path / "served").rename(tmp_path / "gone")
    with pytest.raises(
        RetryLater, match="Maven failed, exit_code=1: cannot reach the mirror; run it again, or let Spark"
    ):
        install.download_jars(source / "pom.xml", tmp_path / "out")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(ConfigurationError, match="mvn was not found: install Maven and a JDK, or let Spark fetch them"):
        install.download_jars(source / "pom.xml", tmp_path / "out")


@pytest.mark.parametrize("text", [None, "only-one-word\n"])
def test_broken_lock_is_named(source, tmp_path, capsys, text) -> None:
    (source / "jars.sha256").unlink() if text is None else (source / "jars.sha256").write_text(text)
    assert fetch(source, tmp_path / "jars") == 1
    assert f"file={source / 'jars.sha256'}: not a list of checksums" in capsys.readouterr().err


def test_jars_of_this_environment_are_the_locked_ones() -> None:
    fetched = [folder.name for folder in (ROOT / ".cache" / "jars").iterdir() if (folder / install.MARK).exists()]
    assert {"spark", "kafka"} <= set(fetched)
    for name in fetched:
        locked_jars = install.flatten(install.read_lock(ROOT / "local" / "jars" / name / "jars.sha256"))
        assert install.compare_jars(install.hash_jars(ROOT / ".cache" / "jars" / name), locked_jars) == []


def test_manual_names_the_packages_that_are_locked() -> None:
    """As `spark.jars.packages` takes them: those of the POM itself."""
    package_names = set(re.findall(r"[\w.]+:[\w.-]+:\d[\w.]*", (ROOT / "docs" / "install.md").read_text()))
    pom = (SOURCE / "pom.xml").read_text()
    versions = {"${spark.version}": "4.1.1", "${scala.line}": "2.13"}
    for variable, value in versions.items():
        assert f">{value}<" in pom
        pom = pom.replace(variable, value)
    declared_packages = re.findall(
        r"<groupId>([^<]+)</groupId>\s*<artifactId>([^<]+)</artifactId>\s*<version>([^<]+)</version>",
        pom.partition("</dependencyManagement>")[2].partition("</dependencies>")[0],
    )
    assert len(declared_packages) == 5
    assert {":".join(package) for package in declared_packages} == {
        name for name in package_names if "aws-bundle" not in name
    }
