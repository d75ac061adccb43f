"""One maintenance DAG for each pipeline file that is right, and the janitor's for the files that are gone."""

from tidegate_airflow.dag_files import build_maintenance_dags

globals().update(build_maintenance_dags())
