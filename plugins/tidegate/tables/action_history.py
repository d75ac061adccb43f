"""What people did to a pipeline's position in a table, who and when: set beside the position, in the same commit."""

import json
from dataclasses import asdict, dataclass

from tidegate.model import resource_names
from tidegate.ports.context import Ports, TableState

ACTIONS_PROPERTY = "actions"
MAX_KEPT_ACTIONS = 20  # a few kilobytes: each write of the table's metadata carries them


@dataclass(frozen=True)
class Action:
    """One action: `action` is the command's word, `by` the user, `details` what it changed."""

    at_ms: int
    by: str
    action: str
    details: str


def add_action(ports: Ports, state: TableState, action: str, by: str, details: str) -> dict[str, str]:
    """The property that tells of this action and of those before it, for the commit that does it."""
    done = Action(ports.now_ms(), by, action, details)
    kept = [*list_actions(ports.pipeline.name, state), done][-MAX_KEPT_ACTIONS:]
    text = json.dumps([asdict(one) for one in kept], separators=(",", ":"))
    return {resource_names.name_pipeline_property(ports.pipeline.name, ACTIONS_PROPERTY): text}


def list_actions(pipeline: str, state: TableState | None) -> list[Action]:
    """The last actions, oldest first; none where the table or its properties are gone."""
    marks = state.marks if state else {}
    text = marks.get(resource_names.name_pipeline_property(pipeline, ACTIONS_PROPERTY), "[]")
    return [Action(**one) for one in json.loads(text)]
