"""A DAG for each fleet: the pipelines that flush together; refused_pipelines.py tells about files that are wrong."""

from tidegate_airflow.dag_files import build_fleet_dags

globals().update(build_fleet_dags())
