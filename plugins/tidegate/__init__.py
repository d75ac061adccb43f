"""What every package may use: errors, settings, connections, redaction of secrets, failpoints; and the entry point."""
