"""What a worker asks of Spark to publish: one frozen argument as JSON, without a secret in it."""

from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.jobs.job_json import JsonJob
from tidegate.model.offsets import Ranges
from tidegate.model.publication_progress import Progress
from tidegate.spec.publication import Grouped, KeyOut, MetadataOut, ValueOut

PRODUCER_CONF = "spark.tidegate.secret.producer"
REGISTRY_CONF = "spark.tidegate.secret.registries"


class RowIdentity(StrEnum):
    """What shows, without a row's values, that two snapshots have the same row."""

    NONE = "none"  # nothing: their schemas differ, so that a row may look different; or comparing all rows is faster
    POSITION = "position"  # its place in a data file that both have
    ROW_ID = "row-id"  # in other files its id and the snapshot that changed it last, too


@dataclass(frozen=True)
class TouchedFiles:
    """Data files whose rows may differ between two snapshots: those of the older one and of the newer."""

    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    identity: RowIdentity = RowIdentity.NONE


@dataclass(frozen=True)
class KeyPart:
    """One part of a run's keys: the record that must still be its newest, and the key to continue after.

    `key_form`: how the topics' keys were written, empty where that is not recorded.
    """

    number: int
    expected: str | None
    after: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    key_form: str = ""


@dataclass(frozen=True)
class PublishJob(JsonJob):
    """Produces what differs between `position.origin` and `position.to`, for each of `parts`.

    - `touched`: the files whose rows are compared; None compares all rows.
    - `grouped`: those rows only say which groups of aggregating SQL to compute again, over all their rows.
    - `ranges`: what the topics hold, for a run that compares the table with them.
    - `on_delete`: what a publication of inserted rows (`is_append`) does with rows that are gone: fail or ignore.
    """

    publication: str
    table: str
    sql: str
    key: KeyOut
    value: ValueOut
    metadata: MetadataOut
    topics: tuple[str, ...]
    delivery: str
    state_topic: str
    parallelism: int
    transaction_records: int
    position: Progress
    parts: tuple[KeyPart, ...]
    touched: TouchedFiles | None = None
    grouped: Grouped | None = None
    ranges: Ranges | None = None
    on_delete: str = "fail"

    @property
    def is_append(self) -> bool:
        return not self.key.fields

    @property
    def pipeline(self) -> str:
        return self.publication

    @property
    def batch(self) -> int:
        """The snapshot: messages number the job by it."""
        return self.position.to
