"""One maintenance DAG for each pipeline file that is right, and the janitor's for the files that are gone."""

from tidegate.adapters.pipeline_file import load_all
from tidegate.pipeline import Pipeline
from tidegate.settings import include_folder
from tidegate_airflow.janitor_dag import janitor_dag
from tidegate_airflow.maintenance_dag import maintenance_dag

janitor = janitor_dag()

for name, pipeline in load_all(include_folder()):
    if isinstance(pipeline, Pipeline):
        globals()[f"tidegate_{name}_maintenance"] = maintenance_dag(pipeline)
