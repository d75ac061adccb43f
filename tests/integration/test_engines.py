"""Engines that others wrote read every mode of the tables, in both formats: after flushes, compaction, evolution."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from engines import report
from engines.journey import Journey
from engines.readers import ENGINES, read_with_spark, register_states
from engines.values import count_rows

CHOSEN = "TIDEGATE_ENGINES"  # some of them, as `make test-engines ENGINES="duckdb flink"` says


# the rows are those of steps that quick tests go; what this asks is how others read their files
@pytest.mark.repeats("integration/test_format_3.py::test_updated_row_keeps_its_id_and_names_the_flush[merge-on-read]")
def test_engines_read_the_rows_that_spark_reads_and_spark_those_of_the_log(workbench: Any, tmp_path: Path) -> None:
    states = [state for version in (2, 3) for state in Journey(workbench, version).run()]
    place = register_states(workbench, tmp_path / "states", states)
    _, by_spark = read_with_spark(place, states)
    for state, reading in zip(states, by_spark, strict=True):
        assert count_rows(reading.rows) == count_rows(state.rows), f"Spark reads what the log says of {state.name}"
    unknown = []
    for name in os.environ.get(CHOSEN, "").split() or ENGINES:
        engine = ENGINES[name]
        version, readings = engine.read(place, states)
        results = [report.judge(engine, *row) for row in zip(states, by_spark, readings, strict=True)]
        print(report.write_section(name, version, results, f"{datetime.now(UTC):%Y-%m-%d}"), flush=True)
        unknown += [
            f"{name}: {result.state.name}: {result.verdict} {result.reason}"
            for result in results
            if not result.is_known
        ]
    assert unknown == []
