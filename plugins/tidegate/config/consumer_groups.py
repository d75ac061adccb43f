"""Pipelines that commit to one consumer group: of one topic the group has one offset for each partition."""

import re
from collections.abc import Mapping
from pathlib import Path

from tidegate.config.fleets import Loaded
from tidegate.errors import ConfigurationError
from tidegate.model.offsets import format_names
from tidegate.settings import format_path
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Source


def refuse_shared_groups(include: Path, load_results: Loaded) -> Loaded:
    """Refuse each pipeline that commits a topic to a group to which one before it by name commits that topic.

    Each would overwrite the other's offsets, and a table that begins at the group's would begin behind records that it
    has not read. One group for different topics is fine. Of two connections nobody knows here whether they lead to
    the same brokers.
    """
    members: dict[tuple[str, str], list[Pipeline]] = {}
    answer: Loaded = []
    for name, pipeline in load_results:
        if isinstance(pipeline, Pipeline):
            source = pipeline.source
            others = members.setdefault((_name_brokers(source.kafka), source.group), [])
            shared = {other.name: _list_common_topics(source, other.source) for other in others}
            first = next((other for other, topics in shared.items() if topics), None)
            if first is not None:
                file = format_path(include / "pipelines" / f"{name}.yaml")
                reason = f"pipeline {first} commits topics={format_names(shared[first])} to it too"
                problem = f"{file}: source.group={source.group}: {reason}, and each would overwrite the other's offsets"
                answer.append((name, ConfigurationError(f"{problem}; give each pipeline a group of its own")))
                continue
            others.append(pipeline)
        answer.append((name, pipeline))
    return answer


def _name_brokers(kafka: str | Mapping[str, str]) -> str:
    return kafka if isinstance(kafka, str) else repr(sorted(kafka.items()))


def _list_common_topics(source: Source, other: Source) -> list[str]:
    """Topics, or a pattern, that both read; topics that two different patterns match are not known here."""
    common = set(source.topics) & set(other.topics)
    for names, pattern in ((source.topics, other.topic_pattern), (other.topics, source.topic_pattern)):
        common |= {topic for topic in names if pattern is not None and re.fullmatch(pattern, topic)}
    same_pattern = source.topic_pattern is not None and source.topic_pattern == other.topic_pattern
    return sorted(common | ({str(source.topic_pattern)} if same_pattern else set()))
