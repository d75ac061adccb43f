"""Reports the result of an import, for people and programs: the files, each setting, and what the user has to do."""

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from tidegate.config.parsing.yaml_document import render_flow
from tidegate.connections import name_variable
from tidegate.migration.draft import Draft, KeyPath, SettingOutcome, SettingReport, Translation
from tidegate.migration.position import ConnectorPosition
from tidegate.model.counts import format_count

LINE_LENGTH = 118
YAML_LINE_LENGTH = 110
MAX_FLOW_LENGTH = 90
Comments = Mapping[KeyPath, str]
SOURCE_KEYS = ("kafka", "topics", "topic_pattern", "start", "isolation", "group", "key", "value", "metadata", "errors")
HEADER = """Imported by `tidegate import`. Source: {kind}. Secrets are in Airflow connections only.
What became of each setting is in the report of the command; how to switch, and how to go back: docs/migration.md."""


def format_pipeline_file(translation: Translation) -> str:
    draft = translation.draft
    source = draft.data["source"]
    # as docs/pipeline-file.md orders them
    ordered_source = {word: source[word] for word in SOURCE_KEYS if word in source}
    data = {**draft.data, "source": {**ordered_source, **source}}
    return format_yaml(data, draft.comments, HEADER.format(kind=translation.kind))


def format_catalog_entry(draft: Draft) -> str:
    comments = {(draft.catalog_name, *path): text for path, text in draft.catalog_comments.items()}
    return format_yaml({draft.catalog_name: draft.catalog}, comments)


def describe_import(
    translation: Translation, position: ConnectorPosition, problems: Iterable[str], *, is_in_file: bool
) -> dict[str, Any]:
    """Plain data; `problems` come from `validate`, `is_in_file`: catalogs.yaml already has the catalog."""
    draft = translation.draft
    holds: dict[str, list[str]] = {}
    for connection in draft.connections:
        holds.setdefault(connection.id, []).append(connection.content)
    differences = [setting.text for setting in translation.settings if setting.outcome == SettingOutcome.TO_CHECK]
    return {
        "kind": str(translation.kind),
        "connector": translation.connector,
        "pipeline": draft.name,
        "file": format_pipeline_file(translation),
        "catalog": {"name": draft.catalog_name, "file": format_catalog_entry(draft), "declared": is_in_file},
        "settings": [asdict(setting) | {"outcome": str(setting.outcome)} for setting in translation.settings],
        "connections": [
            {"connection": name, "variable": name_variable(name), "holds": texts} for name, texts in holds.items()
        ],
        "position": asdict(position) | {"state": str(position.state), "repeats": translation.position.repeats},
        "to_fill_in": list(dict.fromkeys(draft.to_fill_in)),
        "to_check": list(dict.fromkeys([*draft.to_check, *differences])),
        "problems": list(problems),
    }


def format_translation(data: dict[str, Any], settings: tuple[SettingReport, ...]) -> str:
    """For people, without the files."""
    position = data["position"]
    lines = [f"{data['connector'] or data['pipeline']}: {data['kind']}", ""]
    for outcome in (SettingOutcome.NOT_MAPPED, SettingOutcome.MAPPED, SettingOutcome.NOT_NEEDED):
        texts = [_wrap(setting.text) for setting in settings if setting.outcome == outcome]
        lines += [f"{outcome} ({format_count(len(texts), 'setting')})", *texts, ""]
    lines += ["connections to create, in Airflow or as a variable of the environment"]
    lines += [_wrap(f"{it['connection']} ({it['variable']}): {'; '.join(it['holds'])}") for it in data["connections"]]
    lines += ["", f"position: {position['state']}", _wrap(position["reason"])]
    lines += [_wrap(f"{table}: valid through {at}") for table, at in position["valid_through"].items()]
    lines += [_wrap(position["repeats"])] if position["repeats"] else []
    for title, key in (("to fill in", "to_fill_in"), ("to check", "to_check"), ("validate says", "problems")):
        lines += ["", title, *(_wrap(text) for text in data[key])] if data[key] else []
    if not data["problems"]:
        lines += ["", "validate accepts the file"]
    return "\n".join(lines)


def _wrap(text: str) -> str:
    return textwrap.fill(
        " ".join(text.split()), LINE_LENGTH, initial_indent="  ", subsequent_indent="      ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def format_yaml(data: Mapping[str, Any], comments: Comments, header: str = "") -> str:
    """A comment stands above the key of its path, `header` above all."""
    lines = [*_format_comment(header, 0), *_format_mapping(data, comments, (), 0)]
    return "\n".join(lines) + "\n"


def _format_comment(text: str, depth: int) -> list[str]:
    indent = "  " * depth + "# "
    return [
        line
        for paragraph in text.splitlines()
        for line in textwrap.wrap(
            paragraph,
            YAML_LINE_LENGTH,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        or [indent.rstrip()]
    ]


def _format_mapping(data: Mapping[str, Any], comments: Comments, path: KeyPath, depth: int) -> list[str]:
    lines: list[str] = []
    for key, value in data.items():
        below = (*path, key)
        lines += _format_comment(comments.get(below, ""), depth)
        lines += _format_entry(f"{'  ' * depth}{render_flow(key)}:", value, comments, below, depth)
    return lines


def _format_entry(head: str, value: Any, comments: Comments, path: KeyPath, depth: int) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        return [f"{head} |", *(f"{'  ' * (depth + 1)}{line}" for line in value.strip().splitlines())]
    flow = render_flow(value)
    is_commented = any(len(comment_path) > len(path) and comment_path[: len(path)] == path for comment_path in comments)
    if not isinstance(value, dict | list) or not value or (len(flow) <= MAX_FLOW_LENGTH and not is_commented):
        return [f"{head} {flow}"]
    if isinstance(value, dict):
        return [head, *_format_mapping(value, comments, path, depth + 1)]
    return [
        head,
        *(line for index, item in enumerate(value) for line in _format_item(item, comments, (*path, index), depth)),
    ]


def _format_item(value: Any, comments: Comments, path: KeyPath, depth: int) -> list[str]:
    indent = "  " * (depth + 1)
    above = _format_comment(comments.get(path, ""), depth + 1)
    if not isinstance(value, dict):
        return [*above, f"{indent}- {render_flow(value)}"]
    lines = _format_mapping(value, comments, path, depth + 2)
    first = next(index for index, line in enumerate(lines) if not line.lstrip().startswith("#"))
    lines[first] = f"{indent}- {lines[first].lstrip()}"
    return [*above, *(f"{indent}{line.lstrip()}" for line in lines[:first]), *lines[first:]]
