"""The flush as Airflow sees it: DAGs, tasks, connections and what becomes of each kind of failure."""
