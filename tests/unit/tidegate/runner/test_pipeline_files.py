"""Files that are read together again and again, for as long as a process lives."""

import shutil
from pathlib import Path

import pytest
from fakes.clock import SteppedTime
from tidegate.config import pipeline_file, publication_file
from tidegate.errors import ConfigurationError
from tidegate.runner import pipeline_files
from tidegate.runner.pipeline_files import LOOK_SECONDS, PipelineFiles, PublicationFiles
from tidegate.settings import find_include_folder, list_named_files

CATALOGS = "lake: {type: iceberg, properties: {type: rest, uri: 'http://localhost:1'}}\n"
PIPELINE = """
source:
  topics: [{name}]
  key: {{format: json, fields: [id], schema: id BIGINT}}
  value: {{format: json, schema: 'id BIGINT, name STRING'}}
tables: [{{name: lake.shop.{name}}}]
"""
PUBLICATION = "table: lake.shop.orders\ntopic: {name}\nkey: {{fields: [id]}}\n"
KINDS = {
    "pipelines": (PipelineFiles, PIPELINE, pipeline_file, "load_pipeline"),
    "publications": (PublicationFiles, PUBLICATION, publication_file, "load_publication"),
}
FILE_COUNT = 40


def count_frames(problem: BaseException) -> int:
    count, at = 0, problem.__traceback__
    while at is not None:
        count, at = count + 1, at.tb_next
    return count


def ask(files: PipelineFiles | PublicationFiles, name: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as error_info:
        files.load(name)
    return error_info.value


def test_file_that_is_wrong_for_days_leaves_nothing_behind_each_time_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "catalogs.yaml").write_text("lake: {type: iceberg, properties: {type: sql, uri: x, warehouse: y}}\n")
    for name in ("one", "two"):
        (tmp_path / "pipelines" / f"{name}.yaml").write_text(f"colour: {name}\n")
    files = PipelineFiles(tmp_path)
    first = {name: (str(ask(files, name)), count_frames(ask(files, name))) for name in ("one", "two")}
    assert "colour" in first["one"][0]
    for _ in range(50):
        last = {name: ask(files, name) for name in ("one", "two")}
    assert {name: (str(problem), count_frames(problem)) for name, problem in last.items()} == first
    assert last["one"].problems


@pytest.mark.parametrize("kind", KINDS)
def test_many_that_ask_one_after_the_other_have_each_file_read_once_and_hardly_looked_at(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, text, module, load = KINDS[kind]
    (tmp_path / kind).mkdir()
    (tmp_path / "catalogs.yaml").write_text(CATALOGS)
    names = [f"one{number}" for number in range(FILE_COUNT)]
    for name in names:
        (tmp_path / kind / f"{name}.yaml").write_text(text.format(name=name))
    clock, read_files, stamps = SteppedTime(), list[Path](), list[Path]()
    load_one, stamp = getattr(module, load), pipeline_files.read_file_stamp
    monkeypatch.setattr(pipeline_files, "time", clock)
    monkeypatch.setattr(module, load, lambda file, *arguments: read_files.append(file) or load_one(file, *arguments))
    monkeypatch.setattr(pipeline_files, "read_file_stamp", lambda file: stamps.append(file) or stamp(file))
    files = make(tmp_path)
    assert [files.load(name).name for name in names] == names
    assert len(read_files) == FILE_COUNT
    assert len(stamps) <= 4 * FILE_COUNT
    clock.seconds += LOOK_SECONDS
    assert [files.load(name).name for name in names] == names
    assert len(read_files) == FILE_COUNT


@pytest.mark.parametrize("kind", KINDS)
def test_change_is_seen_at_once_by_whom_it_is_of_and_a_moment_later_by_the_others(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, text, *_ = KINDS[kind]
    (tmp_path / kind).mkdir()
    (tmp_path / "catalogs.yaml").write_text(CATALOGS)
    for name in ("first", "second"):
        (tmp_path / kind / f"{name}.yaml").write_text(text.format(name=name))
    clock = SteppedTime()
    monkeypatch.setattr(pipeline_files, "time", clock)
    files = make(tmp_path)
    files.load("second")
    (tmp_path / kind / "first.yaml").write_text("colour: red\n")
    assert "colour" in str(ask(files, "first"))
    (tmp_path / kind / "first.yaml").write_text(text.format(name="third"))
    (tmp_path / kind / "third.yaml").write_text(text.format(name="fourth"))
    assert files.load("third").name == "third"
    (tmp_path / "catalogs.yaml").write_text("lake: {type: ice}\n")
    assert "ice" in str(ask(files, "second"))
    (tmp_path / "catalogs.yaml").write_text(CATALOGS)
    (tmp_path / kind / "first.yaml").unlink()
    clock.seconds += LOOK_SECONDS
    assert files.load("second").name == "second"
    assert f"first: no such {kind.removesuffix('s')}" in str(ask(files, "first"))


def test_folder_behind_a_link_that_is_pointed_to_another_one_is_read_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As git-sync does it, which then removes the folder of the version before."""
    for version, names in (("one", ("orders",)), ("two", ("orders", "lines"))):
        (tmp_path / version / "pipelines").mkdir(parents=True)
        (tmp_path / version / "catalogs.yaml").write_text(CATALOGS)
        for name in names:
            text = f"description: {version}{PIPELINE.format(name=name)}"
            (tmp_path / version / "pipelines" / f"{name}.yaml").write_text(text)
    link = tmp_path / "current"
    link.symlink_to("one")
    monkeypatch.setattr(pipeline_files, "time", clock := SteppedTime())
    include = find_include_folder({"TIDEGATE_INCLUDE": str(link)})
    files = PipelineFiles(include)
    assert files.load("orders").description == "one"
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(link)
    shutil.rmtree(tmp_path / "one")
    clock.seconds += LOOK_SECONDS
    assert files.load("orders").description == "two"
    assert files.load("lines").tables[0].name == "lake.shop.lines"
    assert [file.stem for file in list_named_files(include / "pipelines")] == ["lines", "orders"]
