"""The Kafka of a local stack: one broker or three, open to this machine or behind TLS, log-ins and rights."""
