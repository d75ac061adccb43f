"""What the bytes of a format look like from outside, so that a sample of records tells which format wrote them."""

import unicodedata
from dataclasses import dataclass
from enum import StrEnum


class Encoding(StrEnum):
    """How keys or values of a format are written."""

    OBJECT = "object"  # the text of a JSON object
    SCHEMA = "schema"  # bytes that only their schema explains
    PACKED = "packed"  # a MessagePack map
    SEPARATED = "separated"  # one line of columns
    TEXT = "text"
    BYTES = "bytes"


@dataclass(frozen=True)
class EventLayout:
    """Where a change event written as a JSON object has its parts; names are fields of that object.

    - `noun`: what it is, for messages. `marks`: it is one where all fields of one of these are there.
    - `rows`: the fields that hold the row, the newer state first; in a list of rows each counts.
    - `operation`: the field that says what happened; `deletes` are its words for a deleted row.
    - `key_names`: the field that lists the names of the source's primary key, empty without one.
    - `column_types`: the field with the source's own type of each column, empty without one.
    - `table`: the way to the name of the source table. `scopes`: the ways to what that name is one of, as its database;
      `own_scope` is the one that the source keeps for itself.
    - `key_prefix`: what stands before the names of key columns in the record's key.
    """

    noun: str
    marks: tuple[tuple[str, ...], ...]
    rows: tuple[str, ...]
    operation: str
    deletes: tuple[str, ...]
    key_names: str = ""
    column_types: str = ""
    table: tuple[str, ...] = ("table",)
    scopes: tuple[tuple[str, ...], ...] = (("database",),)
    own_scope: str = ""
    key_prefix: str = ""

    @property
    def table_word(self) -> str:
        """The word of `metadata` for the source table."""
        return ".".join(("value", *self.table))


def decode_text(data: bytes) -> str | None:
    """The text that the bytes are in UTF-8; None where they are none, or hold control characters other than blanks.

    Joiners of emoji, marks of direction and letters that Python does not know yet are text, though it prints none.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    is_control = (unicodedata.category(character) == "Cc" and not character.isspace() for character in text)
    return None if any(is_control) else text
