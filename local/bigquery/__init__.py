"""The local server that answers like BigQuery: its environment, its launcher, and how the stack starts it."""
