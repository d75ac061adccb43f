"""`tidegate import` prints, or writes where nothing stands; what is wrong is one clear line."""

import json
import time
from pathlib import Path

import pytest
from sink_configs import APACHE, BIGQUERY_PROPERTIES, SECRET, format_json
from tidegate.cli.main import main

CATALOG = "mine: {type: iceberg, properties: {type: sql, uri: 'sqlite:////x/c.db', warehouse: 'file:///x'}}"


@pytest.fixture(autouse=True)
def folder(include: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(include))
    (include / "catalogs.yaml").write_text(f"# by hand\n{CATALOG}\n")
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
    return include


def write_connector(folder: Path, text: str, name: str = "connector.json") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_nothing_is_written_without_being_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "catalogs.yaml").read_text()
    assert main(["import", write_connector(folder, BIGQUERY_PROPERTIES, "kcbq.properties"), "--key", "id"]) == 0
    output = capsys.readouterr().out
    assert "validate accepts the file" in output
    assert SECRET not in output
    assert list((folder / "pipelines").iterdir()) == []
    assert (folder / "catalogs.yaml").read_text() == before


def test_page_of_the_manual_is_named_by_its_whole_path_where_the_package_is_installed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.monitoring.runbook.is_checkout", lambda: False)
    monkeypatch.setattr("tidegate.monitoring.runbook.find_product_folder", lambda: tmp_path)
    flatten = "org.apache.kafka.connect.transforms.Flatten$Value"
    config = {**APACHE, "transforms": "flat", "transforms.flat.type": flatten}
    assert main(["import", write_connector(folder, format_json(config))]) == 0
    assert f"({tmp_path}/docs/transforms.md" in " ".join(capsys.readouterr().out.split())


def test_files_are_written_once_and_catalogs_are_only_added(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_connector(folder, format_json({**APACHE, "iceberg.catalog": "fresh"}))
    before = (folder / "catalogs.yaml").read_text()
    assert main(["import", config, "--write", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    pipeline = folder / "pipelines" / "events-sink.yaml"
    assert answer["written"] == [str(folder / "catalogs.yaml"), str(pipeline)]
    assert pipeline.read_text() == answer["file"]
    catalogs = (folder / "catalogs.yaml").read_text()
    assert catalogs.startswith(before.rstrip())
    assert catalogs.endswith(answer["catalog"]["file"])
    assert main(["validate"]) == 0
    pipeline.write_text("# mine\n")
    assert main(["import", config, "--write"]) == 1
    assert "it is there already, and nothing was written" in capsys.readouterr().err
    assert pipeline.read_text() == "# mine\n"
    assert main(["import", config, "--write", "--overwrite"]) == 0
    assert pipeline.read_text() == answer["file"]
    assert (folder / "catalogs.yaml").read_text() == catalogs
    assert SECRET not in pipeline.read_text() + catalogs


@pytest.mark.parametrize("blocked_name", ["pipelines", ".events-sink.yaml.new", ".catalogs.yaml.new"])
def test_folder_that_takes_no_file_is_one_line(
    blocked_name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one that is mounted to be read alone, or whose disk is full."""
    config = write_connector(folder, format_json({**APACHE, "iceberg.catalog": "fresh"}))
    place = folder / ("pipelines" if "sink" in blocked_name else "") / blocked_name
    if blocked_name == "pipelines":
        place.rmdir()
        place.write_text("no folder")
    else:
        place.mkdir()
    assert main(["import", config, "--write"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"file={folder}/"), line
    assert line.endswith("; give the folder of TIDEGATE_INCLUDE room and rights, and run the command again"), line
    assert "cannot be written: " in line
    place.rmdir() if place.is_dir() else place.unlink()
    assert main(["import", config, "--write"]) == 0
    assert (folder / "pipelines" / "events-sink.yaml").is_file()
    assert (folder / "catalogs.yaml").read_text().count("\nfresh:") == 1


def test_what_the_files_beside_it_are_in_the_way_of_is_told_as_validate_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_connector(folder, format_json({**APACHE, "iceberg.catalog": "fresh"}))
    assert main(["import", config, "--name", "events", "--write"]) == 0
    capsys.readouterr()
    words = ["import", config, "--name", "events_actions", "--write", "--json"]
    assert main(words) == 0
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert "pipeline=events has a DAG tidegate_events_actions" in problem
    assert main(["validate"]) == 1
    assert problem.partition(": ")[2] in capsys.readouterr().out
    (folder / "pipelines" / "events_actions.yaml").write_text("broken: [")
    assert main(["import", config, "--name", "events", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--name", "../outside", "--write"], "name=../outside: no name of a pipeline"),
        (["--name", "../../outside"], "name=../../outside: no name of a pipeline"),
        (["--name", "shop/orders"], "name=shop/orders: no name of a pipeline"),
        (["--name", "x" * 300, "--json"], "no name of a pipeline"),
        (["--worker", "missing.properties"], "config=missing.properties: cannot be read: No such file or directory"),
        (["--kafka", "nowhere"], "connection=nowhere: not found"),
    ],
)
def test_wrong_words_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    assert main(["import", write_connector(folder, format_json(APACHE)), *words]) == 1
    error = capsys.readouterr().err
    assert reason in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("option", ["--table", "--topic", "--key"])
def test_option_that_a_source_does_not_take_is_refused_and_not_passed_over(
    folder: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    flink = (
        "CREATE TABLE Clicks (Id BIGINT) WITH ('connector'='kafka', 'topic'='Clicks', 'format'='json');"
        "CREATE CATALOG lake WITH ('type'='iceberg', 'catalog-type'='rest', 'uri'='http://h:8181');"
        "INSERT INTO lake.Shop.Clicks SELECT Id FROM Clicks;"
    )
    for text in (flink, *([BIGQUERY_PROPERTIES] if option == "--table" else [])):
        assert main(["import", write_connector(folder, text), option, "Shop.Orders", "--offline"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"{option}: not for ")
    assert main(["import", write_connector(folder, flink), "--offline"]) == 0


def test_numbers_and_patterns_that_cannot_be_read_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = BIGQUERY_PROPERTIES.replace("mergeIntervalMs=90000", "mergeIntervalMs=soon")
    assert main(["import", write_connector(folder, wrong)]) == 1
    assert "mergeIntervalMs=soon: not a whole number" in capsys.readouterr().err
    nothing = format_json({**APACHE, "iceberg.tables.route-field": None})
    assert main(["import", write_connector(folder, nothing), "--offline", "--json"]) == 0
    settings = {setting["name"]: setting for setting in json.loads(capsys.readouterr().out)["settings"]}
    assert settings["iceberg.tables.route-field"]["reason"] == "it is null: as if it were not given"


def test_converters_of_the_worker_are_used_where_the_connector_has_none(folder: Path) -> None:
    bare = {name: value for name, value in APACHE.items() if not name.startswith(("value.converter", "transforms"))}
    worker = write_connector(
        folder,
        "bootstrap.servers=b:9092\nvalue.converter=org.apache.kafka.connect.json.JsonConverter\n",
        "worker.properties",
    )
    config = write_connector(folder, format_json({**bare, "iceberg.catalog": "fresh"}))
    assert main(["import", config, "--worker", worker, "--write"]) == 0
    text = (folder / "pipelines" / "events-sink.yaml").read_text()
    assert "value: {format: json, json: {envelope: true}}" in text


def test_consumer_of_the_worker_is_the_connectors_where_it_says_nothing_itself(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = write_connector(
        folder,
        "consumer.isolation.level=read_uncommitted\nconsumer.auto.offset.reset=latest\nproducer.acks=all\n"
        f'consumer.sasl.jaas.config=x required password="{SECRET}";\n',
        "worker.properties",
    )
    words = ["--worker", worker, "--offline", "--json"]
    for own, isolation in (({}, "read_uncommitted"), ({"consumer.override.isolation.level": "read_committed"}, "")):
        config = write_connector(folder, format_json({**APACHE, **own}))
        assert main(["import", config, *words]) == 0
        answer = capsys.readouterr().out
        assert SECRET not in answer
        data = json.loads(answer)
        assert f"isolation: {isolation or 'read_committed'}" in data["file"]
        names = {setting["name"]: setting["target"] for setting in data["settings"]}
        assert names["consumer.override.auto.offset.reset"] == "source.start"
        assert names["consumer.override.sasl.jaas.config"] == "source.kafka: kafka_default"
        assert not any("producer" in name for name in names)


def test_brokers_that_are_down_are_said_at_once_with_the_way_without_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command waits half a minute for brokers elsewhere; here the translation does not need them."""
    config = write_connector(folder, BIGQUERY_PROPERTIES, "kcbq.properties")
    begin_seconds = time.monotonic()
    assert main(["import", config, "--key", "id", "--brokers", "127.0.0.1:1"]) == 1
    assert time.monotonic() - begin_seconds < 10
    assert capsys.readouterr().err.rstrip().endswith("; translate without brokers and catalog: --offline")
    assert main(["import", config, "--key", "id", "--brokers", "127.0.0.1:1", "--offline"]) == 0
