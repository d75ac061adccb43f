"""The old name of `triggers.backlog`, stored by tasks that version 0.1 deferred; removed in 0.3."""

from tidegate_airflow.triggers.backlog import BacklogTrigger

__all__ = ["BacklogTrigger"]
