"""Owns the question whether the brokers really work: one lists topics and tells a consumer group's offsets.

Where log-ins are asked for, it first gives the stack's user its rights. A process of its own, because the client
library's threads have no place in the supervisor.
"""

import json
import os
import sys
from collections.abc import Iterator

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from local.kafka.security import USER
from local.server import PROBE_VARIABLE

PROBE_NAME = "tidegate-probe"
TIMEOUT_SECONDS = 10
# docs/security.md; records of every topic, as pipelines and publications to come are not known
RIGHTS = (
    (ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, "CREATE READ WRITE DESCRIBE_CONFIGS"),
    (ResourceType.GROUP, "tidegate-", ResourcePatternType.PREFIXED, "READ"),
    (ResourceType.TRANSACTIONAL_ID, "tidegate-", ResourcePatternType.PREFIXED, "WRITE"),
)


def main(settings: dict[str, str]) -> int:
    """0 when a broker answered both questions (the second makes it create the topic of the groups' offsets)."""
    if "sasl.username" in settings:
        admin = AdminClient(settings)  # what it was asked is forgotten with it
        for future in admin.create_acls(list(build_rights()), request_timeout=TIMEOUT_SECONDS).values():
            future.result(TIMEOUT_SECONDS)
    # Not AdminClient.list_consumer_group_offsets: 2.16.0 crashes when the groups' coordinator is still loading.
    consumer = Consumer({**settings, "group.id": PROBE_NAME})
    try:
        consumer.list_topics(timeout=TIMEOUT_SECONDS)
        consumer.committed([TopicPartition(PROBE_NAME, 0)], timeout=TIMEOUT_SECONDS)
    finally:
        consumer.close()
    return 0


def build_rights() -> Iterator[AclBinding]:
    """The access rights of the user in the stack's connection."""
    for kind, name, pattern, operations in RIGHTS:
        for operation in operations.split():
            action = (AclOperation[operation], AclPermissionType.ALLOW)
            yield AclBinding(kind, name, pattern, f"User:{USER}", "*", *action)


if __name__ == "__main__":
    sys.exit(main(json.loads(os.environ[PROBE_VARIABLE])))
