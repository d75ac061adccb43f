"""The words of a pipeline file that ``defaults.yaml`` may hold too: what operators decide on for all pipelines."""

from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from tidegate.config.models.formats import StrictModel
from tidegate.config.models.runtime import Duration, MaintenanceModel
from tidegate.config.models.settings import TopicName
from tidegate.config.models.spellings import FleetName, HookPlace


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
    heartbeat: HeartbeatModel = HeartbeatModel()
    maintenance: MaintenanceModel = MaintenanceModel()
