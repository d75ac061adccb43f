"""Looks at all members of a fleet as its plan task does, and makes tables of idle members."""

import json
import sys
import time
from pathlib import Path
from typing import Any

ACTION = "action"


def main(request: dict[str, Any]) -> None:
    """Do what the request asks for, and leave the answer where it says."""
    answer = copy_tables(request) if request[ACTION] == "copy" else look(request)
    Path(request["answer"]).write_text(json.dumps(answer))


def look(request: dict[str, Any]) -> dict[str, Any]:
    """CPU seconds of loading, opening and planning all members, once, behind the imports, as in a task."""
    from tidegate.connections import read_connection_from_env
    from tidegate.fleet.look import look_at_members
    from tidegate.fleet.members import load_members, open_members
    from tidegate.settings import find_include_folder

    include, spent = find_include_folder(), dict[str, float]()
    warm = open_members(include, list(load_members(include, request["fleet"]).values())[:1], read_connection_from_env)
    look_at_members(warm, {})  # modules that are loaded late
    before = time.process_time()
    members = load_members(include, request["fleet"])
    spent["files"] = time.process_time() - before
    opened = open_members(include, members.values(), read_connection_from_env)
    begun = time.monotonic()
    looks = look_at_members(opened, {})
    spent |= {"all": time.process_time() - before, "wall": time.monotonic() - begun}
    failed = [str(one.error) for one in looks if one.error is not None]
    return {
        "spent": spent,
        "idle": sum(1 for one in looks if one.idle_reason),
        "looked": len(looks),
        "failed": failed[:3],
    }


def copy_tables(request: dict[str, Any]) -> dict[str, Any]:
    """Give each of the pipelines what a first flush has left of `model`: tables, tag and position."""
    import pyarrow
    from pyiceberg.catalog import load_catalog

    catalog, model = load_catalog("lake", **request["catalog"]), request["model"]
    for name in request["pipelines"]:
        ids = request["topic_ids"]
        for suffix in ("", f"_{model}_tmp"):
            table = catalog.load_table(f"fleet.{model}{suffix}")
            text = json.dumps(table.properties).replace(ids[model], ids[name]).replace(model, name)
            made = catalog.create_table(
                f"fleet.{name}{suffix.replace(model, name)}", table.schema(), partition_spec=table.spec()
            )
            made.append(pyarrow.Table.from_pylist([], made.schema().as_arrow()))
            with made.transaction() as change:
                change.set_properties(json.loads(text))
            made.refresh()
            snapshot = made.current_snapshot()
            if not suffix and snapshot is not None:
                made.manage_snapshots().create_tag(snapshot.snapshot_id, f"tidegate_{name}").commit()
    return {"made": len(request["pipelines"])}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
