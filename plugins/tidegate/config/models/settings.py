"""What several models share: settings of clients, schedules, failures and Spark, and how YAML spells them."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from croniter import CroniterBadDateError, croniter
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function

from tidegate.config.models.formats import StrictModel
from tidegate.spec.readers import Reader
from tidegate.spec.time_text import parse_duration_seconds

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_-]{0,59}")  # of a pipeline, a publication and a fleet
FIELD_COUNT = 5
RANDOM = re.compile(r"(?<![A-Z])R(?![A-Z])", re.IGNORECASE)  # croniter's: another time whenever it is read
FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)
MAX_DAYS = 366
MAX_TIMES = 100


def parse_interval_or_cron(value: object) -> int | str:
    """Whole seconds of a duration, or a cron expression with single spaces; `ValueError` for anything else."""
    if not isinstance(value, str) or len(value.split()) == 1:
        return parse_duration_seconds(value)
    expression = " ".join(value.split())
    if len(value.split()) != FIELD_COUNT or RANDOM.search(expression) or not croniter.is_valid(expression):
        raise ValueError(
            "not a cron expression, nor a duration; write minute hour day month weekday, e.g. '0 * * * *', or e.g. 30s"
        )
    try:
        find_longest_pause(expression)
    except CroniterBadDateError:
        raise ValueError("a time that never comes, as a day of another month; correct day and month") from None
    return expression


def find_longest_pause(expression: str) -> int:
    """The most seconds between two of its times, over a year or a hundred times from a fixed day on."""
    times = croniter(expression, FIRST_DAY)
    longest_pause = 0
    last = times.get_next(datetime)
    for _ in range(MAX_TIMES):
        following = times.get_next(datetime)
        longest_pause = max(longest_pause, int((following - last).total_seconds()))
        last = following
        if (following - FIRST_DAY).days > MAX_DAYS:
            break
    return longest_pause


MAX_TOPIC_LETTERS = 249
TOPIC_PATTERN = re.compile(r"[A-Za-z0-9._-]+")


def _to_property_text(value: object) -> object:
    # properties are text downstream: YAML's true and 5 mean the words, not Python's True
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def check_topic_name(name: str) -> str:
    """`ValueError` says why Kafka does not take it."""
    if not TOPIC_PATTERN.fullmatch(name):
        raise ValueError(f"not a topic name; letters, digits, dot, dash and underscore, at most {MAX_TOPIC_LETTERS}")
    if len(name) > MAX_TOPIC_LETTERS:
        raise ValueError(f"not a topic name: it has letters={len(name)}; Kafka takes at most {MAX_TOPIC_LETTERS}")
    if name in (".", ".."):
        raise ValueError("not a topic name: Kafka refuses . and ..; write the topic's whole name")
    return name


def _refuse_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("empty; write it out, or leave the key out")
    return text


TopicName = Annotated[
    str, AfterValidator(check_topic_name), WithJsonSchema({"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,249}$"})
]
FilledText = Annotated[str, AfterValidator(_refuse_blank), WithJsonSchema({"type": "string", "pattern": r"\S"})]
PropertyText = Annotated[
    str, BeforeValidator(_to_property_text), WithJsonSchema({"type": ["string", "integer", "number", "boolean"]})
]


def _tag_kafka(value: object) -> str | None:
    return "<inline>" if isinstance(value, dict) else "<connection>" if isinstance(value, str) else None


KafkaPlace = Annotated[
    Annotated[str, Tag("<connection>")] | Annotated[dict[str, PropertyText], Tag("<inline>")],
    Discriminator(
        _tag_kafka,
        custom_error_type="kafka",
        custom_error_message="write a connection id or a mapping of librdkafka settings",
    ),
]


Duration = Annotated[
    int,
    BeforeValidator(parse_duration_seconds),
    WithJsonSchema({"type": ["integer", "string"], "pattern": r"^(-1|\d+|(\d+[smhd])+)$", "examples": ["60s", "10m"]}),
]


DAY_SECONDS = 86_400


def _require_a_day(seconds: int) -> int:
    if seconds < DAY_SECONDS:
        raise ValueError("out of range; must be at least 1d")
    return seconds


class MaintenanceModel(StrictModel):
    """How tables are kept small."""

    interval: Duration = Field(default=DAY_SECONDS, description="Pause between maintenance runs; -1 or 0 disables.")
    compact: Literal["auto", "always", "never"] = Field(
        default="auto", description="auto rewrites files where enough small or delete files are measured."
    )
    compact_every: int = Field(
        default=10,
        ge=-1,
        description="Batches after which small and delete files are measured at once; -1 or 0: never.",
    )
    keep_snapshots: int = Field(default=10, ge=1, description="Snapshots of main that never expire, however old.")
    keep_snapshots_for: Duration = Field(default=5 * DAY_SECONDS, gt=0, description="Younger snapshots never expire.")
    orphans_older_than: Annotated[Duration, AfterValidator(_require_a_day)] = Field(
        default=3 * DAY_SECONDS,
        description="Files that nothing refers to go when they are older; at least 1d.",
        json_schema_extra={"minimum": DAY_SECONDS},
    )


class VerifyModel(StrictModel):
    """How often tables are compared with what the log says."""

    interval: Duration = Field(default=-1, description="Pause between verifications; -1 or 0: only by hand.")


class SparkModel(StrictModel):
    """Where the jobs run."""

    mode: Literal["connect", "submit"] = Field(default="connect", description="Spark Connect, or spark-submit.")
    connection: FilledText = Field(default="spark_default", description="Airflow connection id.")
    conf: dict[str, PropertyText] = Field(default={}, description="Spark settings of the session.")
    remote: str | None = Field(default=None, description="sc://host:port; wins over the connection.")
    master: FilledText | None = Field(default=None, description="Spark master such as local[2]; means mode submit.")


@dataclass(frozen=True)
class Spelling:
    """A text that `pattern` matches, which stands in the JSON Schema; any other is refused with `words`."""

    pattern: str
    words: str

    def check(self, text: str) -> str:
        """`ValueError` says in words what is allowed."""
        if not re.fullmatch(self.pattern, text):
            raise ValueError(self.words)
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core_schema), "pattern": self.pattern}


BranchName = Annotated[
    str,
    Spelling(
        r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        "not a branch's name; write letters, digits, dots, dashes and underscores, and no dot or dash first",
    ),
]
ClassPath = Annotated[
    str,
    Spelling(
        r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$",
        "not the import path of a class; write package.module.Class",
    ),
]
FleetName = Annotated[
    str,
    Spelling(
        f"^{NAME_PATTERN.pattern}$",
        "not a fleet's name; write at most 60 small letters, digits, dashes and underscores, and a letter first",
    ),
]
HookPlace = Annotated[
    str,
    Spelling(
        r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$",
        "not the place of a function; write module:function",
    ),
]
Suffix = Annotated[
    str,
    Spelling(r"^[A-Za-z0-9_]+$", "not the end of a table's name; write letters, digits and underscores"),
]


def _check_label(label: str) -> str:
    if not 0 < len(label) <= MAX_LABEL_LETTERS or label != label.strip() or not label.isprintable():
        raise ValueError(f"a tag has 1 to {MAX_LABEL_LETTERS} printable letters, no blank before or after them")
    return label


def _refuse_repeats(labels: list[str]) -> list[str]:
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} is listed twice; keep one")
    return labels


MAX_LABEL_LETTERS = 100  # as Airflow's tags
Label = Annotated[
    str,
    AfterValidator(_check_label),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_LABEL_LETTERS}),
]


class HeartbeatModel(StrictModel):
    """How a position moves without rows."""

    interval: Duration = Field(default=600, ge=0, description="How often a position moves without rows; 0 disables.")
    produce: bool = Field(default=False, description="Send heartbeat records to the topic.")
    topic: TopicName = Field(default="connect-heartbeats", description="Created if it is missing.")
    kafka: KafkaPlace | None = Field(
        default=None, description="The brokers of the topic, as source.kafka; default: those of source.kafka."
    )
    hook: HookPlace | None = Field(
        default=None,
        description="module:function below plugins/ or dags/ that may raise or add offsets.",
    )
    ignore_topics: list[str] = Field(
        default=["__debezium-heartbeat.*"], description="Topics that only advance offsets (patterns)."
    )


class SharedModel(StrictModel):
    """The whole file of defaults, and a part of every pipeline file."""

    tags: Annotated[list[Label], AfterValidator(_refuse_repeats)] = Field(
        default=[],
        description="Tags of the pipeline's DAGs, and a filter of the operator's page.",
        json_schema_extra={"uniqueItems": True},
    )
    fleet: FleetName | None = Field(
        default=None,
        description="Flush together with the other pipelines of this fleet, in one DAG; default: a DAG of its own.",
    )
    readers: list[Reader] = Field(
        default=[], description="Engines that read the tables: a format that one of them cannot read is refused."
    )
    heartbeat: HeartbeatModel = HeartbeatModel()
    maintenance: MaintenanceModel = MaintenanceModel()
    verify: VerifyModel = VerifyModel()
