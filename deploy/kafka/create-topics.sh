#!/usr/bin/env bash
# The topics of include/pipelines; the broker does not create them by itself, so that a mistyped name is an error.
set -eu
for topic in shop.public.customers shop.public.orders shop.public.order_lines; do
    /opt/kafka/bin/kafka-topics.sh --bootstrap-server kafka:9092 --create --if-not-exists \
        --topic "$topic" --partitions 4 --replication-factor 1
done
