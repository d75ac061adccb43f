"""One module per envelope of change data capture.

Debezium, Canal, Maxwell and the like, decoded to upserts and deletes.
"""
