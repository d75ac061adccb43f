"""The description of one type of destination."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import Field

from tidegate.adapters.catalog_routing import OpenedDestination
from tidegate.adapters.open_clients import OpenClients
from tidegate.config.models.formats import StrictModel
from tidegate.config.models.pipeline import PipelineModel
from tidegate.config.models.table_entry import TableEntry
from tidegate.config.parsing.problems import Problems
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.connections import Resolve
from tidegate.diagnosis.finding import Finding
from tidegate.errors import TidegateError
from tidegate.lineage.dataset import Dataset
from tidegate.model.ownership import PipelineLeftovers
from tidegate.ports.publication_session import Snapshots
from tidegate.sinks.world import SinkNotes
from tidegate.spec.pipeline import Catalog, Pipeline


class CatalogModel(StrictModel, ABC):
    """What all types of catalog share."""

    connection: str | None = Field(default=None, min_length=1, description="Airflow connection that holds the secrets.")

    @abstractmethod
    def to_shared_properties(self) -> dict[str, Any]:
        """Under the names that the destination's client knows."""


class CatalogProbe(Protocol):
    """Cheap reads of one catalog; its errors name the way out."""

    def connect(self) -> Iterator[Finding]:
        """Whether it answers and lets us in."""

    def check_namespace(self, namespace: str, scratch: str | None) -> Iterator[Finding]:
        """Whether tables may be made there. Makes and removes something named `scratch`; None makes nothing."""


@dataclass(frozen=True)
class DestinationType:
    """What tables of this type can do, and the functions that check, open and clean up its catalogs.

    - `name`, `title`: its word after `type:` in ``catalogs.yaml``, and its name in messages.
    - `model`: how a catalog is declared. `check_catalog` notes what is wrong with the declared properties.
    - `check_table` notes what its tables cannot have; `check_pipeline` what a pipeline cannot have that writes them.
    - `has_named_branches`: a table may be written on a branch of the user's.
    - `is_joinable`: `select` may join its tables, because Spark reads them.
    - `keeps_letters_of_others`: dead letters of tables in catalogs of other types may lie beside its own.
    - `min_interval_seconds`, `min_records_threshold`: the fastest pace at which a pipeline may write its tables.
    - `max_name_bytes`: of a table's name in UTF-8; where the name makes a folder, of a folder's name.
    - `partition_columns`: columns that every table has without being declared, to be partitioned by.
    - `open`: the ports over some of its catalogs, for one pipeline. Connects at the first use only.
    - `build_spark_conf`: a catalog's Spark settings. May hold secrets: never log them.
    - `find_leftovers`: what pipelines without one of these names left in a catalog, and what was unreadable.
    - `open_sink_notes`: what other systems' sinks left in a catalog's tables; None where nothing is read of them.
    - `probe`: for the doctor, whether a catalog is there and takes what a flush sends.
    - `describe_dataset`: a table by its name in lineage services, with its columns; None without a table.
    - `open_snapshots`: the states of a catalog's tables, for publications; None without any.

    These functions import the destination's libraries; the module that describes it does not.
    """

    name: str
    title: str
    model: type[CatalogModel]
    check_table: Callable[[TableEntry, Catalog | None], None]
    open: Callable[[Sequence[Catalog], Pipeline, Resolve, OpenClients], OpenedDestination]
    probe: Callable[[Catalog, Resolve], CatalogProbe]
    describe_dataset: Callable[[Catalog, Resolve, str], Dataset | None]
    check_catalog: Callable[[dict[str, Any], KeyPath, Problems], None] = lambda *_: None
    check_pipeline: Callable[[PipelineModel, Sequence[Catalog], Problems], None] = lambda *_: None
    build_spark_conf: Callable[[Catalog, Resolve], dict[str, str]] = lambda *_: {}
    find_leftovers: Callable[
        [Catalog, Resolve, Collection[str]], tuple[list[PipelineLeftovers], list[TidegateError]]
    ] = lambda *_: ([], [])
    open_snapshots: Callable[[Catalog, Resolve], Snapshots] | None = None
    open_sink_notes: Callable[[Catalog, Resolve], SinkNotes] | None = None
    has_named_branches: bool = False
    is_joinable: bool = False
    keeps_letters_of_others: bool = False
    min_interval_seconds: int = 1
    min_records_threshold: int = 1
    max_name_bytes: int = 255
    partition_columns: tuple[str, ...] = ()

    @property
    def is_publishable(self) -> bool:
        return self.open_snapshots is not None
