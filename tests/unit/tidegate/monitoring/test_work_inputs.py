"""What a person may change so that work which failed is tried again at once: each of it changes the digest, no more."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.flush.flush import flush
from tidegate.model.table_state import TableState
from tidegate.monitoring.failure_streak import digest_work_inputs
from tidegate.ports.session import Session

TABLES = ("lake.shop.left", "lake.shop.right")
PIPELINE = build_pipeline(build_table(TABLES[0], topics=("left",)), build_table(TABLES[1], topics=("right",)))


@pytest.fixture
def world() -> World:
    world = World()
    for topic in ("left", "right"):
        world.broker.create(topic, 2)
        for partition in range(2):
            world.broker.produce(topic, {"id": f"{partition}"}, {"id": f"{partition}", "name": topic}, partition)
    flush(world.open_session(PIPELINE))
    return world


@pytest.fixture
def include(tmp_path: Path) -> Path:
    for folder in ("pipelines", "publications", "schemas"):
        (tmp_path / folder).mkdir()
    (tmp_path / "catalogs.yaml").write_text("lake: {}")
    for name in (PIPELINE.name, "other"):
        (tmp_path / "pipelines" / f"{name}.yaml").write_text("tables: []")
    (tmp_path / "publications" / "out.yaml").write_text("topic: out")
    (tmp_path / "schemas" / "row.avsc").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("folder", "file", "changes"),
    [
        ("pipelines", f"{PIPELINE.name}.yaml", True),
        ("pipelines", "other.yaml", False),
        ("publications", "out.yaml", False),
        ("", "catalogs.yaml", True),
        ("schemas", "row.avsc", True),
        ("schemas", "new.avsc", True),
    ],
)
def test_file_counts_where_the_pipeline_may_read_it(
    world: World, include: Path, folder: str, file: str, changes: bool
) -> None:
    before = digest_work_inputs(world.open_session(PIPELINE), include)
    assert digest_work_inputs(world.open_session(PIPELINE), include) == before
    (include / folder / file).write_text("something else")
    assert (digest_work_inputs(world.open_session(PIPELINE), include) != before) is changes


def mount(folder: Path, version: str, texts: dict[str, str]) -> None:
    """Files of a ConfigMap as Kubernetes mounts them: links through a hidden folder with another name each time."""
    (folder / version).mkdir()
    for name, text in texts.items():
        (folder / version / name).write_text(text)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data", name))
    (folder / "..data").unlink(missing_ok=True)
    (folder / "..data").symlink_to(version)


@pytest.mark.parametrize("name", [PIPELINE.name, "other"])
def test_new_version_of_a_config_map_counts_where_the_pipelines_own_file_is_another(
    world: World, include: Path, name: str
) -> None:
    folder = include / "mounted" / "pipelines"
    folder.mkdir(parents=True)
    texts = {f"{PIPELINE.name}.yaml": "tables: []", "other.yaml": "tables: []"}
    mount(folder, "..2026_11_26", texts)
    before = digest_work_inputs(world.open_session(PIPELINE), folder.parent)
    mount(folder, "..2026_11_27", {**texts, f"{name}.yaml": "tables: [{}]"})
    after = digest_work_inputs(world.open_session(PIPELINE), folder.parent)
    assert (after != before) is (name == PIPELINE.name)


@pytest.mark.parametrize(("name", "changes"), [(PIPELINE.name, True), ("other", False)])
def test_file_counts_in_a_folder_behind_a_link(
    world: World, include: Path, tmp_path_factory: pytest.TempPathFactory, name: str, changes: bool
) -> None:
    elsewhere = tmp_path_factory.mktemp("git") / "pipelines"
    (include / "pipelines").rename(elsewhere)
    (include / "pipelines").symlink_to(elsewhere)
    (elsewhere / "up").symlink_to("..")  # a loop is walked once
    before = digest_work_inputs(world.open_session(PIPELINE), include)
    (elsewhere / f"{name}.yaml").write_text("something else")
    assert (digest_work_inputs(world.open_session(PIPELINE), include) != before) is changes


@pytest.mark.parametrize(
    "change",
    [
        lambda state: None,
        lambda state: replace(state, uuid="another"),
        lambda state: replace(state, snapshot_id=1),
        lambda state: replace(state, columns=state.columns[:1]),
        lambda state: replace(state, marks={**state.marks, "tidegate.shop.skipped": '[{"topic": "right"}]'}),
    ],
    ids=["it was dropped", "it was replaced", "its rows", "its columns", "a record to be skipped"],
)
def test_every_table_of_the_pipeline_counts(
    world: World, include: Path, change: Callable[[TableState], TableState | None]
) -> None:
    before = digest_work_inputs(world.open_session(PIPELINE), include)
    session = world.open_session(PIPELINE)

    class Changed:
        """The tables, one of which was changed by hand."""

        def read_state(self, table: str, pipeline: str) -> Any:
            state = session.tables.read_state(table, pipeline)
            assert state is not None
            return change(state) if table == TABLES[1] else state

    changed: Session = replace(session, tables=Changed())  # type: ignore[arg-type]
    assert digest_work_inputs(changed, include) != before
