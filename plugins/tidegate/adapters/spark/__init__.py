"""Spark as an engine: Connect and spark-submit, and where they run."""
