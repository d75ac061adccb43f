"""The tables of keys in the manual: name, default and description come from the models of the files.

A page has ``<!-- keys: NAME -->`` before a table of what its text adds to single keys. The site shows each key of that
part, with what the page adds behind the model's description.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from tidegate.config.models import formats, pipeline, publication
from tidegate.config.models.settings import parse_interval_or_cron
from tidegate.spec.time_text import UNIT_SECONDS, parse_duration_seconds

DURATION_PARSERS = (parse_duration_seconds, parse_interval_or_cron)
DISABLED = -1
SECTION_PATTERN = re.compile(r"<!-- keys: (\w+) -->\n((?:\|.*\n)+)")
NOTE_PATTERN = re.compile(r"^\| `([^`]+)` \| (.*) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Key:
    """A key as a file writes it below the section, its default as YAML, and the model's description."""

    name: str
    default: str
    description: str


@dataclass(frozen=True)
class Section:
    """A part of a file: its model, the keys that other parts show, and mappings that are shown as one key."""

    model: type[BaseModel]
    without: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()


OPTIONS = ("json", "avro", "protobuf", "csv", "raw")  # of a format; its own page has them
SECTIONS = {
    "source": Section(pipeline.SourceModel, closed=OPTIONS),
    "tables": Section(pipeline.TableModel, closed=("key", "value")),
    "pipeline": Section(pipeline.PipelineModel, without=("source", "tables")),
    "publication": Section(publication.PublicationModel, without=("spark",), closed=OPTIONS),
    "csv": Section(formats.CsvInModel),
    "avro": Section(formats.AvroModel),
    "protobuf": Section(formats.ProtobufModel),
    "written": Section(formats.WrittenModel),
}


def expand_page(text: str) -> str:
    """The page with whole tables of keys. ValueError for a section or a key that no model has."""
    return SECTION_PATTERN.sub(lambda match: render_table(match[1], match[2]), text)


def render_table(name: str, table: str) -> str:
    """All keys of the section, with the notes of the page's own table."""
    notes = dict(NOTE_PATTERN.findall(table))
    keys = list(list_keys(SECTIONS[name]))
    unknown = notes.keys() - {key.name for key in keys}
    if unknown:
        raise ValueError(f"keys={', '.join(sorted(unknown))}: section={name} has no such keys; correct the page")
    rows = [f"| `{key.name}` | {key.default} | {_join(key.description, notes.get(key.name, ''))} |" for key in keys]
    return "\n".join(["| key | default | meaning |", "| --- | --- | --- |", *rows, ""])


def list_keys(section: Section) -> Iterator[Key]:
    """The section's keys in the order of the file."""
    yield from _walk(section.model, "", section)


def _walk(model: type[BaseModel], prefix: str, section: Section) -> Iterator[Key]:
    for field_name, field in model.model_fields.items():
        name = field.alias or field_name
        part = _find_part(field)
        if f"{prefix}{name}" in section.without:
            continue
        if part is not None and name not in section.closed:
            yield from _walk(part, f"{prefix}{name}.", section)
        else:
            yield Key(f"{prefix}{name}", _format_default(field), _describe(field))


def _find_part(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a key that is nothing but a mapping of further keys; None for one with a short form too."""
    is_union = get_origin(field.annotation) in (Union, UnionType)
    kinds = [kind for kind in (get_args(field.annotation) if is_union else (field.annotation,)) if kind is not NoneType]
    is_mapping = len(kinds) == 1 and isinstance(kinds[0], type) and issubclass(kinds[0], BaseModel)
    return kinds[0] if is_mapping else None


def _describe(field: FieldInfo) -> str:
    """The model's description, and the words of which the value must be one."""
    words = [word for word in (field.annotation, *get_args(field.annotation)) if get_origin(word) is Literal]
    values = ", ".join(f"`{_format_value(value)}`" for word in words for value in get_args(word))
    text = _escape(field.description or "")
    return f"{text} One of {values}." if values else text


def _format_default(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "none"
    parsers = (getattr(part, "func", None) for part in field.metadata)
    if isinstance(value, int) and any(parser in DURATION_PARSERS for parser in parsers):
        return f"`{_format_seconds(value)}`"
    return f"`{_format_value(value)}`"


def _format_seconds(seconds: int) -> str:
    if seconds == DISABLED:
        return str(seconds)
    units = sorted(UNIT_SECONDS.items(), key=lambda unit: -unit[1])
    letter, length = next((unit for unit in units if seconds % unit[1] == 0 and seconds >= unit[1]), ("s", 1))
    return f"{seconds // length}{letter}"


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if value == "" or isinstance(value, list | dict) else str(value)


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _join(description: str, note: str) -> str:
    return f"{description} {note}".strip()
