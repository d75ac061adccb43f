"""The other tables that a publication's SQL joins: a new snapshot of one counts as one of the table's own."""

from collections.abc import Mapping

from tidegate.errors import NothingToDo
from tidegate.jobs.publish_job import TouchedFiles
from tidegate.ports.publication_ports import PublicationPorts

Snapshots = Mapping[str, int]


def read_joined_snapshots(ports: PublicationPorts) -> dict[str, int]:
    """The current snapshot id of each joined table, by its name; NothingToDo while one of them has none."""
    snapshot_ids: dict[str, int] = {}
    for name in ports.publication.joined_tables:
        table = ports.snapshots.read_table(name)
        if table is None or table.snapshot_id is None:
            raise NothingToDo(f"publication={ports.publication.name}: joined table={name} does not exist yet")
        snapshot_ids[name] = table.snapshot_id
    return snapshot_ids


def is_unchanged(ports: PublicationPorts, old: Snapshots, new: Snapshots) -> bool:
    """Whether no row of the joined tables can have changed from `old` to `new`, which are snapshot ids by table. False
    if that is not known.
    """
    return all(
        name in old and (old[name] == to or ports.snapshots.find_touched_files(name, old[name], to) == TouchedFiles())
        for name, to in new.items()
    )


def find_lost_snapshot(ports: PublicationPorts, *needed: Snapshots) -> str | None:
    """Describe the first of these snapshots that can no longer be read; None if all exist."""
    for snapshots in needed:
        for name, snapshot in snapshots.items():
            if ports.snapshots.read_table(name) is None or not ports.snapshots.has_snapshot(name, snapshot):
                return f"snapshot={snapshot} of table={name}"
    return None
