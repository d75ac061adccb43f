"""Combinations of features on real Kafka, Spark, Iceberg and BigQuery: each table holds what a model says.

`WALKS` and `WALK_SEED` choose how many and which: the same seed is the same pipeline with the same records. If `WALKS`
is set, each has one more turn. The first one by default is a plan that Spark does not end while it derives constraints
(`DECODING_CONF`).
"""

import os
import random
from typing import Any

import pytest
from conftest import Workbench
from random_pipelines import PARTITIONS, Model, Placed, Shape, sort_rows
from tidegate.flush.maintain import list_maintained_tables, maintain
from tidegate.reprocess.verify import verify_table

FIRST = int(os.environ.get("WALK_SEED", "105"))
COUNT = int(os.environ.get("WALKS", "1"))
TURNS = 3 if "WALKS" in os.environ else 2  # one fills the tables, the next changes them
PARTS = 4  # of a run beside each other: forty walks in one of them outlast all else


@pytest.mark.parametrize(
    "seed",
    [pytest.param(n, marks=pytest.mark.xdist_group(f"walks_{n % PARTS}")) for n in range(FIRST, FIRST + COUNT)],
)
def test_tables_of_any_features_hold_what_the_model_says(
    workbench: Workbench, request: pytest.FixtureRequest, seed: int
) -> None:
    chance = random.Random(seed)
    shape = Shape.choose(chance)
    lake: Any = request.getfixturevalue("dwh") if shape.bigquery else Lake(workbench, shape)
    topic, model = workbench.topic(PARTITIONS), Model(shape)
    workbench.pipeline("walk", [topic], **shape.list_sections(lake.table))
    ends = dict.fromkeys(range(PARTITIONS), 0)
    features = (shape, shape.format_version)
    for turn in range(TURNS):
        changes = [shape.choose_change(chance) for _ in range(chance.choice([1, 5, 12]))]
        workbench.produce(topic, *map(shape.encode, changes))
        for change in changes:
            model.apply(Placed(change, ends[change.partition]))
            ends[change.partition] += 1
        workbench.drain("walk")
        expected = model.lay_out()
        assert {name: sort_rows(lake.read_rows(name)) for name in expected} == expected, (turn, features)
        assert workbench.committed("walk") == {topic: ends}
        session = workbench.open_session("walk")
        for table in list_maintained_tables(session) if turn == 1 and chance.random() < 0.5 else ():
            maintain(session, table)
    for name in expected if shape.is_verifiable else ():
        found = verify_table(workbench.open_session("walk"), lake.table(name))
        assert (found.equal, found.wrong, found.unknowable) == (len(expected[name]), 0, 0), (found, features)


class Lake:
    """Iceberg's tables, with the methods that `WarehouseBench` has for those of BigQuery."""

    def __init__(self, workbench: Workbench, shape: Shape) -> None:
        self.bench, self.branch = workbench, "dev" if shape.branch else "main"

    def table(self, name: str) -> str:
        """The name in a pipeline file."""
        return f"lake.shop.{name}"

    def read_rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of the branch that is written."""
        table = self.bench.load_iceberg(f"shop.{name}")
        rows: list[dict[str, Any]] = (
            table.scan(snapshot_id=table.metadata.refs[self.branch].snapshot_id).to_arrow().to_pylist()
        )
        return rows
