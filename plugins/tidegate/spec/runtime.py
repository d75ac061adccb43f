"""Where a pipeline's jobs run, and how its tables are kept small: nothing of this changes what is written."""

from dataclasses import dataclass, field
from enum import StrEnum


class UseWhen(StrEnum):
    """Whether something is done that costs work and saves some: if it pays, always, or never."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class SparkMode(StrEnum):
    """How jobs are handed to Spark: through Spark Connect, or by spark-submit."""

    CONNECT = "connect"
    SUBMIT = "submit"


class Period(StrEnum):
    """A period of records' time, in UTC, whose completeness is announced."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True)
class Maintenance:
    """How tables are kept small: `interval_seconds` below 1 disables the schedule.

    After every `compact_every` batches a table's files are measured; below 1 they wait for the schedule.
    """

    interval_seconds: int = 86_400
    compact: UseWhen = UseWhen.AUTO
    compact_every: int = 10
    keep_snapshots: int = 10
    keep_snapshots_for_seconds: int = 5 * 86_400
    orphans_older_than_seconds: int = 3 * 86_400

    @property
    def follows_flushes(self) -> bool:
        """Whether tables are compacted after flushes, and not by the schedule alone."""
        return self.compact != UseWhen.NEVER and self.compact_every > 0


@dataclass(frozen=True)
class Verify:
    """How often tables are compared with the log: `interval_seconds` below 1 leaves that to a person."""

    interval_seconds: int = -1


@dataclass(frozen=True)
class SparkTarget:
    """Where the jobs run; `remote` and `master` win over the connection."""

    mode: SparkMode = SparkMode.CONNECT
    connection: str = "spark_default"
    remote: str | None = None
    master: str | None = None
    conf: dict[str, str] = field(default_factory=dict)
