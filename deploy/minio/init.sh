#!/bin/sh
# Once before the first record: the lake's bucket, and a user that may use it. Harmless when run again.
set -eu
# From the environment and from standard input, so that no command line shows a secret.
export MC_HOST_lake="http://$MINIO_ROOT_USER:$MINIO_ROOT_PASSWORD@minio:9000"
mc mb --ignore-existing lake/lake
printf '%s\n%s\n' "$LAKE_ACCESS_KEY" "$LAKE_SECRET_KEY" | mc admin user add lake
mc admin policy attach lake readwrite --user "$LAKE_ACCESS_KEY" \
    || mc admin user info lake "$LAKE_ACCESS_KEY" | grep -q readwrite
