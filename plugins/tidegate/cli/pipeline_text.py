"""Writes a proposed pipeline as YAML, each value with its reason. CHECK marks each line that may be wrong."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.config.parsing.yaml_document import render_flow
from tidegate.model.counts import format_count
from tidegate.sampling.column_types import ProposedColumn
from tidegate.sampling.proposal import ProposedTable, ProposedValue
from tidegate.sampling.samples import PlacedCheck

WIDTH = 118
STEP = "  "
SOURCE_COLUMN = "source_table"


@dataclass(frozen=True)
class ProposedPipeline:
    """A proposed pipeline file. `kafka` is a connection id or inline settings."""

    name: str
    kafka: str | dict[str, str]
    tables: tuple[ProposedTable, ...]

    @property
    def source_column(self) -> str:
        """A name that no column has, for the source table's name."""
        names = {c.name.casefold() for t in self.tables for c in (*t.value.columns, *t.key.columns)}
        return next(
            name for name in (SOURCE_COLUMN, *(f"{SOURCE_COLUMN}_{n}" for n in range(2, 99))) if name not in names
        )

    @property
    def checks(self) -> tuple[PlacedCheck, ...]:
        """With several tables by the table's name."""
        several = len(self.tables) > 1
        return tuple(
            PlacedCheck(f"{table.name} {check.place}" if several else check.place, check.text)
            for table in self.tables
            for check in table.checks
        )


def render_pipeline(proposal: ProposedPipeline) -> str:
    lines = _render_head(proposal)
    only = proposal.tables[0] if len(proposal.tables) == 1 else None
    topics = [*dict.fromkeys(table.sample.topic for table in proposal.tables)]
    lines += [
        f"description: {render_flow('From ' + ', '.join(topics))}",
        "source:",
        f"  kafka: {render_flow(proposal.kafka)}",
    ]
    for table in proposal.tables:
        lines += _indent(_render_checks(c for c in table.checks if c.place == f"topic={table.sample.topic}"), 1)
    lines.append(f"  topics: {render_flow(topics)}")
    words = {t.value.format.event.table_word for t in proposal.tables if t.source_table and t.value.format.event}
    if words:
        lines += ["  metadata:", *(f"    {proposal.source_column}: {word}" for word in sorted(words))]
    if only is not None:
        lines += _indent([*_render_key(only), *_render_value(only.value)], 1)
    lines.append("tables:")
    for table in proposal.tables:
        lines += _render_table(table, is_alone=only is not None, source_column=proposal.source_column)
    lines += ["merge:", f"  interval: 60s{render_comment('the default')}"]
    return "\n".join(lines) + "\n"


def _render_head(proposal: ProposedPipeline) -> list[str]:
    sample_sizes = "; ".join(
        f"{table.sample.topic}{f' {table.source_table}' if table.source_table else ''}: {table.sample.size}"
        for table in proposal.tables
    )
    lines = _wrap(f"Proposed by `tidegate init` from a sample. {sample_sizes}.")
    if not proposal.checks:
        return lines
    lines += _wrap(
        f"{format_count(len(proposal.checks), 'point')} that a sample cannot tell, and that may be wrong. CHECK:"
    )
    for number, check in enumerate(proposal.checks, 1):
        lines += _wrap(f"{number}. {check}", "#   ", "#      ")
    return lines


def _render_table(table: ProposedTable, *, is_alone: bool, source_column: str) -> list[str]:
    lines = [f"name: {render_flow(table.name)}"]
    if not is_alone:
        lines.append(f"topics: {render_flow([table.sample.topic])}")
        if table.source_table:
            route = {"field": source_column, "pattern": re.escape(table.source_table)}
            lines.append(f"route: {render_flow(route)}{render_comment('other tables of the topic are left to others')}")
        lines += [*_render_key(table), *_render_value(table.value)]
    lines += _render_checks(table.checks, "tables")
    if table.is_keyed:
        remark = "a record without a value deletes"
        if table.value.format.is_change_event:
            remark = "change events say what is deleted"
        elif table.tombstones:
            remark = f"{format_count(table.tombstones, 'tombstone')} seen"
        lines += [f"upsert: true{render_comment('there is a key')}", f"delete: true{render_comment(remark)}"]
    else:
        lines += [f"upsert: false{render_comment('no key: each record is appended')}", "delete: false"]
    if table.delete_when:
        lines.append(f"delete_when: {render_flow(table.delete_when)}{render_comment('flattened change events')}")
    remark = f"{format_count(table.sample.span, 'offset')} in the log; decide before the table grows large"
    lines += ["create:", f"  partition_by: []{render_comment(remark)}"]
    return [f"  - {lines[0]}", *_indent(lines[1:], 2)]


def _render_key(table: ProposedTable) -> list[str]:
    key = table.key
    lines = ["key:", *_indent(_render_checks(table.checks, "key"), 1)]
    if not key.fields:
        return [*lines, f"  fields: []{render_comment('none was found')}"]
    if key.from_value:
        lines.append(f"  from: value{render_comment('the record key does not hold them')}")
    elif key.format and not table.value.format.holds_several_rows:
        lines.append(f"  format: {render_flow(key.format)}")
    lines.append(f"  fields: {render_flow(key.fields)}{render_comment('; '.join(key.remarks))}")
    if key.prefix:
        lines.append(f"  prefix: {render_flow(key.prefix)}")
    lines += [f"  {name}: {render_flow(words)}" for name, words in key.options.items()]
    return [*lines, *_indent(_render_schema(key.columns), 1)]


def _render_value(value: ProposedValue) -> list[str]:
    lines = ["value:", *_indent(_render_checks(value.checks, "value", "topic="), 1)]
    lines.append(f"  format: {render_flow(value.format.name)}{render_comment(value.remark)}")
    lines += [f"  {name}: {render_flow(words)}" for name, words in value.options.items()]
    if not value.is_stated:
        return [*lines, *_indent(_render_schema(value.columns), 1)]
    names = ", ".join(column.ddl for column in value.columns)
    return [*lines, *_indent(_wrap(f"columns, from the registry: {names}"), 1)]


def _render_schema(columns: Sequence[ProposedColumn]) -> list[str]:
    if not columns:
        return []
    lines = ["schema: |"]
    for index, column in enumerate(columns):
        for check in column.checks:
            lines += _wrap(f"CHECK {check}", "  -- ", "  --   ")
        end = "," if index < len(columns) - 1 else ""
        remarks = f"  -- {clean('; '.join(column.remarks))}" if column.remarks else ""
        lines.append(f"  {column.ddl}{end}{remarks}")
    return lines


def _render_checks(checks: Iterable[PlacedCheck], *places: str) -> list[str]:
    lines = []
    for check in checks:
        # checks of single columns stand at their column
        if (not places or check.place.startswith(places)) and not re.match(r"\w+\.schema .", check.place):
            lines += _wrap(f"CHECK {check.text}", "# ", "#   ")
    return lines


def _indent(lines: Iterable[str], steps: int) -> list[str]:
    return [STEP * steps + line for line in lines]


def _wrap(text: str, first: str = "# ", more: str = "#   ") -> list[str]:
    return textwrap.wrap(
        clean(text), WIDTH, initial_indent=first, subsequent_indent=more, break_long_words=False, break_on_hyphens=False
    )


def clean(text: str) -> str:
    """One printable line: names of fields may contain any character."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def render_comment(text: str) -> str:
    """Behind a value; empty for no text."""
    return f"  # {clean(text)}" if text else ""
