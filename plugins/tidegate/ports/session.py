"""One opened pipeline: the log, the destination, Spark, SQL text and a clock."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tidegate.jobs.maintain_job import MaintainJob
from tidegate.jobs.publish_job import PublishJob
from tidegate.jobs.stage_job import StageJob
from tidegate.jobs.statements_job import StatementsJob
from tidegate.model import resource_names
from tidegate.model.offsets import Offsets
from tidegate.ports.broker import Broker
from tidegate.ports.destination import Destination
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors
from tidegate.spec.table import Table


class Sql(Protocol):
    """The statements of ``include/sql``."""

    def render(self, statement: str, **values: Any) -> str:
        """The text of ``<statement>.sql`` with `values` filled in; a missing value is an error."""


Job = StageJob | StatementsJob | MaintainJob | PublishJob


class Engine(Protocol):
    """Spark."""

    def run(self, job: Job) -> None:
        """Run one job to its end; its result is in the destination, by attempt.

        After an error the result may be there: look first. A repeat call runs the job a second time, so each call
        needs an attempt of its own.
        """


class Schemas(Protocol):
    """Where keys and values are described outside of the pipeline file."""

    def describe_table(self, table: Table) -> Table:
        """`table` with columns and decoding options; the answer changes only behind `forget`."""

    def forget(self) -> None:
        """Let the next answers name versions that were registered meanwhile."""


class DeclaredSchemas:
    """Implements `Schemas` for formats that the pipeline file or the destination describes."""

    def describe_table(self, table: Table) -> Table:
        return table

    def forget(self) -> None:
        pass


@dataclass(frozen=True)
class Session(Destination):
    """Everything that a step may touch, for one pipeline, beside the ports of its destination.

    - `broker`: Kafka. `schemas`: a registry's.
    - `engine`: runs jobs on Spark. `sql`: the statements. `dialects`: those of catalogs that need their own.
    - `now_ms`, `pause`, `new_attempt`: the clock, and the next attempt's UUID.
    - `recall_columns`: the columns that the records of an attempt make, read by the function or known from before.
    - `run`: what runs this process, as history names it.
    - `heartbeat_hook`: the user's function that may change the committed offsets.
    - `open_heartbeat_broker`: opens the brokers of the heartbeats' topic; None: it is the source's.
    """

    pipeline: Pipeline
    broker: Broker
    engine: Engine
    sql: Sql
    now_ms: Callable[[], int]
    new_attempt: Callable[[], str]
    recall_columns: Callable[[str, Callable[[], tuple[Column, ...]]], tuple[Column, ...]] = lambda _, read: read()
    schemas: Schemas = field(default_factory=DeclaredSchemas)
    heartbeat_hook: Callable[[str, Offsets], Offsets] | None = None
    open_heartbeat_broker: Callable[[], Broker] | None = None
    dialects: Mapping[str, Sql] = field(default_factory=dict)
    pause: Callable[[float], None] = time.sleep
    run: str = ""

    @property
    def letters_table(self) -> str:
        return resource_names.name_dead_letter_table(self.pipeline)

    @property
    def history_table(self) -> str:
        return resource_names.name_control_table(self.pipeline)

    def tolerate(self, errors: Errors) -> "Session":
        """Set bad records aside in every table as `errors` say."""
        source = replace(self.pipeline.source, errors=errors)
        tables = tuple(replace(table, errors=errors) for table in self.pipeline.tables)
        return replace(self, pipeline=replace(self.pipeline, source=source, tables=tables))

    def get_sql(self, table: str) -> Sql:
        """The statements in the dialect of the table's catalog."""
        return self.dialects.get(table.split(".", 1)[0], self.sql)
