"""Which columns a SELECT reads for each column that it makes, before it is known where these come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.lineage.dataset import Transformation


@dataclass(frozen=True)
class Read:
    """A column that is read: `source` is the alias of a table in the statement, or that of the record."""

    source: str
    column: str
    how: Transformation = Transformation.IDENTITY


@dataclass(frozen=True)
class StatementReads:
    """What a statement reads: for each column of its answer, in order, and to choose, join and group rows."""

    columns: Mapping[str, tuple[Read, ...]] = field(default_factory=dict)
    rows: tuple[Read, ...] = ()
