"""Writes, with an older version, what a pipeline and a publication leave: the data of `test_upgrade.py`.

To make the data of another version COMMIT:

    git worktree add --detach ../older COMMIT
    cp tests/upgrade/make.py ../older/tests/integration/test_make.py
    cd ../older && make setup && TIDEGATE_UPGRADE_DATA=/some/folder make integration ARGS=integration/test_make.py

It leaves `written_by.tar.xz` there: the tables' files with the paths that they have, the topics' records, what tasks
keep between them, and what must be written anew elsewhere (paths, cluster, topic ids). The names of that version's
modules are found by text: this file is run by that version, and by no other.
"""

import base64
import json
import os
import tarfile
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING, version INT, gone BOOLEAN"}
LEFT, RIGHT, OUT = "upgrade-left", "upgrade-right", "upgrade-out"
KEPT = {"retention.ms": "-1"}
TABLES = [
    {"name": "lake.shop.left", "topics": [LEFT]},
    {
        "name": "lake.shop.right",
        "topics": [RIGHT],
        "sequence_by": ["version"],
        "delete_when": "gone",
        "tombstone_retention": "36500d",
    },
]
PIPELINE = {"tables": TABLES, "key": KEY, "value": VALUE, "source": {"errors": {"tolerance": "all"}}}
PUBLICATION = {
    "table": "lake.shop.left",
    "topic": OUT,
    "state_topic": f"{OUT}-state",
    "key": {"fields": ["id"]},
    "parallelism": 2,
    "create": {"properties": KEPT},
}


def to_record(
    number: int, name: str | None, version: int = 1, is_deleted: bool = False
) -> tuple[Any, Any, dict[str, Any]]:
    """A record of the key `number` in the partition of the key; a tombstone without a name."""
    value = None if name is None else {"id": number, "name": name, "version": version, "gone": is_deleted}
    return {"id": number}, value, {"partition": number % 2, "timestamp": 1_767_225_600_000 + number}


def test_make(workbench: Any) -> None:
    """Two flushes of two tables, a publication after each, and a batch that is staged and waits."""
    for topic in (LEFT, RIGHT):
        workbench.topic(2, topic, **KEPT)
    workbench.pipeline("shop", [LEFT, RIGHT], **PIPELINE)
    (workbench.include / "publications").mkdir()
    (workbench.include / "publications" / "out.yaml").write_text(yaml.safe_dump(PUBLICATION))
    bad_record = (
        {"id": 9},
        '{"id": 9, "name": "broken", "version": "many"}',
        {"partition": 1, "timestamp": 1_767_225_600_009},
    )
    workbench.produce(LEFT, *(to_record(number, f"left {number}") for number in (1, 2, 3, 4)), bad_record)
    workbench.produce(RIGHT, *(to_record(number, f"right {number}") for number in (1, 2, 3, 4)))
    workbench.flush("shop")
    publish(workbench)
    workbench.produce(LEFT, to_record(1, "left 1 again"), to_record(2, None))
    workbench.produce(RIGHT, to_record(3, "right 3 again", 2), to_record(4, "", 9, is_deleted=True))
    workbench.flush("shop")
    publish(workbench)
    workbench.produce(LEFT, to_record(3, "left 3 staged"), to_record(6, "left 6 staged"))
    workbench.produce(RIGHT, to_record(1, None), to_record(6, "right 6 staged"))
    save(workbench, Path(os.environ["TIDEGATE_UPGRADE_DATA"]), stage(workbench))


def publish(workbench: Any) -> None:
    """One run of the publication."""
    assemble = import_module("tidegate.adapters.publication_assembly").assemble_publication
    import_module("tidegate.publications.publish").publish(assemble(workbench.include, "out", workbench.resolve()))


def stage(workbench: Any) -> dict[str, Any]:
    """A batch that is staged and not merged: what the tasks plan and stage hand on."""
    ports, queues = workbench.ports("shop"), list[Any]()
    planned = import_module("tidegate.flush.plan").plan(ports)
    staged = import_module("tidegate.flush.stage").stage(ports, planned, queues)
    assert not queues
    assert len(staged) == 2
    return {"plan": planned.to_dict(), "staged": [batch.to_dict() for batch in staged]}


def list_triggers(workbench: Any) -> list[Any]:
    """Class path and arguments, as Airflow's database holds them of a task or a DAG that waits."""
    catalog = import_module("tidegate.pipeline").Catalog("dwh", "bigquery", {"project": "p", "location": "EU"})
    job = import_module("tidegate_airflow.job_trigger").JobTrigger(asdict(catalog), "p", "EU", "tidegate_job")
    watch = import_module("tidegate.backlog").Watch.of(workbench.ports("shop").pipeline)
    backlog = import_module("tidegate_airflow.backlog_trigger").BacklogTrigger("kafka_default", watch.to_dict())
    return [job.serialize(), backlog.serialize()]


def save(workbench: Any, folder: Path, tasks: dict[str, Any]) -> None:
    """Everything, in one compressed file."""
    folder.mkdir(parents=True, exist_ok=True)
    read_topic = import_module("round_trip").read
    log = workbench.ports("shop").broker.log((LEFT, RIGHT, OUT), "read_committed")
    topics = (LEFT, RIGHT, OUT, f"{OUT}-state")
    records = {topic: [describe(message) for message in read_topic(workbench, topic)] for topic in topics}
    tables = workbench.spark_sql("SHOW TABLES IN lake.shop")
    names = [row["tableName"] for row in tables]
    content = {
        "root": f"file://{workbench.warehouse}",
        "cluster": log.cluster_id,
        "topic_ids": dict(log.topic_ids),
        "partitions": {topic: len(workbench._partitions(topic)) for topic in topics},
        "records": records,
        "committed": workbench.committed("shop"),
        "tables": {name: workbench.iceberg(f"shop.{name}").metadata_location for name in names},
        "rows": {name: workbench.rows(f"shop.{name}") for name in ("left", "right")},
        "tasks": tasks,
        "triggers": list_triggers(workbench),
    }
    (folder / "kept.json").write_text(json.dumps(content, indent=1))
    with tarfile.open(folder / "written_by.tar.xz", "w:xz") as archive:
        archive.add(folder / "kept.json", "kept.json")
        archive.add(
            workbench.warehouse, "warehouse", filter=lambda member: None if member.name.endswith(".crc") else member
        )


def describe(message: Any) -> dict[str, Any]:
    """One record, to be produced again at the same place."""
    key, value = (
        None if part is None else base64.b64encode(part).decode() for part in (message.key(), message.value())
    )
    place = {"partition": message.partition(), "offset": message.offset(), "timestamp": message.timestamp()[1]}
    headers = [(name, base64.b64encode(part).decode()) for name, part in message.headers() or []]
    return {"key": key, "value": value, "headers": headers, **place}
