#!/usr/bin/env bash
# Runs once, on an empty data volume: a role and a database each for Airflow's metadata and for the Iceberg catalog.
set -eu

# Passwords are read by psql itself, so that no command line shows them.
AIRFLOW_DB_PASSWORD="$(cat /run/secrets/airflow_db_password)"
ICEBERG_DB_PASSWORD="$(cat /run/secrets/iceberg_db_password)"
export AIRFLOW_DB_PASSWORD ICEBERG_DB_PASSWORD
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\getenv airflow_password AIRFLOW_DB_PASSWORD
\getenv iceberg_password ICEBERG_DB_PASSWORD
CREATE ROLE airflow LOGIN PASSWORD :'airflow_password';
CREATE DATABASE airflow OWNER airflow;
CREATE ROLE iceberg LOGIN PASSWORD :'iceberg_password';
CREATE DATABASE iceberg OWNER iceberg;
SQL

# Spark's and PyIceberg's catalogs both create these tables when they are missing; two first users at once collide.
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname iceberg <<'SQL'
SET ROLE iceberg;
CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
);
CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL,
    property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000) NOT NULL,
    PRIMARY KEY (catalog_name, namespace, property_key)
);
SQL
