"""What the adapter of a destination gives a pipeline: its ports, and what runs its statements."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.ports.destination import Destination
from tidegate.ports.session import Engine, Sql


@dataclass(frozen=True)
class OpenedDestination:
    """The ports over catalogs of one type; `engines` and `dialects` by name of the catalogs that Spark does not run."""

    session: Destination
    engines: Mapping[str, Engine] = field(default_factory=dict)
    dialects: Mapping[str, Sql] = field(default_factory=dict)
