"""The tables that tidegate itself keeps in an Iceberg catalog.

Staging, batch history, dead letters, remembered deletes.
"""
