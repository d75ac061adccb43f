"""Intermediate tables that a former `merge.intermediate_suffix` named: they go when their table gets its new one."""

import logging
from dataclasses import replace

from tidegate.errors import TidegateError
from tidegate.merge.owed import send_dead_letters
from tidegate.ports.context import Ports, TableState
from tidegate.spec.table import Table
from tidegate.table.distant import check_no_former_batches, get_former_suffix, list_former_intermediates
from tidegate.table.session import TableSession

log = logging.getLogger(__name__)


def drop_former_intermediates(ports: Ports, table: Table, state: TableState) -> None:
    """Drop them with all their files; `GiveUp` where batches wait in one. A repeat call finds none.

    Dead letters of published batches that were not sent to `errors.topic` yet are sent first. A table that cannot be
    dropped stays, and does not hold up the batch.
    """
    check_no_former_batches(ports, table, state)
    for name in list_former_intermediates(ports, table):
        where = f"pipeline={ports.pipeline.name} table={name}"
        merge = replace(ports.pipeline.merge, intermediate_suffix=get_former_suffix(ports.pipeline, table.name, name))
        try:
            before = replace(ports, pipeline=replace(ports.pipeline, merge=merge))
            send_dead_letters(TableSession(before, table), state.highest_batch)
            ports.staging.drop(name)
            log.info("dropped, as merge.intermediate_suffix has changed: %s", where)
        except TidegateError as reason:
            log.warning(
                "%s: the staged rows of a former merge.intermediate_suffix are published, and were not dropped: %s; "
                "drop the table by hand",
                where, reason,
            )  # fmt: skip
