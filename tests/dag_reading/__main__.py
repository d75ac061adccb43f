"""Reads the DAG files over the folder in `TIDEGATE_INCLUDE`; prints DAGs, connections that were opened, imports."""

import json
import runpy
import socket
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HEAVY = ("confluent_kafka", "pyiceberg", "pyspark", "pyarrow", "pandas", "google.cloud")
opened: list[str] = []


def read() -> dict[str, Any]:
    """Every DAG by id."""
    files = sorted((ROOT / "dags").glob("*.py"))
    return {
        name: value
        for file in files
        for name, value in runpy.run_path(str(file)).items()
        if type(value).__name__ == "DAG" and name != "dag"
    }


def describe_dag(dag: Any) -> dict[str, Any]:
    """What a person sees of a DAG."""
    return {
        "tags": sorted(dag.tags),
        "doc": bool(dag.doc_md),
        "description": dag.description,
        "schedule": repr(dag.timetable),
        "params": {name: _describe_param(dag.params.get_param(name)) for name in dag.params},
        "tasks": {
            task.task_id: {
                "doc": bool(task.doc_md),
                "owner": task.owner,
                "links": [link.name for link in task.operator_extra_links],
                "group": task.task_group.group_id if task.task_group else None,
            }
            for task in dag.tasks
        },
        "serialized": _serialize(dag),
    }


def _describe_param(param: Any) -> dict[str, Any]:
    return {**param.schema, "description": param.description}


def _serialize(dag: Any) -> str:
    from airflow.serialization.serialized_objects import DagSerialization

    return json.dumps(DagSerialization.to_dict(dag), sort_keys=True, default=str)


def main() -> None:
    """Print the report."""
    connect = socket.socket.connect

    def note_connection(self: socket.socket, address: Any) -> Any:
        opened.append(str(address))
        return connect(self, address)

    socket.socket.connect = note_connection  # type: ignore[method-assign]
    before = set(sys.modules)
    dags = read()
    imported = sorted(name for name in HEAVY if name in sys.modules and name not in before)
    report = {
        "opened": list(opened),
        "imported": imported,
        "dags": {name: describe_dag(dag) for name, dag in dags.items()},
    }
    print("SEEN " + json.dumps(report))


if __name__ == "__main__":
    main()
