"""The pipelines of the soak: five kinds in turn, on two catalogs, each of two partitions and of one or two tables."""

from dataclasses import dataclass
from typing import Any

PIPELINES = 50
PARTITIONS = 2
NAMESPACE = "soak"
CATALOGS = ("lake", "second")  # a REST catalog and one in PostgreSQL; the files of both are in S3
KINDS = ("plain", "topics", "journal", "upper")
UPPER = "SELECT id, CAST(upper(name) AS STRING) AS name FROM record"
KEY = {"format": "json", "fields": ["id"], "schema": "id BIGINT"}
VALUE = {"format": "json", "schema": "id BIGINT, name STRING"}
MAINTAINED_EVERY = 10  # of so many pipelines one is maintained during the soak; all are compacted
EAGER = {"interval": "20m", "keep_snapshots": 5, "keep_snapshots_for": "1m"}


@dataclass(frozen=True)
class SoakTable:
    """A table, by its name without catalog, and the topic that it follows."""

    name: str
    topic: str
    is_journal: bool = False  # it keeps every record, with its place
    is_upper: bool = False  # its names are written in capitals


@dataclass(frozen=True)
class SoakPipeline:
    """One pipeline file."""

    name: str
    kind: str
    catalog: str

    @property
    def topics(self) -> list[str]:
        if self.kind == "topics":
            return [f"{self.name}-a", f"{self.name}-b"]
        return [self.name]

    @property
    def tables(self) -> list[SoakTable]:
        first = f"{NAMESPACE}.{self.name}"
        match self.kind:
            case "topics":
                return [SoakTable(f"{first}_{topic[-1]}", topic) for topic in self.topics]
            case "upper":
                return [SoakTable(first, self.name), SoakTable(f"{first}_upper", self.name, is_upper=True)]
            case _:
                return [SoakTable(first, self.name, is_journal=self.kind == "journal")]

    def describe(self, interval_seconds: int) -> dict[str, Any]:
        """What its file says."""
        source: dict[str, Any] = {"topics": self.topics, "key": KEY, "value": VALUE}
        if self.kind == "journal":
            source["metadata"] = {"place": "offset", "part": "partition"}
        merge: dict[str, Any] = {"interval": f"{interval_seconds}s"}
        tables = [self._describe_table(table) for table in self.tables]
        # what a killed batch has left is removed by a heartbeat, where no record comes any more
        content = {"source": source, "tables": tables, "merge": merge, "heartbeat": {"interval": "2m"}}
        is_maintained = int(self.name[1:]) % MAINTAINED_EVERY in (0, 1)  # one of each catalog
        return {**content, "maintenance": EAGER} if is_maintained else content

    def _describe_table(self, table: SoakTable) -> dict[str, Any]:
        entry: dict[str, Any] = {"name": f"{self.catalog}.{table.name}"}
        if self.kind == "topics":
            entry["topics"] = [table.topic]
        if table.is_journal:
            entry |= {"upsert": False, "delete": False}
        if table.is_upper:
            entry["select"] = UPPER
        return entry


def list_pipelines(count: int = PIPELINES) -> list[SoakPipeline]:
    """All of them; each kind is on both catalogs."""
    return [
        SoakPipeline(f"p{number:02}", KINDS[number % len(KINDS)], CATALOGS[number % len(CATALOGS)])
        for number in range(count)
    ]
