"""How many rows a published snapshot changed, by what its writer left in its summary."""

from tidegate.merge.write_mode import TRUNCATED_AT_PROPERTY
from tidegate.model.publish_cost import RowChanges
from tidegate.ports.context import Head


def count_changes(head: Head | None) -> RowChanges:
    """Rows inserted, updated and deleted, as the snapshot's summary has them; None is where no snapshot was due."""

    def count(name: str) -> int:
        return int(head.summary.get(name, "0")) if head else 0

    if head and "tidegate.inserted" in head.summary:
        return RowChanges(
            inserted=count("tidegate.inserted"), updated=count("tidegate.updated"), deleted=count("tidegate.deleted")
        )
    rows = "spark.merge-into.num-target-rows-"
    appended = 0 if head and f"{rows}inserted" in head.summary else count("added-records")
    emptied = 0
    if head and TRUNCATED_AT_PROPERTY in head.summary:  # Iceberg counts the rows of files, and deletes beside them
        emptied = count("deleted-records") - count("removed-position-deletes") - count("removed-equality-deletes")
    return RowChanges(
        inserted=count(f"{rows}inserted") + appended,
        updated=count(f"{rows}updated"),
        deleted=count(f"{rows}deleted") + emptied,
    )
