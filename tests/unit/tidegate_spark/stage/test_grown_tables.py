"""What a stage job leaves of a batch whose records make columns, without Spark."""

from types import SimpleNamespace
from typing import Any

import pytest
from decoding import build_stage_table
from tidegate.jobs.stage_job import StageJob
from tidegate.jobs.stage_outcome import StageOutcome
from tidegate.model.batch import RECORD_COUNTS
from tidegate.model.offsets import Ranges
from tidegate.model.unknown_fields import UnknownFields
from tidegate.schema.data_types import Column
from tidegate.schema.inferred_types import GrownColumns
from tidegate.spec.source import ValueFormat
from tidegate_spark.stage import job as stage_job


@pytest.mark.parametrize("made", [(), (Column("n", "BIGINT"),)])
def test_fields_that_become_columns_are_not_counted_as_unknown(
    monkeypatch: pytest.MonkeyPatch, made: tuple[Column, ...]
) -> None:
    """Their count costs a pass, and nobody reads it: these records are staged again."""
    left: list[str] = []
    counts = {**dict.fromkeys(RECORD_COUNTS, 1), "bad": 0, "first_bad": None}
    monkeypatch.setattr(stage_job, "configure", lambda *_: None)
    monkeypatch.setattr(stage_job, "_write_until_counted", lambda *_, **__: counts)
    monkeypatch.setattr(stage_job, "infer_lacking_columns", lambda *_: GrownColumns(made, len(made)))
    monkeypatch.setattr(stage_job, "count_unknown_fields", lambda *_: UnknownFields(1))
    monkeypatch.setattr(stage_job, "_leave_outcome", lambda _, __, outcome, ___: left.append(outcome))
    table: Any = build_stage_table(ValueFormat(unknown_fields="add"), (), (Column("id", "BIGINT"),))
    job = StageJob("shop", 1, Ranges({}), "read_committed", (table,))
    stage_job._stage_table(SimpleNamespace(), job, table, SimpleNamespace())
    outcome = StageOutcome.from_json(left[0], "here")
    assert (outcome.lacking.columns, outcome.unknown_fields) == (made, None if made else UnknownFields(1))
