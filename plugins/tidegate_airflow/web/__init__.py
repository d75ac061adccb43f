"""The operator's page: a FastAPI app inside Airflow's web server."""
