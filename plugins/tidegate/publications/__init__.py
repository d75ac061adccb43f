"""The way back: plan and publish a table's changes to Kafka, and report on it."""
