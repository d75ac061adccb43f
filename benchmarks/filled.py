"""Owns tables that hold many rows before anything is measured: laid out as the product made them, filled by hand."""

from typing import Any

from benchmarks import product
from benchmarks.product import Lake
from benchmarks.spark_server import SparkServer
from benchmarks.work import Filled, create_topic, generate_changes, render_filling, send_all

SEED_ROWS = 100


def fill(server: SparkServer, lake: Lake, name: str, rows: int, max_records: int, **table_keys: Any) -> Filled:
    """A pipeline whose table has so many rows: its first flush makes the table, one INSERT of Spark's the rest.

    `table_keys` are further keys of the table's entry in the file.
    """
    bootstrap = server.stack.kafka_bootstrap
    create_topic(bootstrap, name)
    table = lake.write_pipeline(name, name, max(max_records, SEED_ROWS), **table_keys)
    records = Filled(rows)
    first = generate_changes(range(SEED_ROWS), rows, rows)
    send_all(bootstrap, name, map(records.change, first))
    product.flush(server, lake, name)
    product.run_statements(server, lake, f"INSERT INTO {table} {render_filling(SEED_ROWS, rows)}")
    return records
