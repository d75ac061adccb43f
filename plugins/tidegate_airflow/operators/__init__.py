"""Deferrable and submitting operators, laid out as an Airflow provider lays them out."""
