"""Where each column of a table or a topic comes from, as plain values for a lineage service."""
