"""What decodes records is planned without constraints and pruning: Spark derives more of them than it can hold."""

from typing import Any

import decoding
import pytest
from tidegate.jobs.evaluation import DECODING_CONF
from tidegate.jobs.stage_job import StageJob
from tidegate.model.offsets import Ranges
from tidegate.schema.data_types import Column
from tidegate.spec.source import ValueFormat
from tidegate_spark.stage import job as stage_job


class Configured(Exception):
    """The session has its configuration."""


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the next job sets; the job ends there."""
    conf_values: dict[str, str] = {}

    def configure(spark: Any, conf: dict[str, str]) -> None:
        conf_values.update(conf)
        raise Configured

    monkeypatch.setattr(stage_job, "configure", configure)
    monkeypatch.setattr(stage_job, "guard_lengths", lambda spark, job: job)
    return conf_values


def build_job(span: int) -> StageJob:
    table = decoding.build_stage_table(ValueFormat("json"), (Column("n", "INT"),))
    return StageJob("p", 1, Ranges({"t": {0: (0, span)}}), "read_committed", (table,))


@pytest.mark.parametrize("span", [10, 1_000_000])
def test_stage_job(configured: dict[str, str], span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_job, "read_records", lambda spark, job: None)
    with pytest.raises(Configured):
        stage_job.run(None, build_job(span))  # type: ignore[arg-type]
    assert configured.items() >= DECODING_CONF.items()


def test_spark_derives_nothing_and_looks_for_no_files_to_leave_out() -> None:
    """Each of these was half of a plan and more: constraints, and the keys of a joined dimension."""
    assert (
        dict.fromkeys(
            (
                "spark.sql.constraintPropagation.enabled",
                "spark.sql.optimizer.dynamicPartitionPruning.enabled",
                "spark.sql.optimizer.runtime.bloomFilter.enabled",
            ),
            "false",
        )
        == DECODING_CONF
    )
