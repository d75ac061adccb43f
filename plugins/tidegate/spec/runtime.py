"""Where a pipeline's jobs run, and how its tables are kept small: nothing of this changes what is written."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Maintenance:
    """How tables are kept small: `interval_seconds` below 1 disables the schedule; `compact` auto, always or never.

    After every `compact_every` batches a table's files are measured, and rewritten at once where they ask for it; below
    1 they wait for the schedule.
    """

    interval_seconds: int = 86_400
    compact: str = "auto"
    compact_every: int = 10
    keep_snapshots: int = 10
    keep_snapshots_for_seconds: int = 5 * 86_400
    orphans_older_than_seconds: int = 3 * 86_400

    @property
    def follows_flushes(self) -> bool:
        """Whether tables are compacted behind flushes, and not by the schedule alone."""
        return self.compact != "never" and self.compact_every > 0


@dataclass(frozen=True)
class SparkTarget:
    """Where the jobs run: `mode` connect or submit; `remote` and `master` win over the connection."""

    mode: str = "connect"
    connection: str = "spark_default"
    remote: str | None = None
    master: str | None = None
    conf: dict[str, str] = field(default_factory=dict)
