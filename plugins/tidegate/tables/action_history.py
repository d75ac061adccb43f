"""What people did to a pipeline's position in a table, who and when: set beside the position, in the same commit."""

import json
from dataclasses import asdict, dataclass, replace

from tidegate.model import resource_names
from tidegate.ports.context import Ports, TableState

ACTIONS_PROPERTY = "actions"
MAX_KEPT_ACTIONS, MAX_CHARACTERS = 20, 1000  # some kilobytes: each write of the table's metadata carries them


@dataclass(frozen=True)
class Action:
    """One action: `action` is the command's word, `by` the user, `details` what it changed."""

    at_ms: int
    by: str
    action: str
    details: str


def add_action(ports: Ports, state: TableState, action: str, by: str, details: str) -> dict[str, str]:
    """The property that tells of this action and of those before it, for the commit that does it."""
    new_action = Action(ports.now_ms(), by, action, details)
    last_actions = [*list_actions(ports.pipeline.name, state), new_action][-MAX_KEPT_ACTIONS:]
    short = [replace(action, by=_shorten(action.by), details=_shorten(action.details)) for action in last_actions]
    text = json.dumps([asdict(action) for action in short], separators=(",", ":"))
    return {resource_names.name_pipeline_property(ports.pipeline.name, ACTIONS_PROPERTY): text}


def _shorten(text: str) -> str:
    """The text; of a very long one, whoever wrote it, the beginning."""
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 30]}... ({len(text)} characters)"


def list_actions(pipeline: str, state: TableState | None) -> list[Action]:
    """The last actions, oldest first; none where the table or its properties are gone."""
    marks = state.marks if state else {}
    text = marks.get(resource_names.name_pipeline_property(pipeline, ACTIONS_PROPERTY), "[]")
    return [Action(**entry) for entry in json.loads(text)]
