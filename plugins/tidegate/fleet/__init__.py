"""Pipelines that flush together: one look at all members, and the steps that run once for all of them.

Each member's failure stays its own. Nothing here knows a server, or Airflow.
"""
