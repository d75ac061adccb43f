"""Kafka Connect, and the sinks that run in it: their REST address, their groups, and what they announce on topics."""
