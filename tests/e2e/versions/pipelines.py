"""The pipelines that one version begins and the next goes on with, in words that both know."""

from e2e.executors.pipelines import KEY, NAMESPACE, VALUE, render_table, render_upper_table

DATASET = "versions"
THRESHOLD = 1000
# the tables of each pipeline; a table's name ends in _upper where its names are written in capitals
TABLES = {
    "orders": ["orders"],
    "pairs": ["pairs", "pairs_upper"],
    "odd": ["odd"],  # meets a record that cannot be read
    "tug": ["tug"],  # moves into a fleet, which the older version does not know
    "counted": ["counted"],  # flushes when a trigger says so
}
# in BigQuery: one whose stage, and one whose merge is put aside for a job that takes long
LOADED, PUBLISHED = "parcels", "letters"
WAREHOUSE = (LOADED, PUBLISHED)
PIPELINES = (*TABLES, *WAREHOUSE)
PUBLICATION = "orders_out"
FLEET = "quay"


def describe(name: str, tolerance: str = "none", more: str = "") -> str:
    """The file of a pipeline whose schedule is too long to come into play: its runs are asked for."""
    lines = f"  - {{name: dwh.{DATASET}.{name}}}\n" if name in WAREHOUSE else ""
    lines += "".join(
        render_upper_table(table) if table.endswith("_upper") else render_table(table) for table in TABLES.get(name, ())
    )
    when = f"{{interval: -1, records_threshold: {THRESHOLD}}}" if name == "counted" else "{interval: 24h}"
    return f"""
source:
  topics: [{name}]
  key: {KEY}
  value: {VALUE}
  errors: {{tolerance: {tolerance}}}
tables:
{lines}
merge: {when}
heartbeat: {{interval: 24h}}
{more}"""


def describe_publication() -> str:
    """The way back of the first one's table."""
    return f"""
table: lake.{NAMESPACE}.orders
topic: {PUBLICATION}
key: {{fields: [id]}}
delivery: exactly-once
parallelism: 2
"""
