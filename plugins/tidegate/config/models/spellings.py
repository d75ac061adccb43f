"""Texts of a file that are spelled by a rule: the rule for editors, and in words for who breaks it."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function


@dataclass(frozen=True)
class Spelling:
    """A text that `pattern` matches, which stands in the JSON Schema; any other is refused with `words`."""

    pattern: str
    words: str

    def check(self, text: str) -> str:
        """The text; ValueError says in words what is allowed."""
        if not re.fullmatch(self.pattern, text):
            raise ValueError(self.words)
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """For Pydantic: the text is checked after its type."""
        return no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """For Pydantic: the schema of its type, with the pattern."""
        return {**handler(core_schema), "pattern": self.pattern}


BranchName = Annotated[
    str,
    Spelling(
        r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        "not a branch's name; write letters, digits, dots, dashes and underscores, and no dot or dash first",
    ),
]
ClassPath = Annotated[
    str,
    Spelling(
        r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$",
        "not the import path of a class; write package.module.Class",
    ),
]
FleetName = Annotated[
    str,
    Spelling(
        r"^[a-z][a-z0-9_-]{0,59}$",  # as a pipeline's
        "not a fleet's name; write at most 60 small letters, digits, dashes and underscores, and a letter first",
    ),
]
HookPlace = Annotated[
    str,
    Spelling(
        r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$",
        "not the place of a function; write module:function",
    ),
]
Suffix = Annotated[
    str,
    Spelling(r"^[A-Za-z0-9_]+$", "not the end of a table's name; write letters, digits and underscores"),
]
