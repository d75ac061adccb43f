"""Triggers: a backlog that asks for a flush, a BigQuery job that has ended."""
