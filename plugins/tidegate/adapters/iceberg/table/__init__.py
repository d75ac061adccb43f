"""One Iceberg table: its catalog, state, commits, files, types and the errors of all these."""
