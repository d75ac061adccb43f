"""Single-message transforms of Kafka Connect, in Tidegate's words: what each makes of a record."""
