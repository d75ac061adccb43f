"""The DAGs of each pipeline file that is right, but maintenance; refused_pipelines.py tells about the others."""

from tidegate_airflow.dag_files import build_pipeline_dags

globals().update(build_pipeline_dags())
