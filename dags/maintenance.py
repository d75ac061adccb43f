"""One maintenance DAG for each pipeline file that is right, and the janitor's for the files that are gone."""

from tidegate_airflow.dags.janitor import janitor_dag
from tidegate_airflow.dags.maintenance import maintenance_dag
from tidegate_airflow.pipeline_files import pipelines

janitor = janitor_dag()

for name, pipeline in pipelines():
    globals()[f"tidegate_{name}_maintenance"] = maintenance_dag(pipeline)
