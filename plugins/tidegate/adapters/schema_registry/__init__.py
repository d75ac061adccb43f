"""Schemas of keys and values from a registry or a descriptor file."""
