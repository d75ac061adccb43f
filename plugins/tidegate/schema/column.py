"""A column of a table: its name, its type in Spark's words, and whether it may be NULL."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column as the user or a table declares it; `type` is Spark DDL, e.g. ``DECIMAL(12,2)``."""

    name: str
    type: str
    nullable: bool = True
