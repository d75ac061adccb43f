"""What the job of a staged attempt was asked, noted beside its files: a retry that asks the same takes them over."""

from tidegate.adapters.bigquery_client import Warehouse
from tidegate.adapters.bigquery_staging import BATCH, folder_of, left
from tidegate.crash_points import reached

REQUEST = "request"


def sign(warehouse: Warehouse, intermediate: str, batch: int, attempt: str, request: str) -> None:
    """Note what the job of an attempt was asked, where its counts are there and its records add up."""
    place = folder_of(intermediate, batch, attempt)
    outcome = left(warehouse, place)
    if outcome is not None and not outcome["bad"]:
        warehouse.folder.write(f"{place}/{REQUEST}", request.encode())
        reached("bigquery.signed")


def signed(warehouse: Warehouse, intermediate: str, batch: int, request: str) -> str | None:
    """An attempt at the batch that is signed so."""
    for name in warehouse.folder.names(folder_of(intermediate, batch)):
        found = BATCH.search(f"/{name}")
        is_note = found is not None and int(found[1]) == batch and name.endswith(f"/{REQUEST}")
        if found is not None and is_note and warehouse.folder.read(name) == request.encode():
            return found[2]
    return None
