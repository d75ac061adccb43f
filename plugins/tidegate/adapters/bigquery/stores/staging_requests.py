"""Notes what the job of a staged attempt was asked for, so that an equal request takes its files over."""

import json

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.stores.staging import BATCH_PATH_PATTERN, LANDED_FILE, get_folder, read_job_outcome
from tidegate.failpoints import hit_failpoint
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import SignedAttempt

REQUEST_FILE = "request.json"


def sign_attempt(warehouse: Warehouse, intermediate: str, signed: SignedAttempt) -> None:
    """Note what an attempt's job was asked for, if its counts are there and add up."""
    place = get_folder(intermediate, signed.batch, signed.attempt)
    outcome = read_job_outcome(warehouse, place)
    if outcome is not None and not outcome.bad:
        note = {"request": signed.request, "ranges": signed.ranges.to_dict()}
        warehouse.folder.write(f"{place}/{REQUEST_FILE}", json.dumps(note).encode())
        hit_failpoint("bigquery.signed")


def find_signed(warehouse: Warehouse, intermediate: str) -> list[SignedAttempt]:
    """Find the signed attempts. One that another run has just removed is left out."""
    names = set(warehouse.folder.list_paths(get_folder(intermediate)))
    attempts = list[SignedAttempt]()
    for name in sorted(names):
        place = BATCH_PATH_PATTERN.search(f"/{name}")
        text = warehouse.folder.read(name) if place is not None and name.endswith(f"/{REQUEST_FILE}") else None
        if place is None or text is None:
            continue
        note = json.loads(text)
        batch = int(place[1])
        attempt = place[2]
        is_landed = f"{get_folder(intermediate, batch, attempt)}/{LANDED_FILE}" in names
        attempts.append(
            SignedAttempt(
                batch=batch,
                attempt=attempt,
                request=note["request"],
                ranges=Ranges.from_dict(note["ranges"]),
                is_landed=is_landed,
            )
        )
    return attempts
