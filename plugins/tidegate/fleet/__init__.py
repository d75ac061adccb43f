"""Pipelines that flush together: one look at all members, and the steps that run once for all of them.

Each member's failure stays its own: for how long one waits is decided in `monitoring.failure_streak`, for runs
in Airflow and for `tidegate run` alike. Nothing here knows a server, or Airflow.
"""
