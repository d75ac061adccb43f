"""The old name of `triggers.bigquery_job`, stored by tasks that version 0.1 deferred; removed in 0.3."""

from tidegate_airflow.triggers.bigquery_job import JobTrigger

__all__ = ["JobTrigger"]
