"""Flink SQL: its statements taken apart, and the tables, catalogs and inserts among them as a pipeline."""
