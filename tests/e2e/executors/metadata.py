"""Queries of Airflow's metadata database: which tasks run in which process, and how often each was tried."""

from dataclasses import dataclass
from typing import Any

import psycopg2

from local.lake.plan import METADATA_DATABASE

RUNNING = """
SELECT run_id, map_index, try_number, pid FROM task_instance
WHERE dag_id = %s AND task_id = %s AND state = 'running' AND pid IS NOT NULL
"""


@dataclass(frozen=True)
class RunningTask:
    """One try of a task, with the id of the process that runs the task's code."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int
    try_number: int
    pid: int


class Metadata:
    """A connection for each question: the server may be away in between."""

    def __init__(self, variables: dict[str, str]) -> None:
        uri = variables["POSTGRES_URI"].rpartition("/")[0]
        self._address = {
            "dsn": f"{uri}/{METADATA_DATABASE}",
            "user": variables["POSTGRES_USER"],
            "password": variables["POSTGRES_PASSWORD"],
        }

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        connection = psycopg2.connect(**self._address, connect_timeout=10)
        try:
            with connection.cursor() as cursor:
                cursor.execute(query, values)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def is_answering(self) -> bool:
        try:
            return self.ask("SELECT 1") == [(1,)]
        except psycopg2.OperationalError:
            return False

    def find_running(self, dag_id: str, task_id: str) -> RunningTask | None:
        rows = self.ask(RUNNING, dag_id, task_id)
        return RunningTask(dag_id, task_id, *rows[0]) if rows else None

    def is_running(self, task: RunningTask) -> bool:
        return self.find_running(task.dag_id, task.task_id) == task

    def count_tries(self, task: RunningTask) -> int:
        where = "dag_id = %s AND task_id = %s AND run_id = %s AND map_index = %s"
        query = f"SELECT max(try_number) FROM task_instance WHERE {where}"
        return int(self.ask(query, task.dag_id, task.task_id, task.run_id, task.map_index)[0][0] or 0)

    def read_state(self, task: RunningTask) -> str:
        """The state of the task's run."""
        return str(
            self.ask("SELECT state FROM dag_run WHERE dag_id = %s AND run_id = %s", task.dag_id, task.run_id)[0][0]
        )

    def count_versions(self, dag_id: str) -> int:
        return int(self.ask("SELECT count(*) FROM dag_version WHERE dag_id = %s", dag_id)[0][0])

    def count_schedulers(self) -> int:
        """How many are alive."""
        alive = "state = 'running' AND latest_heartbeat > now() - interval '30 seconds'"
        return int(self.ask(f"SELECT count(*) FROM job WHERE job_type = 'SchedulerJob' AND {alive}")[0][0])

    def list_schedulers_of_tasks(self) -> list[int]:
        """The jobs of the schedulers that have queued tasks."""
        rows = self.ask("SELECT DISTINCT queued_by_job_id FROM task_instance WHERE queued_by_job_id IS NOT NULL")
        return [int(row[0]) for row in rows]
