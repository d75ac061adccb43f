"""Texts of a file taken apart: YAML with its lines, Spark DDL, SELECT, cron; and the list of problems."""
