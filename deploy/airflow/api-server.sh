#!/usr/bin/env bash
# The API server, after the administrator's password has moved from its secret into the file that Airflow reads.
set -eu
python /opt/tidegate/deploy/airflow/passwords.py "$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE" /run/secrets/airflow_admin_password
exec airflow api-server --host 0.0.0.0 --port 8080
