"""The operator's page inside Airflow: how far behind each pipeline is, what is wrong, and what to do about it."""
