"""What facts about brokers mean: a right that is missing, records that expire too soon, messages that are too large."""

from dataclasses import replace
from typing import Any

import pytest
from seeded_mistakes import require_found
from tidegate.diagnosis.brokers import GroupFacts, TopicFacts, TopicNeed, judge_group, judge_topics
from tidegate.diagnosis.finding import Severity

DAY_MS = 86_400_000
SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * DAY_MS),
    "delete.retention.ms": str(DAY_MS),
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
}
NEED = TopicNeed("orders", "READ", "one", pause_seconds=60)
OUTPUT_NEED = TopicNeed("orders", "WRITE", "out", must_compact=True)
FACTS = TopicFacts("orders", partitions=2, operations=frozenset({"READ", "DESCRIBE"}), settings=SETTINGS)
WRITABLE = replace(
    FACTS, operations=frozenset({"WRITE", "DESCRIBE"}), settings={**SETTINGS, "cleanup.policy": "compact"}
)


def judge(need: TopicNeed, facts: TopicFacts) -> list[Any]:
    other_need = replace(need, topic="other")
    facts_by_topic = {"orders": facts, "other": replace(FACTS, topic="other", operations=frozenset())}
    return list(
        judge_topics(
            "brokers=b:1", [need, replace(other_need, right="READ", must_compact=False)], facts_by_topic, 10**8, 0
        )
    )


def test_topics_that_are_right_are_told_once() -> None:
    assert [(finding.check, finding.severity) for finding in judge(NEED, FACTS)] == [("kafka.topics", Severity.OK)]
    assert [finding.severity for finding in judge(OUTPUT_NEED, WRITABLE)] == [Severity.OK]
    assert "topics=2 partitions=4" in judge(NEED, FACTS)[0].cause


@pytest.mark.parametrize(
    ("name", "need", "facts"),
    [
        ("topic-describe-only", NEED, {"operations": frozenset({"DESCRIBE"})}),
        ("topic-without-leader", NEED, {"leaderless": (1,)}),
        (
            "retention-below-pause",
            replace(NEED, pause_seconds=3600),
            {"settings": {**SETTINGS, "retention.ms": "60000"}},
        ),
        ("retention-short", NEED, {"settings": {**SETTINGS, "retention.ms": "7200000"}}),
        ("settings-not-readable", NEED, {"settings": None}),
        ("messages-too-large", NEED, {"settings": {**SETTINGS, "max.message.bytes": "200000000"}}),
        ("records-of-tomorrow", NEED, {"newest_ms": DAY_MS}),
        ("publication-without-write", OUTPUT_NEED, {}),
        ("topic-not-compacted", OUTPUT_NEED, {"operations": frozenset({"WRITE"})}),
    ],
)
def test_mistake_of_a_topic_is_found(name: str, need: TopicNeed, facts: dict[str, Any]) -> None:
    require_found(name, judge(need, replace(FACTS, **facts)))


def test_topic_that_is_not_there_is_told_with_nothing_that_follows() -> None:
    [missing, *other_findings] = judge(replace(NEED, topic="orders"), TopicFacts("orders", is_missing=True))
    assert (missing.cause, missing.used_by) == ("topic=orders does not exist at brokers=b:1", ("one",))
    assert [finding.severity for finding in other_findings] == [Severity.OK]


def test_missing_topic_that_the_product_makes_is_no_error() -> None:
    findings = judge(replace(OUTPUT_NEED, is_made=True), TopicFacts("orders", is_missing=True))
    assert [finding.severity for finding in findings] == [Severity.OK]


def test_right_to_a_topic_of_heartbeats_stops_no_flush() -> None:
    [finding, *_] = judge(replace(OUTPUT_NEED, is_optional=True), FACTS)
    assert (finding.check, finding.severity) == ("kafka.publications", Severity.WARNING)


def test_deletes_of_a_compacted_topic_must_outlive_the_pause() -> None:
    settings = {**SETTINGS, "cleanup.policy": "compact", "delete.retention.ms": "1000"}
    [finding, *_] = judge(NEED, replace(FACTS, settings=settings))
    assert finding.severity is Severity.ERROR
    assert "delete.retention.ms=1000 keeps deletes of compacted keys for 1 s" in finding.cause


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("group-describe-only", GroupFacts("g", operations=frozenset({"DESCRIBE"}))),
        ("group-in-use", GroupFacts("g", members=2)),
    ],
)
def test_mistake_of_a_group_is_found(name: str, facts: GroupFacts) -> None:
    require_found(name, judge_group("brokers=b:1", facts))


def test_group_of_brokers_that_tell_no_rights_may_be_committed() -> None:
    assert [finding.severity for finding in judge_group("b", GroupFacts("g"))] == [Severity.OK]
