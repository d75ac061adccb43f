"""The Airflow of the local stack: its settings, its database and its four services."""
