#!/bin/sh
# SeaweedFS in one process, with one user, who may do to the lake's bucket what the product needs, and nothing else.
set -eu
umask 077
LAKE_ACCESS_KEY="$(cat /run/secrets/lake_access_key)"
LAKE_SECRET_KEY="$(cat /run/secrets/lake_secret_key)"
cat > /tmp/s3.json <<EOF
{"identities": [{"name": "lake",
  "credentials": [{"accessKey": "$LAKE_ACCESS_KEY", "secretKey": "$LAKE_SECRET_KEY"}],
  "actions": ["Read:lake", "Write:lake", "List:lake", "Tagging:lake"]}]}
EOF
exec weed server -dir=/data -ip=object-store -ip.bind=0.0.0.0 -volume.max=0 -master.volumeSizeLimitMB=1024 \
    -filer -s3 -s3.port=8333 -s3.config=/tmp/s3.json
