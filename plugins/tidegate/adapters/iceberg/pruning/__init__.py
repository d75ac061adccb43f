"""From file statistics to the literal bounds of a merge, so that Spark opens few files."""
