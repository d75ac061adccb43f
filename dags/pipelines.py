"""The DAGs of each pipeline file that is right, but maintenance; refused_pipelines.py tells about the others."""

from tidegate_airflow.dags.backfill import build_backfill_dag
from tidegate_airflow.dags.flush import build_flush_dag
from tidegate_airflow.dags.replay import build_replay_dag, can_replay
from tidegate_airflow.pipeline_files import load_needed_pipelines

for name, pipeline in load_needed_pipelines():
    globals()[f"tidegate_{name}"] = build_flush_dag(pipeline)
    globals()[f"tidegate_{name}_backfill"] = build_backfill_dag(pipeline)
    if can_replay(pipeline):
        globals()[f"tidegate_{name}_replay"] = build_replay_dag(pipeline)
