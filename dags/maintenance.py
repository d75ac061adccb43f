"""One maintenance DAG for each pipeline file that is right, and the janitor's for the files that are gone."""

from tidegate_airflow.dags.janitor import build_janitor_dag
from tidegate_airflow.dags.maintenance import build_maintenance_dag
from tidegate_airflow.pipeline_files import load_needed_pipelines

janitor = build_janitor_dag()

for name, pipeline in load_needed_pipelines():
    globals()[f"tidegate_{name}_maintenance"] = build_maintenance_dag(pipeline)
