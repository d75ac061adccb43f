"""Pipeline files that are read together again and again, for as long as a process lives."""

from pathlib import Path

import pytest
from tidegate.errors import ConfigurationError
from tidegate.runner.pipeline_files import PipelineFiles


def count_frames(problem: BaseException) -> int:
    count, at = 0, problem.__traceback__
    while at is not None:
        count, at = count + 1, at.tb_next
    return count


def ask(files: PipelineFiles, name: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as found:
        files.load(name)
    return found.value


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
