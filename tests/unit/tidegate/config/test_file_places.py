"""Where files lie: folders and files that are links, a second file of a name, and folders below that nobody reads."""

import json
from pathlib import Path
from typing import Any

import pytest
from pipeline_files import CATALOGS, MINIMAL
from tidegate.cli.main import main
from tidegate.config.pipeline_file import check_tables_of_others, load_all_pipelines, load_pipeline
from tidegate.config.publication_file import check_topics_of_others, load_publication, load_publications
from tidegate.errors import ConfigurationError
from tidegate.runner.pipeline_files import PipelineFiles, PublicationFiles
from tidegate.spec.pipeline import Pipeline
from tidegate.wiring.pipeline import find_file

PUBLICATION = "{table: lake.shop.orders, topic: orders, key: {fields: [id]}}"


@pytest.fixture(autouse=True)
def folder(include: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(include))
    (include / "publications").mkdir()
    (include / "defaults.yaml").write_text("heartbeat: {interval: 7m}\n")
    return include


@pytest.fixture
def team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another folder of files, with catalogs and defaults of its own."""
    folder = tmp_path_factory.mktemp("team")
    for name, text in (("pipelines", MINIMAL), ("publications", PUBLICATION)):
        (folder / name).mkdir()
        (folder / name / "orders.yaml").write_text(text)
    (folder / "catalogs.yaml").write_text(CATALOGS.replace("lake:", "pond:"))
    (folder / "defaults.yaml").write_text("heartbeat: {interval: 3m}\n")
    return folder


@pytest.mark.parametrize("is_folder", [True, False])
def test_linked_files_are_read_with_the_catalogs_and_defaults_of_the_folder_that_they_are_linked_into(
    include: Path, team: Path, *, is_folder: bool
) -> None:
    """As the DAGs are made, so the tasks must read them."""
    for kind in ("pipelines", "publications"):
        if is_folder:
            (include / kind).rmdir()
            (include / kind).symlink_to(team / kind)
        else:
            (include / kind / "orders.yaml").symlink_to(team / kind / "orders.yaml")
    [(_, of_dag)] = load_all_pipelines(include)
    of_task = load_pipeline(find_file(include, "pipeline", "orders"))
    assert of_task == of_dag
    assert of_task.heartbeat.interval_seconds == 7 * 60
    [(_, published)] = load_publications(include)
    assert load_publication(find_file(include, "publication", "orders")) == published


def test_file_that_is_linked_from_elsewhere_is_read_as_the_one_that_it_is(include: Path, tmp_path: Path) -> None:
    (include / "pipelines" / "orders.yaml").write_text(MINIMAL)
    link = tmp_path / "links" / "mine" / "orders.yaml"
    link.parent.mkdir(parents=True)
    link.symlink_to(include / "pipelines" / "orders.yaml")
    assert load_pipeline(link).heartbeat.interval_seconds == 7 * 60


@pytest.mark.parametrize("name", ["orders.yml", "orders.yaaml"])
def test_copy_of_a_file_under_another_ending_is_refused_and_stops_not_the_file(include: Path, name: str) -> None:
    for kind, text in (("pipelines", MINIMAL), ("publications", PUBLICATION)):
        (include / kind / "orders.yaml").write_text(text)
        (include / kind / name).write_text(text)
    check_tables_of_others(include, "orders")
    check_topics_of_others(include, "orders")
    for load in (load_all_pipelines, load_publications):
        pipelines: list[tuple[str, Any]] = load(include)
        assert [isinstance(value, ConfigurationError) for _, value in pipelines] == [True, False]
        assert f"name={name}: a p" in str(pipelines[0][1])


def test_status_of_all_tells_of_a_file_under_another_ending_beside_the_others(include: Path, capsys: Any) -> None:
    (include / "pipelines" / "orders.yml").write_text(MINIMAL)
    (include / "pipelines" / "users.yaml").write_text("source: {}\n")
    main(["status", "--json"])
    errors = {pipeline["pipeline"]: pipeline["error"] for pipeline in json.loads(capsys.readouterr().out)["pipelines"]}
    assert errors.keys() == {"orders", "users"}
    assert "name=orders.yml: a pipeline's file is" in errors["orders"]
    assert "source.topics" in errors["users"]


@pytest.mark.parametrize(("target", "reason"), [("orders.yaml", "symbolic links"), ("nowhere.yaml", "No such file")])
def test_link_that_leads_nowhere_is_a_problem_of_its_own_and_takes_no_other_file_along(
    include: Path, target: str, reason: str
) -> None:
    for kind, text in (("pipelines", MINIMAL), ("publications", PUBLICATION)):
        (include / kind / "users.yaml").write_text(text.replace("topic: orders", "topic: users"))
        (include / kind / "orders.yaml").symlink_to(target)
    places: list[tuple[Any, Any, Any]] = [
        (load_all_pipelines, PipelineFiles, check_tables_of_others),
        (load_publications, PublicationFiles, check_topics_of_others),
    ]
    for load, read_together, check in places:
        loaded_files, files = dict(load(include)), read_together(include)
        assert "orders.yaml: cannot be read: " in str(loaded_files["orders"])
        assert reason in str(loaded_files["orders"])
        assert files.load("users") == loaded_files["users"]
        with pytest.raises(ConfigurationError, match=reason):
            files.load("orders")
        check(include, "users")


def test_files_in_folders_below_are_told_as_files_that_nobody_reads(include: Path, capsys: Any) -> None:
    (include / "pipelines" / "orders.yaml").write_text(MINIMAL)
    for place in ("pipelines/shop/users.yaml", "publications/out/users.yaml", "pipelines/..data/orders.yaml"):
        (include / place).parent.mkdir()
        (include / place).write_text(MINIMAL)
    (include / "catalogs.yaml").write_text("\n".join(CATALOGS.splitlines()[:2]))
    assert main(["validate"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "is not read" in line] == [
        f"warning: {include}/{kind}/{folder}/users.yaml: lies in a folder below {kind}/, and is not read; move it up"
        for kind, folder in (("pipelines", "shop"), ("publications", "out"))
    ]
    assert [name for name, value in load_all_pipelines(include) if isinstance(value, Pipeline)] == ["orders"]
