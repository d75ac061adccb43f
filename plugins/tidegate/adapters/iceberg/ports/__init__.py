"""Iceberg behind the ports of a destination: each method is a thin call into the packages beside this."""
