"""Reads the YAML that describes a record's journey, remembers on which line every key stands, and writes values."""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tidegate.errors import ConfigurationError
from tidegate.redaction import is_secret_name
from tidegate.settings import format_path

KeyPath = tuple[str | int, ...]
# Aliases can blow a few lines up to millions of values; no honest file comes near this.
MAX_VALUES = 100_000
MAX_DEPTH = 50  # what reads the data goes down into it by calls
# What PyYAML raises for text that is not of its tag: it misses an entry, a match or a letter.
UNREADABLE = (ValueError, LookupError, AttributeError, yaml.constructor.ConstructorError)
NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
# 1:30 counts sixties and 0100 eights, which is what nobody means who writes a duration, a version or an offset
ODD_NUMBER_PATTERN = re.compile(r"[-+]?(0[0-9_]+$|[0-9][0-9_]*:)")
MAX_NUMBER = 2**63 - 1  # of Kafka, Iceberg, BigQuery and Spark
TAB_PATTERN = re.compile(r" *\t\s*[^\s#]")  # YAML takes tabs as blanks, but not where the depth of a line is counted
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Document:
    """A YAML file's data, the line of each key path, and what is wrong with it as YAML (one message per line)."""

    shown: str
    data: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: tuple[tuple[int, str], ...] = ()

    def find_line(self, path: KeyPath) -> int:
        """The line of `path`, or of the nearest key around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_document(path: Path) -> Document:
    """Safe tags only. `ConfigurationError` for an unreadable file, or one that is no YAML."""
    file = format_path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as fault:
        raise ConfigurationError(f"{file}: cannot be read: {fault.strerror}; check the path and its rights") from fault
    except UnicodeDecodeError as fault:
        raise ConfigurationError(f"{file}: not UTF-8 at byte {fault.start}; save it as UTF-8") from fault
    try:
        return _NodeWalker(file).read_document(text)
    except yaml.YAMLError as fault:
        raise ConfigurationError(_format_syntax_problem(file, text, fault)) from fault
    except RecursionError:
        raise ConfigurationError(f"{file}: brackets or blocks nest too deeply to be read; write it flatter") from None


def _format_syntax_problem(file: str, text: str, fault: yaml.YAMLError) -> str:
    mark = getattr(fault, "problem_mark", None) or getattr(fault, "context_mark", None)
    position = getattr(fault, "position", None)
    line = mark.line + 1 if mark else text[: position or 0].count("\n") + 1
    if TAB_PATTERN.match(next(iter(text.split("\n")[line - 1 : line]), "")):  # the mark may stand behind the last line
        return f"{file}:{line}: not YAML: a tab before the first word of a line; write blanks in its place"
    reason = getattr(fault, "problem", None) or getattr(fault, "reason", None) or "cannot be read"
    return f"{file}:{line}: not YAML: {reason}; check indentation, quotes and colons on this line and the one before"


class _NodeWalker:
    """One pass over the composed nodes: lines, duplicate keys, and scalars that YAML itself cannot read."""

    def __init__(self, file: str) -> None:
        self.shown = file
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[tuple[int, str]] = []
        self.open: set[int] = set()

    def read_document(self, text: str) -> Document:
        self.loader = _Loader(text)
        try:
            node = self.loader.get_single_node()
            if node is None:
                return Document(self.shown, None)
            self.visit(node, ())
            return Document(self.shown, self.loader.construct_document(node), self.lines, tuple(self.problems))
        finally:
            self.loader.dispose()

    def visit(self, node: yaml.Node, path: KeyPath) -> None:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if id(node) in self.open or len(self.lines) > MAX_VALUES:
            raise yaml.MarkedYAMLError(problem="aliases nest without end", problem_mark=node.start_mark)
        if len(path) > MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem="values nest too deeply", problem_mark=node.start_mark)
        self.open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self.visit_mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.visit(item, (*path, index))
        else:
            self.visit_scalar(node, path)
        self.open.discard(id(node))

    def visit_mapping(self, node: yaml.MappingNode, path: KeyPath) -> None:
        lines: dict[Any, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == "tag:yaml.org,2002:merge":
                self.visit(value_node, (*path, "<<"))
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append((line, "a key must be a plain word; put it in quotes"))
                continue
            key = self.visit_scalar(key_node, path)
            if key in lines:
                dotted = ".".join(str(part) for part in (*path, key))
                self.problems.append((line, f"{dotted}: given twice, first on line {lines[key]}; keep one of them"))
            lines.setdefault(key, line)
            self.lines[*path, key] = line
            self.visit(value_node, (*path, key))

    def visit_scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        try:
            value = self.loader.construct_object(node, deep=True)
        except UNREADABLE:
            self.loader.recursive_objects.pop(node, None)
            return self.take_as_text(node, path, f"not a value that YAML knows ({node.tag.rsplit(':', 1)[-1]})")
        if node.tag in NUMBER_TAGS and ODD_NUMBER_PATTERN.match(node.value):
            is_secret = any(is_secret_name(part) for part in path)
            problem = (
                "would be read as another number" if is_secret else f"{node.value} would be read as the number {value}"
            )
            return self.take_as_text(node, path, problem)
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            return self.take_as_text(node, path, "a number of more than 64 bits")
        return value

    def take_as_text(self, node: yaml.Node, path: KeyPath, problem: str) -> Any:
        key_text = ".".join(str(part) for part in path)
        self.problems.append((node.start_mark.line + 1, f"{key_text}: {problem}; put it in quotes"))
        # so that the rest can still be checked
        node.tag = "tag:yaml.org,2002:str"
        return node.value


class _FlowDumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.Node:
        # other quotes would spread a text with line ends over several lines
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_FlowDumper.add_representer(str, _FlowDumper.represent_text)


def render_flow(value: Any) -> str:
    """On one line: lists and mappings in brackets, a text in quotes where YAML would read it as anything else."""
    text = _dump_flow(value, allow_unicode=True)
    return text if text.isprintable() else _dump_flow(value, allow_unicode=False)


def _dump_flow(value: Any, *, allow_unicode: bool) -> str:
    text: str = yaml.dump(
        value, Dumper=_FlowDumper, default_flow_style=True, sort_keys=False, width=math.inf, allow_unicode=allow_unicode
    )
    return text.removesuffix("\n").removesuffix("\n...")
