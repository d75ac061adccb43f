"""BigQuery as a destination and as an engine: the port, the publishing script, the position table, types and layout."""
