"""Which offsets become the next batch: where to stop, how many, which keys to skip, which tables are blocked."""
