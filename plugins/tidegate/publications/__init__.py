"""The way back: what changes in a table is produced to Kafka as an upsert topic."""
