"""What records with and without a sequence mean, taken one at a time: the model that batches must equal."""

from typing import Any

Change = tuple[int, str, tuple[int | None, int | None], int]


def compute_rows(mode: str, deletes: str, changes: list[Change]) -> list[dict[str, Any]]:
    """The rows after these changes: (key, upsert | delete | tombstone, its columns of `sequence_by`, the row's n)."""
    highest: dict[int, Any] = {}
    rows: dict[int, dict[str, Any]] = {}
    for key, kind, sequence, n in changes:
        if kind != "upsert" and mode == "upsert":
            continue
        resets = kind == "tombstone" or (kind == "delete" and sequence == (None, None))
        sort_key = [(number is not None, number or 0) for number in sequence]
        if not resets:
            if sort_key < highest.get(key, []):
                continue
            highest[key] = sort_key
        if kind == "upsert":
            rows[key] = {"id": key, "n": n, "lsn": sequence[0], "sub": sequence[1]}
            rows[key] |= {"_deleted": False} if deletes == "soft" else {}
        elif deletes == "hard":
            rows.pop(key, None)
        elif key in rows:
            rows[key] |= {"_deleted": True} | ({} if resets else {"lsn": sequence[0], "sub": sequence[1]})
    return list(rows.values())
