"""A pipeline's table by its name."""

from tidegate.ports.context import Ports
from tidegate.spec.table import Table
from tidegate.tables.dimension_tables import described
from tidegate.tables.templated_tables import concrete


def table_named(ports: Ports, name: str) -> Table:
    """The pipeline's table of that name, as its schemas describe it; one that is not among them its template made."""
    found = next((table for table in ports.pipeline.tables if table.name == name), None)
    return described(ports, found or concrete(ports.pipeline, name))
