"""Where each column of a table or a topic comes from, as plain values: what is told to a lineage service."""
