"""The DAGs of each pipeline file that is right, but maintenance; refused_pipelines.py tells about the others."""

from tidegate_airflow.dags.backfill import backfill_dag
from tidegate_airflow.dags.flush import flush_dag
from tidegate_airflow.dags.replay import replay_dag, sets_aside
from tidegate_airflow.pipeline_files import pipelines

for name, pipeline in pipelines():
    globals()[f"tidegate_{name}"] = flush_dag(pipeline)
    globals()[f"tidegate_{name}_backfill"] = backfill_dag(pipeline)
    if sets_aside(pipeline):
        globals()[f"tidegate_{name}_replay"] = replay_dag(pipeline)
