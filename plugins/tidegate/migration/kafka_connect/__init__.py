"""The settings of Kafka Connect's sinks, and of Debezium Server: converters, transforms, catalogs, tables."""
