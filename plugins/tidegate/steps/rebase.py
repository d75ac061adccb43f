"""rebase: the only way to move a position by hand, after showing what the move skips or reads again."""

import json
from dataclasses import dataclass
from datetime import datetime

from tidegate import names
from tidegate.errors import ConfigurationError, RetryLater
from tidegate.offsets import Offsets, merged, offset_of, pairs
from tidegate.pipeline import Table
from tidegate.ports import CommitRefused, Log, Ports, Publication, TableState
from tidegate.position import Position
from tidegate.steps.plan import read_log, table_log


@dataclass(frozen=True)
class Move:
    """One partition of one table: `before` is None where the table had no position for it."""

    table: str
    topic: str
    partition: int
    before: int | None
    after: int

    @property
    def skipped(self) -> int:
        """Offsets that will never be read."""
        return max(0, self.after - (self.before or 0))

    @property
    def read_again(self) -> int:
        """Offsets that will be read a second time."""
        return max(0, (self.before or 0) - self.after)


def preview(ports: Ports, to: str) -> list[Move]:
    """What `rebase` would do to each partition of each table; changes nothing."""
    log = read_log(ports)
    moves = []
    for table in ports.pipeline.tables:
        before = _recorded(_state(ports, table)).offsets
        for topic, partition, after in pairs(_target(ports, table, to, log)):
            moves.append(Move(table.name, topic, partition, offset_of(before, topic, partition), after))
    return moves


def rebase(ports: Ports, to: str) -> list[Move]:
    """Move the position of every table; returns what was moved.

    `to` is earliest, latest, group, a time (ISO 8601 with zone) or offsets as JSON, ``{"topic": {"0": 42}}``, where
    partitions that are not named stay. Like a publish, the move is one compare-and-swap, and its snapshot keeps a mark
    of it: ``tidegate.rebase`` with the offsets before and after.
    """
    moves, log = preview(ports, to), read_log(ports)
    for table in ports.pipeline.tables:
        try:
            _move(ports, table, _target(ports, table, to, log), log)
        except CommitRefused as refused:
            raise RetryLater(
                f"pipeline={ports.pipeline.name} table={table.name}: another writer was faster, this position was not "
                f"moved: {refused}; look at the status and rebase again"
            ) from refused
    return moves


def _move(ports: Ports, table: Table, target: Offsets, log: Log) -> None:
    destination, name, state = ports.destination, ports.pipeline.name, _state(ports, table)
    part = table_log(log, table)
    ids = {topic: part.topic_ids[topic] for topic in part.begin}
    position = Position(target, state.highest_batch, cluster_id=log.cluster_id, topic_ids=ids)
    branch = names.branch(name, state.highest_batch, ports.new_attempt())
    mark = json.dumps({"from": _recorded(state).offsets, "to": target})
    destination.cut(table.name, state, branch)
    destination.append_empty(table.name, branch, {**position.to_properties(name), "tidegate.rebase": mark})
    head = destination.head(table.name, branch)
    if head is None or state.snapshot_id is None:
        raise CommitRefused(f"branch={branch} is gone")
    destination.publish(
        Publication(
            table.name, name, state.uuid, state.schema_id, state.snapshot_id, branch, head.snapshot_id, position
        )
    )


def _target(ports: Ports, table: Table, to: str, log: Log) -> Offsets:
    part, topics = table_log(log, table), table_log(log, table).begin.keys()
    if to in ("earliest", "latest"):
        return part.begin if to == "earliest" else part.end
    if to == "group":
        return merged(part.begin, ports.broker.committed(ports.pipeline.source.group, tuple(topics)))
    if to.lstrip().startswith("{"):
        return _checked(part, merged(part.begin, _recorded(_state(ports, table)).offsets, _offsets(to)))
    return ports.broker.offsets_at(tuple(topics), _time_ms(to))


def _offsets(to: str) -> Offsets:
    try:
        return {topic: {int(p): int(o) for p, o in parts.items()} for topic, parts in json.loads(to).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigurationError(f'--to={to}: not offsets; write e.g. {{"topic": {{"0": 42}}}}') from error


def _checked(part: Log, target: Offsets) -> Offsets:
    """The target without topics of other tables; ConfigurationError for an offset that the log does not hold."""
    mine = {topic: parts for topic, parts in target.items() if topic in part.begin}
    for topic, partition, offset in pairs(mine):
        begin, end = offset_of(part.begin, topic, partition), offset_of(part.end, topic, partition)
        if begin is None or end is None or not begin <= offset <= end:
            raise ConfigurationError(
                f"topic={topic} partition={partition} offset={offset}: outside the log [{begin}, {end}]; "
                "name an offset inside it with --to"
            )
    return mine


def _time_ms(to: str) -> int:
    try:
        moment = datetime.fromisoformat(to)
    except ValueError as error:
        raise ConfigurationError(
            f"--to={to}: write earliest, latest, group, a time like 2026-01-01T00:00:00Z, or offsets as JSON"
        ) from error
    if moment.tzinfo is None:
        raise ConfigurationError(f"--to={to}: a time without a zone; write e.g. {to}Z")
    return int(moment.timestamp() * 1000)


def _state(ports: Ports, table: Table) -> TableState:
    state = ports.destination.state(table.name, ports.pipeline.name)
    if state is None or state.recorded is None:
        raise ConfigurationError(
            f"pipeline={ports.pipeline.name} table={table.name}: no position yet, so there is none to move; "
            "set source.start instead"
        )
    return state


def _recorded(state: TableState) -> Position:
    return state.recorded or Position({})
