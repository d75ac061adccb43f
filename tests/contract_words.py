"""The table, the positions and the staged batches that the contract's tests speak of."""

import json
from dataclasses import replace

from tidegate.model.batch import RECORD_COUNTS
from tidegate.model.ownership import Ownership, TableKind
from tidegate.model.position import Position
from tidegate.schema.data_types import Column

TABLE, PIPELINE, STAGED = "lake.shop.orders", "shop", "lake.shop.orders_shop_tmp"
DELETES = f"{TABLE}_deletes"
OWN_STAGED, OWN_DELETES = (
    Ownership(TableKind.INTERMEDIATE, PIPELINE, "shop.orders"),
    Ownership(TableKind.DELETES, "", "shop.orders"),
)
COLUMNS = (Column("id", "STRING"), Column("n", "INT"))
START = Position({"t": {0: 0}}, cluster_id="c", topic_ids={"t": "i"})
FIRST = replace(START, offsets={"t": {0: 5}}, batch=1, staged_attempt="s1", timestamps={"t": {0: 99}})
SECOND = replace(FIRST, offsets={"t": {0: 9}}, batch=2, staged_attempt="s2")


def build_summary(batch: int, attempt: str, pipeline: str = PIPELINE) -> dict[str, str]:
    request = {"ranges": {"t": {"0": [0, 10]}}, "cluster_id": "c", "topic_ids": {"t": "i"}, "table_uuid": None}
    request |= {"epochs": {}, "watermark": "inside"}
    summary = {"tidegate.pipeline": pipeline, "tidegate.staged": json.dumps(request)}
    return {"tidegate.batch": str(batch), "tidegate.attempt": attempt, **summary}


def render_outcome(rows: int, bad: int = 0) -> str:
    return json.dumps(
        {
            **dict.fromkeys(RECORD_COUNTS, 0),
            "read": 10,
            "staged": rows,
            "ignored": 10 - rows,
            "bad": bad,
            "rows": rows,
            "timestamps": {},
            "first_bad": None,
        }
    )
