"""Columns and data types: Spark's type texts, schema evolution, and what Avro, Protobuf and JSON Schema say."""
