"""Publishes the position of a quiet pipeline once more, so that snapshots of other writers can expire behind it."""

import logging
from functools import partial

from tidegate.errors import RetryLater, TidegateError
from tidegate.merge.compare_and_swap import Swap, publish_head, retry_commits, write_on_branch
from tidegate.model import resource_names
from tidegate.model.position import Position
from tidegate.ports.context import Ports, TableState

log = logging.getLogger(__name__)


def renew_position(ports: Ports, table: str, older_than_ms: int) -> None:
    """Put the pipeline's position, as it is, and its tag onto a new snapshot without rows.

    Expiry keeps all snapshots from the tag on, as without them a rollback could not be told. So this is for a tag on a
    snapshot of before `older_than_ms` above which others have written. A table that was rolled back keeps what it has:
    a person has yet to answer. A failure is logged alone: the next heartbeat tries again.
    """
    place = f"pipeline={ports.pipeline.name} table={table}"
    try:
        if ports.commits.has_branches(table):
            retry_commits(ports, place, partial(_renew_once, ports, table, older_than_ms))
    except TidegateError as error:
        log.warning("the position was not renewed, so older snapshots stay: %s; the next heartbeat tries again", error)


def _renew_once(ports: Ports, table: str, older_than_ms: int) -> None:
    name, attempt = ports.pipeline.name, ports.new_attempt()
    state = ports.tables.read_state(table, name)
    position = state.recorded_position if state else None
    if state is None or position is None or state.is_rolled_back or state.snapshot_ms >= older_than_ms:
        return
    if not state.snapshots_since_publish:
        return
    properties, place = position.to_properties(name), f"pipeline={name} table={table}"
    swap = Swap(
        ports=ports,
        message_prefix=place,
        table=table,
        state=state,
        branch=resource_names.name_branch(name, state.highest_batch, attempt),
        attempt=attempt,
        properties=properties,
        guard=partial(_check_unmoved, place, position),
        summary={**properties, "tidegate.pipeline": name},
        tag=resource_names.name_tag(name),
    )
    head = publish_head(swap, write_on_branch(swap, state.highest_batch))
    log.info("position renewed: %s snapshot=%s", place, head.snapshot_id)


def _check_unmoved(place: str, position: Position, state: TableState | None) -> None:
    if state is None or state.is_rolled_back or state.recorded_position != position:
        raise RetryLater(f"{place}: another run was faster, and the position is newer by that; it will be tried again")
