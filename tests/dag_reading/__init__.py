"""Reads the DAG files as Airflow's DAG processor does, in a process of its own, and tells what it saw as JSON."""
