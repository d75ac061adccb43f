"""The nouns of a record's journey from Kafka to its destination, with nothing but the standard library."""
