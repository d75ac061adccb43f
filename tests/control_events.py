"""Events of an Iceberg sink's control topic, as the connector's own Java classes have encoded them.

`control_events.json.xz` holds one of each kind, of group `connect-events` and table `shop.events`, made by
`org.apache.iceberg.connect.events.AvroUtil.encode`: a data file of 3 rows and an empty one in a bucket partition, and a
file of equality deletes.
"""

import json
import lzma
from pathlib import Path

GROUP, TABLE = "connect-events", "shop.events"


def load_control_events() -> dict[str, bytes]:
    """By name: written, empty, start, complete, committed, done."""
    packed = Path(__file__).with_suffix(".json.xz").read_bytes()
    return {name: bytes.fromhex(text) for name, text in json.loads(lzma.decompress(packed)).items()}
