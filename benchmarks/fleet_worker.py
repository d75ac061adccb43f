"""Looks at all members of a fleet as its plan task does, and makes tables of idle members."""

import json
import sys
import time
from pathlib import Path
from typing import Any

ACTION = "action"


def main(request: dict[str, Any]) -> None:
    """Run the action of the request, and write the answer to the file that it names."""
    answer = copy_tables(request) if request[ACTION] == "copy" else look(request)
    Path(request["answer"]).write_text(json.dumps(answer))


def look(request: dict[str, Any]) -> dict[str, Any]:
    """CPU seconds of loading, opening and planning all members, once, behind the imports, as in a task."""
    from tidegate.connections import read_connection_from_env
    from tidegate.fleet.members import load_members, look_at_members, open_members
    from tidegate.settings import find_include_folder

    include, usage = find_include_folder(), dict[str, float]()
    warm = open_members(include, list(load_members(include, request["fleet"]).values())[:1], read_connection_from_env)
    look_at_members(warm, {})  # modules that are loaded late
    before = time.process_time()
    members = load_members(include, request["fleet"])
    usage["files"] = time.process_time() - before
    members_by_name = open_members(include, members.values(), read_connection_from_env)
    start_seconds = time.monotonic()
    looks = look_at_members(members_by_name, {})
    usage |= {"all": time.process_time() - before, "wall": time.monotonic() - start_seconds}
    failed = [str(look.error) for look in looks if look.error is not None]
    return {
        "spent": usage,
        "idle": sum(1 for look in looks if look.plan is None and look.error is None),
        "looked": len(looks),
        "failed": failed[:3],
    }


def copy_tables(request: dict[str, Any]) -> dict[str, Any]:
    """Copy the result of the first flush of `model` to each pipeline: tables, tag and position."""
    import pyarrow
    from pyiceberg.catalog import load_catalog

    catalog, model = load_catalog("lake", **request["catalog"]), request["model"]
    for name in request["pipelines"]:
        ids = request["topic_ids"]
        for suffix in ("", f"_{model}_tmp"):
            table = catalog.load_table(f"fleet.{model}{suffix}")
            text = json.dumps(table.properties).replace(ids[model], ids[name]).replace(model, name)
            table_copy = catalog.create_table(
                f"fleet.{name}{suffix.replace(model, name)}", table.schema(), partition_spec=table.spec()
            )
            table_copy.append(pyarrow.Table.from_pylist([], table_copy.schema().as_arrow()))
            with table_copy.transaction() as change:
                change.set_properties(json.loads(text))
            table_copy.refresh()
            snapshot = table_copy.current_snapshot()
            if not suffix and snapshot is not None:
                table_copy.manage_snapshots().create_tag(snapshot.snapshot_id, f"tidegate_{name}").commit()
    return {"made": len(request["pipelines"])}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
