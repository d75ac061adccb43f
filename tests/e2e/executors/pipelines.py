"""The pipelines of these tests: one of one table, one of two, one that keeps every record, and a fleet of two."""

KEY = "{format: json, fields: [id], schema: id BIGINT}"
VALUE = '{format: json, schema: "id BIGINT, name STRING"}'
NAMESPACE = "lives"
PARTITIONS = 4
UPPER = "SELECT id, CAST(upper(name) AS STRING) AS name FROM record"
JOURNAL = "journal"  # its table keeps every record with its place
FLEET = {"tug", "barge"}


def describe(name: str, tables: str, more: str = "") -> str:
    """A pipeline file that flushes the topic of its name every few seconds."""
    return f"""
source:
  topics: [{name}]
  key: {KEY}
  value: {VALUE}
  errors: {{tolerance: none}}
tables:
{tables}
merge: {{interval: 5s}}
{more}"""


def render_table(name: str, more: str = "") -> str:
    return f"  - {{name: lake.{NAMESPACE}.{name}{more}}}\n"


def render_upper_table(name: str) -> str:
    return render_table(name, f', select: "{UPPER}"')


# the tables of each pipeline; a table's name ends in _upper where its names are written in capitals
TABLES = {
    "orders": ["orders"],
    "pairs": ["pairs", "pairs_upper"],
    JOURNAL: [JOURNAL],
    **{name: [name] for name in sorted(FLEET)},
}


def describe_pipeline(name: str, tables: list[str]) -> str:
    """The file of a pipeline that writes these tables."""
    if name == JOURNAL:
        text = describe(name, render_table(name, ", upsert: false, delete: false"))
        return text.replace("  errors:", "  metadata: {place: offset, part: partition}\n  errors:")
    lines = "".join(render_upper_table(table) if table.endswith("_upper") else render_table(table) for table in tables)
    return describe(name, lines, "fleet: quay\n" if name in FLEET else "")


def find_dag(pipeline: str) -> str:
    """The DAG that flushes it."""
    return "tidegate_fleet_quay" if pipeline in FLEET else f"tidegate_{pipeline}"


DAGS = sorted({find_dag(name) for name in TABLES})
