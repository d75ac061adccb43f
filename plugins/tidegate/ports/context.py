"""What the steps need from the outside world: the log, the destination, Spark, SQL text and a clock."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.errors import CommitRefused
from tidegate.model.kafka_log import Log, Message, Retention
from tidegate.model.offsets import Offsets
from tidegate.model.table_state import DeadLetters, FolderLimit, Head, Staging, TableCommit, TableFiles, TableState
from tidegate.ports.batch_history import BatchHistory
from tidegate.ports.branch_commits import BranchCommits
from tidegate.ports.broker import Broker
from tidegate.ports.dead_letter_store import DeadLetterStore
from tidegate.ports.engine import Engine
from tidegate.ports.schema_provider import DeclaredSchemas, Schemas
from tidegate.ports.sql import Sql
from tidegate.ports.staging_store import StagingStore
from tidegate.ports.table_store import TableStore
from tidegate.spec.pipeline import Pipeline

__all__ = [
    "Broker", "CommitRefused", "DeadLetters", "Engine", "FolderLimit", "Head", "Log", "Message", "Ports", "Retention",
    "Sql", "Staging", "TableCommit", "TableFiles", "TableState",
]  # fmt: skip


@dataclass(frozen=True)
class Ports:
    """Everything that a step may touch, for one pipeline.

    - `broker`: Kafka. `schemas`: the schemas that a registry has.
    - `tables`, `commits`: what destination tables tell, and the commits to them.
    - `staging`, `dead_letters`, `history`: the pipeline's own tables beside them.
    - `engine`: runs jobs on Spark. `sql`: the statements. `dialects`: those of catalogs that need their own.
    - `now_ms`, `pause`, `new_attempt`: the clock, and the next attempt's UUID.
    - `heartbeat_hook`: the user's function with a say in the committed offsets.
    """

    pipeline: Pipeline
    broker: Broker
    tables: TableStore
    commits: BranchCommits
    staging: StagingStore
    dead_letters: DeadLetterStore
    history: BatchHistory
    engine: Engine
    sql: Sql
    now_ms: Callable[[], int]
    new_attempt: Callable[[], str]
    schemas: Schemas = field(default_factory=DeclaredSchemas)
    heartbeat_hook: Callable[[str, Offsets], Offsets] | None = None
    dialects: Mapping[str, Sql] = field(default_factory=dict)
    pause: Callable[[float], None] = time.sleep

    def get_sql(self, table: str) -> Sql:
        """The statements in the dialect of the table's catalog; `sql` where that has none of its own."""
        return self.dialects.get(table.split(".", 1)[0], self.sql)
