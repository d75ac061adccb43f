"""The DAGs of each right pipeline file, but maintenance, and of fleets; refused_pipelines.py tells about the rest."""

from tidegate_airflow.dag_files import build_pipeline_dags

globals().update(build_pipeline_dags())
