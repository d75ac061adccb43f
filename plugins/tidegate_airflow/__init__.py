"""What Airflow adds: task callables, the mapping of errors, connections, schedule, assets, metrics."""
