"""What brokers tell of themselves, of topics and of groups, asked for a diagnosis: short waits, and nothing changed."""
