"""Where the columns of a record's key and value come from, when the pipeline file does not state them."""

from typing import Protocol

from tidegate.spec.table import Table


class Schemas(Protocol):
    """Where keys and values are described outside of the pipeline file."""

    def describe_table(self, table: Table) -> Table:
        """`table` with columns and decoding options of its formats; the same answer for the life of this object."""
        ...


class DeclaredSchemas:
    """Implements `Schemas` for formats that the pipeline file or the destination describes."""

    def describe_table(self, table: Table) -> Table:
        """The table as it is."""
        return table
