#!/usr/bin/env bash
# Before each of Airflow's services: its secrets, from the files that docker-compose.yaml gives it, become the variables that
# Airflow and the connections read. The container's own settings, which `docker inspect` shows, hold none. Where there are no
# such files, as on Kubernetes, the variables are there already.
set -eu
secrets=/run/secrets
read_secret() { cat "$secrets/$1"; }

if [ -f "$secrets/airflow_db_password" ]; then
    AIRFLOW__CORE__FERNET_KEY="$(read_secret airflow_fernet_key)"
    AIRFLOW__API__SECRET_KEY="$(read_secret airflow_secret_key)"
    AIRFLOW__API_AUTH__JWT_SECRET="$(read_secret airflow_jwt_secret)"
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN="postgresql+psycopg2://airflow:$(read_secret airflow_db_password)@postgres:5432/airflow"
    AIRFLOW_CONN_LAKE_CATALOG="$(printf '{"conn_type": "generic", "login": "iceberg", "password": "%s", "extra": {"s3.access-key-id": "%s", "s3.secret-access-key": "%s"}}' \
        "$(read_secret iceberg_db_password)" "$(read_secret lake_access_key)" "$(read_secret lake_secret_key)")"
    export AIRFLOW__CORE__FERNET_KEY AIRFLOW__API__SECRET_KEY AIRFLOW__API_AUTH__JWT_SECRET
    export AIRFLOW__DATABASE__SQL_ALCHEMY_CONN AIRFLOW_CONN_LAKE_CATALOG
fi
if [ -f "$secrets/tidegate_metrics_token" ]; then  # the API server's alone
    TIDEGATE_METRICS_TOKEN="$(read_secret tidegate_metrics_token)"
    export TIDEGATE_METRICS_TOKEN
fi
exec "$@"
