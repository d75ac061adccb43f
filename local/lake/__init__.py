"""What an Iceberg catalog and its files lie on beyond one machine: PostgreSQL, a REST catalog, and a server like S3."""
