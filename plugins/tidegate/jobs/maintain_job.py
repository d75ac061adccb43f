"""The argument of the maintenance job."""

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class MaintainJob:
    """Run each of `statements`, by name, against one table, and leave what they returned in its `property`."""

    pipeline: str
    table: str
    attempt: str
    property: str
    statements: dict[str, str]
    batch: int = 0

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "MaintainJob":
        """Inverse of `to_json`."""
        return cls(**json.loads(text))
