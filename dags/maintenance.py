"""A maintenance DAG for each right pipeline file, the janitor's for the files that are gone, and that of heartbeats."""

from tidegate_airflow.dag_files import build_maintenance_dags

globals().update(build_maintenance_dags())
