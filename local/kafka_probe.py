"""Owns the question whether the broker really works: it lists topics and asks for a consumer group's offsets.

A process of its own, because the client library's threads have no place in the supervisor.
"""

import sys

from confluent_kafka import Consumer, TopicPartition

PROBE_NAME = "tidegate-probe"
TIMEOUT_SECONDS = 10


def main(bootstrap: str) -> int:
    """0 when the broker answered both questions (the second makes it create the topic of the groups' offsets)."""
    # Not AdminClient.list_consumer_group_offsets: 2.16.0 crashes when the groups' coordinator is still loading.
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": PROBE_NAME})
    try:
        consumer.list_topics(timeout=TIMEOUT_SECONDS)
        consumer.committed([TopicPartition(PROBE_NAME, 0)], timeout=TIMEOUT_SECONDS)
    finally:
        consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
