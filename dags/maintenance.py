"""One maintenance DAG for each pipeline file that is right, and the janitor's for the files that are gone."""

from tidegate_airflow.dag_files import pipelines
from tidegate_airflow.janitor_dag import janitor_dag
from tidegate_airflow.maintenance_dag import maintenance_dag

janitor = janitor_dag()

for name, pipeline in pipelines():
    globals()[f"tidegate_{name}_maintenance"] = maintenance_dag(pipeline)
