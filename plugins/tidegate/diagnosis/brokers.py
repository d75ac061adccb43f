"""What facts about brokers, topics and groups mean for the pipelines and publications that need them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tidegate.diagnosis.finding import Finding, Severity, make_error, make_ok, make_warning

READ = "READ"
WRITE = "WRITE"
RETENTION_PAUSES = 10  # so many pauses between two flushes should fit into the retention
MIN_RETENTION_SECONDS = 86_400  # seconds; a topic that keeps less is gone before somebody has looked
MAX_FUTURE_SECONDS = 60.0  # of the newest record
RESPONSE_OVERHEAD_BYTES = 512  # librdkafka's own margin between a fetch and receive.message.max.bytes


@dataclass(frozen=True)
class TopicNeed:
    """What some pipeline or publication needs of a topic. `right` is READ or WRITE.

    `pause_seconds` is the longest time between two flushes, 0 for unknown. `is_made` where the product makes the topic
    if it is missing; `must_compact` where a record without compaction would be lost; `is_optional` where a flush goes
    on without the topic.
    """

    topic: str
    right: str
    user: str
    pause_seconds: int = 0
    is_made: bool = False
    must_compact: bool = False
    is_optional: bool = False


@dataclass(frozen=True)
class TopicFacts:
    """What the brokers tell of a topic. `problem` is a sentence with a way out, for a topic that they do not describe.

    `operations` are the user's rights, empty where the brokers do not tell them; `settings` None where they may not be
    read. `newest_ms` is the time of the newest record, -1 for none.
    """

    topic: str
    is_missing: bool = False
    problem: str = ""
    partitions: int = 0
    leaderless: tuple[int, ...] = ()
    operations: frozenset[str] = frozenset()
    settings: Mapping[str, str] | None = None
    newest_ms: int = -1


@dataclass(frozen=True)
class GroupFacts:
    """What the brokers tell of a consumer group. `members` are clients that joined it: a flush never does."""

    group: str
    problem: str = ""
    operations: frozenset[str] = frozenset()
    members: int = 0


def judge_topics(
    place: str, needs: Iterable[TopicNeed], facts: Mapping[str, TopicFacts], receive_bytes: int, now_ms: int
) -> Iterator[Finding]:
    """What stands between these topics and a flush. `receive_bytes` is the most that our client takes at once."""
    needs = list(needs)
    usable = dict[str, tuple[str, ...]]()
    for need in needs:
        fact = facts[need.topic]
        access_findings = list(_judge_access(place, need, fact))
        severity = Severity.WARNING if need.is_optional else Severity.ERROR
        yield from (replace(finding, used_by=(need.user,), severity=severity) for finding in access_findings)
        if access_findings or fact.is_missing:
            continue
        usable[need.topic] = (*usable.get(need.topic, ()), need.user)
        findings = [*_judge_retention(need, fact), *_judge_compaction(need, fact)]
        yield from (replace(finding, used_by=(need.user,)) for finding in findings)
    for topic, users in sorted(usable.items()):
        findings = [*_judge_size(facts[topic], receive_bytes), *_judge_clock(facts[topic], now_ms)]
        yield from (replace(finding, used_by=users) for finding in findings)
    if usable:
        partitions = sum(facts[topic].partitions for topic in usable)
        yield make_ok("kafka.topics", f"{place} topics={len(usable)} partitions={partitions}: there, with their rights")


def _judge_access(place: str, need: TopicNeed, fact: TopicFacts) -> Iterator[Finding]:
    check = "kafka.topics" if need.right == READ else "kafka.publications"
    if fact.is_missing:
        if not need.is_made:
            setting = "source.topics" if need.right == READ else "the topic of the file"
            yield make_error(check, f"topic={need.topic} does not exist at {place}", f"create it, or correct {setting}")
        return
    if fact.problem:
        cause, _, advice = fact.problem.partition("; ")
        yield make_error(check, cause, advice)
        return
    if fact.leaderless:
        partitions = ", ".join(map(str, fact.leaderless))
        yield make_error(
            check,
            f"topic={need.topic} partitions={partitions} have no leader",
            "start the brokers that hold them, or elect a leader; no flush reads past them",
        )
    if fact.operations and need.right not in fact.operations:
        yield make_error(
            check,
            f"topic={need.topic}: the user of {place} has rights={','.join(sorted(fact.operations))} "
            f"and not {need.right}",
            "give it: kafka-acls.sh --add --allow-principal User:… "
            f"--operation {need.right.title()} --topic {need.topic}",
        )


def _judge_retention(need: TopicNeed, fact: TopicFacts) -> Iterator[Finding]:
    if need.right != READ:
        return
    if fact.settings is None:
        yield make_warning(
            "kafka.retention",
            f"topic={need.topic}: its settings may not be read, so that nobody warns before records expire",
            f"give the user DESCRIBE_CONFIGS on topic={need.topic}",
        )
        return
    policies = fact.settings.get("cleanup.policy", "delete").split(",")
    if "delete" in policies:
        yield from _judge_period(need, fact.settings, "retention.ms", "records")
    if "compact" in policies:
        yield from _judge_period(need, fact.settings, "delete.retention.ms", "deletes of compacted keys")


def _judge_period(need: TopicNeed, settings: Mapping[str, str], name: str, record_words: str) -> Iterator[Finding]:
    kept_ms = int(settings.get(name, -1))
    if kept_ms < 0:
        return
    kept_seconds = kept_ms / 1000
    pause = need.pause_seconds
    setting = f"topic={need.topic} {name}={kept_ms} keeps {record_words} for {kept_seconds:.0f} s"
    if pause and kept_seconds <= pause:
        yield make_error(
            "kafka.retention",
            f"{setting}, and two flushes lie {pause} s apart: they are gone before a flush reads them",
            f"raise {name} of the topic, or lower merge.interval",
        )
    elif kept_seconds < max(MIN_RETENTION_SECONDS, RETENTION_PAUSES * pause):
        yield make_warning(
            "kafka.retention",
            f"{setting}: a pipeline that stands still for that long loses them",
            f"raise {name} of the topic, best to seven days",
        )


def _judge_compaction(need: TopicNeed, fact: TopicFacts) -> Iterator[Finding]:
    if not need.must_compact or fact.settings is None:
        return
    policy = fact.settings.get("cleanup.policy", "delete")
    if policy != "compact":
        yield make_error(
            "kafka.publications",
            f"topic={need.topic} cleanup.policy={policy} lets the last record of a key go",
            "set cleanup.policy=compact on the topic, or allow_uncompacted: true where readers keep what they read",
        )


def _judge_size(fact: TopicFacts, receive_bytes: int) -> Iterator[Finding]:
    largest = int((fact.settings or {}).get("max.message.bytes", 0))
    if largest + RESPONSE_OVERHEAD_BYTES > receive_bytes:
        yield make_error(
            "kafka.message_size",
            f"topic={fact.topic} max.message.bytes={largest} is more than our client takes: "
            f"receive.message.max.bytes={receive_bytes}",
            f"set receive.message.max.bytes={largest + RESPONSE_OVERHEAD_BYTES} or more in the Kafka connection, or "
            "lower max.message.bytes of the topic",
        )


def _judge_clock(fact: TopicFacts, now_ms: int) -> Iterator[Finding]:
    ahead = (fact.newest_ms - now_ms) / 1000
    if ahead > MAX_FUTURE_SECONDS:
        is_brokers = (fact.settings or {}).get("message.timestamp.type") == "LogAppendTime"
        whose = "the brokers' clock" if is_brokers else "a producer's clock, or this machine's,"
        yield make_warning(
            "kafka.clock",
            f"topic={fact.topic}: its newest record lies ahead_seconds={ahead:.0f} in the future: {whose} is wrong",
            "set the clocks by NTP; lag in seconds and freshness are wrong until then",
        )


def judge_group(place: str, facts: GroupFacts) -> Iterator[Finding]:
    """What stands between a flush and its consumer group's offsets."""
    if facts.problem:
        cause, _, advice = facts.problem.partition("; ")
        yield make_error("kafka.group", cause, advice)
    elif facts.operations and READ not in facts.operations:
        yield make_error(
            "kafka.group",
            f"group={facts.group}: the user of {place} has rights={','.join(sorted(facts.operations))} and not READ",
            f"give it: kafka-acls.sh --add --allow-principal User:… --operation Read --group {facts.group}",
        )
    elif facts.members:
        yield make_error(
            "kafka.group",
            f"group={facts.group} has members={facts.members}: another client consumes in it, and brokers refuse "
            "commits from outside",
            "stop that client, or give the pipeline another source.group",
        )
    else:
        yield make_ok("kafka.group", f"group={facts.group}: offsets may be committed")
