"""What pipelines and publications need of the topics and groups of one cluster."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tidegate.adapters.kafka.probes.cluster import Cluster
from tidegate.adapters.kafka.probes.topics import list_topic_names, read_groups, read_topics
from tidegate.diagnosis.brokers import READ, WRITE, TopicNeed, judge_group, judge_topics
from tidegate.diagnosis.finding import Finding, make_error
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.publication import Publication
from tidegate.wiring.diagnosis.subjects import Subjects

PROGRESS_GROUP = "tidegate-publications"  # in which publications read their progress
# librdkafka's default
RECEIVE_SETTING = "receive.message.max.bytes"
DEFAULT_RECEIVE_BYTES = 100_000_000


@dataclass
class ClusterNeeds:
    """Topics, patterns with those who read them, and groups with those who commit them."""

    topics: list[TopicNeed] = field(default_factory=list)
    patterns: list[TopicNeed] = field(default_factory=list)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)


def list_needs(subjects: Subjects, names: tuple[str, ...]) -> ClusterNeeds:
    """What these pipelines and publications need."""
    needs = ClusterNeeds()
    for name in names:
        if name in subjects.pipelines:
            _add_pipeline(needs, subjects.pipelines[name])
        if name in subjects.publications:
            _add_publication(needs, subjects.publications[name])
    return needs


def _add_pipeline(needs: ClusterNeeds, pipeline: Pipeline) -> None:
    name = pipeline.name
    source = pipeline.source
    pause = max(pipeline.merge.interval_seconds, 0)
    needs.topics += [TopicNeed(topic, READ, name, pause_seconds=pause) for topic in source.topics]
    if source.topic_pattern is not None:
        needs.patterns.append(TopicNeed(source.topic_pattern, READ, name, pause_seconds=pause))
    written_topics = [pipeline.heartbeat.topic] if pipeline.heartbeat.produce else []
    written_topics += [source.errors.topic] if source.errors.topic else []
    needs.topics += [TopicNeed(topic, WRITE, name, is_made=True, is_optional=True) for topic in written_topics]
    needs.groups[source.group] = (*needs.groups.get(source.group, ()), name)


def _add_publication(needs: ClusterNeeds, publication: Publication) -> None:
    name = publication.name
    compacts = not publication.allow_uncompacted
    is_made = publication.create.enabled
    needs.topics += [
        TopicNeed(topic, WRITE, name, is_made=is_made, must_compact=compacts) for topic in publication.topics
    ]
    needs.topics.append(TopicNeed(publication.state_topic, WRITE, name, is_made=True, must_compact=True))
    if publication.heartbeat_topic:
        needs.topics.append(TopicNeed(publication.heartbeat_topic, WRITE, name, is_made=True, is_optional=True))
    needs.groups[PROGRESS_GROUP] = (*needs.groups.get(PROGRESS_GROUP, ()), name)


def check_topics(cluster: Cluster, needs: ClusterNeeds, settings: Mapping[str, str], now_ms: int) -> Iterator[Finding]:
    """Topics, their settings and rights, and the consumer groups."""
    topic_needs = list(needs.topics)
    for need in needs.patterns:
        topic_names = [name for name in list_topic_names(cluster) if re.fullmatch(need.topic, name)]
        topic_needs += [replace(need, topic=name) for name in topic_names]
        if not topic_names:
            cause = f"topic_pattern={need.topic} matches no topic that the user of {cluster.place} may describe"
            advice = "create a topic, give the user READ on it, or correct source.topic_pattern"
            yield replace(make_error("kafka.topics", cause, advice), used_by=(need.user,))
    facts = read_topics(cluster, [need.topic for need in topic_needs])
    receive = int(settings.get(RECEIVE_SETTING, DEFAULT_RECEIVE_BYTES))
    yield from judge_topics(cluster.place, topic_needs, facts, receive, now_ms)
    for group in read_groups(cluster, needs.groups):
        users = needs.groups[group.group]
        yield from (replace(finding, used_by=users) for finding in judge_group(cluster.place, group))
