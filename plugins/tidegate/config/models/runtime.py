"""The words of a pipeline file for where jobs run and how tables are kept small, and the spelling of durations."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from tidegate.config.models.formats import StrictModel
from tidegate.config.models.settings import FilledText, PropertyText
from tidegate.spec.time_text import parse_duration_seconds

Duration = Annotated[
    int,
    BeforeValidator(parse_duration_seconds),
    WithJsonSchema({"type": ["integer", "string"], "pattern": r"^(-1|\d+|(\d+[smhd])+)$", "examples": ["60s", "10m"]}),
]


class MaintenanceModel(StrictModel):
    """How tables are kept small."""

    interval: Duration = Field(default=86_400, description="Pause between maintenance runs; -1 or 0 disables.")
    compact: Literal["auto", "always", "never"] = Field(
        default="auto", description="auto rewrites files where enough small or delete files are measured."
    )
    compact_every: int = Field(
        default=10,
        ge=-1,
        description="Batches after which small and delete files are measured at once; -1 or 0: never.",
    )
    keep_snapshots: int = Field(default=10, ge=1, description="Snapshots of main that never expire, however old.")
    keep_snapshots_for: Duration = Field(default=5 * 86_400, gt=0, description="Younger snapshots never expire.")
    orphans_older_than: Duration = Field(
        default=3 * 86_400, ge=86_400, description="Files that nothing refers to go when they are older; at least 1d."
    )


class SparkModel(StrictModel):
    """Where the jobs run."""

    mode: Literal["connect", "submit"] = Field(default="connect", description="Spark Connect, or spark-submit.")
    connection: FilledText = Field(default="spark_default", description="Airflow connection id.")
    conf: dict[str, PropertyText] = Field(default={}, description="Spark settings of the session.")
    remote: str | None = Field(default=None, description="sc://host:port; wins over the connection.")
    master: FilledText | None = Field(default=None, description="Spark master such as local[2]; means mode submit.")
