#!/usr/bin/env bash
# One image, three servers: `master`, `worker`, `connect`. Each stays in the foreground, so that a stop reaches it.
set -eu
master="${SPARK_MASTER:-spark://spark-master:7077}"

case "${1:-}" in
    master)
        exec spark-class org.apache.spark.deploy.master.Master --host "$(hostname)" --port 7077 --webui-port 8080
        ;;
    worker)
        exec spark-class org.apache.spark.deploy.worker.Worker --webui-port 8081 --work-dir /var/spark/work \
            --cores "${SPARK_WORKER_CORES:-4}" --memory "${SPARK_WORKER_MEMORY:-4g}" "$master"
        ;;
    connect)
        # The same program as local/spark.py. It leaves cores to applications of spark.mode: submit.
        exec spark-submit --master "$master" \
            --conf "spark.driver.host=$(hostname)" --conf spark.driver.bindAddress=0.0.0.0 \
            --conf "spark.driver.memory=${SPARK_DRIVER_MEMORY:-2g}" \
            --conf "spark.executor.memory=${SPARK_EXECUTOR_MEMORY:-2g}" \
            --conf "spark.cores.max=${SPARK_CONNECT_CORES:-2}" \
            /opt/tidegate/serve.py
        ;;
    *)
        echo "tidegate-spark: say master, worker or connect, not '${1:-}'" >&2
        exit 2
        ;;
esac
