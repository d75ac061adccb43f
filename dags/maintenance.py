"""One maintenance DAG for each pipeline file that is right; the others are told about in refused_pipelines.py."""

from tidegate.adapters.pipeline_file import load_all
from tidegate.pipeline import Pipeline
from tidegate.settings import include_folder
from tidegate_airflow.maintenance_dag import maintenance_dag

for name, pipeline in load_all(include_folder()):
    if isinstance(pipeline, Pipeline):
        globals()[f"tidegate_{name}_maintenance"] = maintenance_dag(pipeline)
