"""A pipeline's table by its name."""

from tidegate.ports.context import Ports
from tidegate.spec.table import Table
from tidegate.tables.dimension_tables import describe_table
from tidegate.tables.templated_tables import make_concrete_table


def find_table(ports: Ports, name: str) -> Table:
    """The pipeline's table of that name, as its schemas describe it; one that is not among them its template made."""
    configured_table = next((table for table in ports.pipeline.tables if table.name == name), None)
    return describe_table(ports, configured_table or make_concrete_table(ports.pipeline, name))
