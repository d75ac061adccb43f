"""Dead letters: what becomes of the records of a batch that cannot be decoded, between the staging and the publish."""

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from tidegate.jobs.merge_job import MergeJob
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import describe_dead_letters
from tidegate.model.table_state import NO_TOPIC_ID
from tidegate.ports.context import Ports
from tidegate.schema.column import Column

LETTER_ADDRESS = ("table", "topic", "partition", "offset")
MAX_NAMED_RANGES = 100  # of a statement: with more, each letter is compared with too many, and its text grows too long
MAX_JOINED_RANGES = 1000
MAX_TRANSACTION_RANGES = 10_000  # whose statements fit into the one script that publishes without branches
# what tables of older versions lack
LATER_COLUMNS = (Column("topic_id", "STRING"), Column("replayed_by", "STRING"))
LETTER_REASON = ("stage", "error_class", "message", "batch")


def render_dead_letter_statements(
    ports: Ports, staged: StagedBatch, published: int, intermediate: str
) -> tuple[str, ...]:
    """Statements that bring the dead letters of a staged batch into their table, to be run before its rows are merged.

    They may run again at any time: table, topic id, partition and offset identify a dead letter.

    - Letters of this batch are written.
    - Letters that unpublished attempts left at the same offsets are deleted. Unpublished are those of batches above
      `published`, the highest batch that was ever published.
    - Letters of published batches stay. They are marked as replayed if this batch has read their records again from
      the same topic; not if the topic was created again, or the letter has no topic id.
    """
    name, own = resource_names.name_dead_letter_table(ports.pipeline), describe_dead_letters(ports.pipeline)
    others = ports.dead_letters.count_letters_of_others(name, staged.table, staged.attempt, staged.ranges)
    if not others and not staged.counts.dead_lettered:
        return ()
    if ports.tables.claim(name, own) is not None:
        add_later_columns(ports, name)
    statements = _render_others(ports, name, staged, published, others)
    if staged.counts.dead_lettered:
        sql = ports.get_sql(name)
        statements += [
            sql.render("create_namespace", parent=name.rsplit(".", 1)[0]),
            sql.render("create_dead_letters", table=name, own=own),
            sql.render(
                "write_dead_letters",
                snapshot_id=staged.snapshot_id,
                ranges=_list_named_ranges(staged.ranges),
                source=intermediate,
                batch=staged.batch,
                ids=find_known_topic_ids(staged.topic_ids),
                **_name_letters(name, staged),
            ),
        ]
    return tuple(statements)


def add_later_columns(ports: Ports, name: str) -> bool:
    """Add what a dead-letter table of an older version lacks; whether it had no topic ids. Idempotent."""
    changes = [ports.tables.evolve(name, (column,), add=True, widen=False, relax=False) for column in LATER_COLUMNS]
    return bool(changes[0])


def find_known_topic_ids(topic_ids: Mapping[str, str]) -> dict[str, str]:
    """The topic ids, without the empty ones that stand for an unknown id."""
    return {topic: topic_id for topic, topic_id in topic_ids.items() if topic_id and topic_id != NO_TOPIC_ID}


def _name_letters(name: str, staged: StagedBatch) -> dict[str, Any]:
    return {"table": name, "target": staged.table, "attempt": staged.attempt}


def _render_others(
    ports: Ports, name: str, staged: StagedBatch, published: int, others: Collection[tuple[str, int]]
) -> list[str]:
    """Statements about the letters that other attempts left at the batch's offsets, in these topics and partitions.

    Without branches those about very many partitions are too long for the script that publishes: they are run here.
    """
    sql, ids = ports.get_sql(name), find_known_topic_ids(staged.topic_ids)
    busy = [part for part in staged.ranges if part[3] > part[2] and part[:2] in others]
    values = {**_name_letters(name, staged), "published": published, "ids": ids}
    # a destination without branches joins the ranges, and runs all statements in one transaction
    has_branches = ports.commits.has_branches(name)
    most = MAX_NAMED_RANGES if has_branches else MAX_JOINED_RANGES
    of_known_topics = [part for part in busy if part[0] in ids]
    statements = [
        sql.render(statement, ranges=ranges, **values)
        for statement, parts in (("forget_dead_letters", busy), ("reread_dead_letters", of_known_topics))
        for ranges in cut_into_statements(parts, most)
    ]
    if len(busy) > MAX_TRANSACTION_RANGES and not has_branches:
        ports.engine.run(MergeJob(ports.pipeline.name, staged.batch, tuple(statements), table=name))
        return []
    return statements


def cut_into_statements(
    ranges: Iterable[tuple[str, int, int, int]], most: int = MAX_NAMED_RANGES
) -> list[list[tuple[str, int, int, int]]]:
    """The ranges in order, as many at once as a statement names."""
    parts = list(ranges)
    return [parts[start : start + most] for start in range(0, len(parts), most)]


def _list_named_ranges(ranges: Ranges) -> list[tuple[str | None, int | None, int, int]]:
    """The ranges of a batch by partition; with very many, by topic, from its lowest to its highest offset; with very
    many topics, one range for all of them.
    """
    busy = [part for part in ranges if part[3] > part[2]]
    if len(busy) <= MAX_NAMED_RANGES:
        return list(busy)
    topics = groupby(busy, key=itemgetter(0))
    spans = ((topic, [(start, end) for _, _, start, end in parts]) for topic, parts in topics)
    by_topic = [(topic, None, min(start for start, _ in ends), max(end for _, end in ends)) for topic, ends in spans]
    if len(by_topic) <= MAX_NAMED_RANGES:
        return [*by_topic]
    return [(None, None, min(part[2] for part in by_topic), max(part[3] for part in by_topic))]
