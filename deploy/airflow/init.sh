#!/usr/bin/env bash
# Once before Airflow's services: the metadata tables, and a pool for each catalog. Harmless when run again.
set -eu
airflow db migrate
folder="$(mktemp -d)"
airflow pools export "$folder/existing.json"
python /opt/tidegate/deploy/airflow/pools.py "$TIDEGATE_INCLUDE/catalogs.yaml" "$folder/existing.json" \
    > "$folder/missing.json"
airflow pools import "$folder/missing.json"
