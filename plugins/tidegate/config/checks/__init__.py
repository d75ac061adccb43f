"""Checks across several keys: one module per subject, each appending problems."""
