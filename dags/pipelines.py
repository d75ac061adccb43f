"""The DAGs of each pipeline file that is right, but maintenance; refused_pipelines.py tells about the others."""

from tidegate_airflow.backfill_dag import backfill_dag
from tidegate_airflow.dag_files import pipelines
from tidegate_airflow.flush_dag import flush_dag
from tidegate_airflow.replay_dag import replay_dag, sets_aside

for name, pipeline in pipelines():
    globals()[f"tidegate_{name}"] = flush_dag(pipeline)
    globals()[f"tidegate_{name}_backfill"] = backfill_dag(pipeline)
    if sets_aside(pipeline):
        globals()[f"tidegate_{name}_replay"] = replay_dag(pipeline)
