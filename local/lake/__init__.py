"""The servers behind an Iceberg catalog and its files: PostgreSQL, a REST catalog, and a server like S3."""
