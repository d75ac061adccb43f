"""What records of partial updates with sequence groups mean, taken one at a time: the model that batches must equal."""

from typing import Any

GROUPS = {"va": ("a", "x"), "vb": ("b",)}
NAMES = ("a", "x", "va", "b", "vb", "name")
Change = tuple[int, dict[str, Any] | None]


def compute_rows(soft: bool, changes: list[Change]) -> list[dict[str, Any]]:
    """The rows after these changes, of a key and its columns; None deletes. `name` is in no group."""
    rows: dict[int, dict[str, Any]] = {}
    for key, record in changes:
        row = rows.get(key)
        if record is None:
            if soft and row is not None:
                row["_deleted"] = True
            elif not soft:
                rows.pop(key, None)
            continue
        if row is None:
            rows[key] = {"id": key, **{name: record.get(name) for name in NAMES}}
        else:
            for sequence, members in GROUPS.items():
                row_sequence, record_sequence = row[sequence], record.get(sequence)
                if record_sequence is not None and (row_sequence is None or record_sequence >= row_sequence):
                    row |= {name: record.get(name) for name in (sequence, *members)}
            row["name"] = row["name"] if record.get("name") is None else record["name"]
        rows[key] |= {"_deleted": False} if soft else {}
    return list(rows.values())
