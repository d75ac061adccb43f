"""Reads the DAG files as Airflow's DAG processor does, in its own process, and prints a report as JSON."""
