#!/bin/sh
# Prometheus reads the token of the metrics from a file; it comes as a variable, as all secrets of the stack do.
set -eu
umask 077
printf %s "$TIDEGATE_METRICS_TOKEN" > /prometheus/tidegate-metrics-token
exec /bin/prometheus --config.file=/etc/prometheus/prometheus.yml --storage.tsdb.path=/prometheus
