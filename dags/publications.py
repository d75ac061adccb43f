"""A DAG for each publication file that is right; refused_pipelines.py tells about the others."""

from tidegate_airflow.dag_files import build_publication_dags

globals().update(build_publication_dags())
