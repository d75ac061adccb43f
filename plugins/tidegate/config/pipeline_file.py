"""Reads a pipeline file and ``defaults.yaml`` into the nouns of a record's journey, or says all that is wrong."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.checks.columns import check_columns
from tidegate.config.checks.schedule import check_fleet, check_timing_and_spark
from tidegate.config.checks.select import check_selects
from tidegate.config.checks.sequence import check_sequences
from tidegate.config.checks.source import check_source
from tidegate.config.checks.tables import check_destinations, check_tables
from tidegate.config.models.pipeline import PipelineModel
from tidegate.config.models.settings import NAME_PATTERN, SharedModel
from tidegate.config.models.table_entry import TableEntry
from tidegate.config.parsing.problems import Problems, read_model, refuse_secrets, to_unexpected_problem
from tidegate.config.parsing.yaml_document import read_document
from tidegate.config.pipeline_spec import to_pipeline
from tidegate.errors import ConfigurationError
from tidegate.model.ownership import Ownership, TableKind, list_product_tables
from tidegate.settings import find_folder_around, format_path, list_unread_files, list_written_files
from tidegate.spec.pipeline import DAG_KINDS, Catalog, Pipeline
from tidegate.spec.source import Source

DEFAULTS_FILE = "defaults.yaml"
Loaded = list[tuple[str, Pipeline | ConfigurationError]]
Claims = dict[Any, Any]  # what the pipelines before need for themselves
SharedFiles = tuple[Mapping[str, Catalog | str], Mapping[str, Any]]  # catalogs and defaults
DESTINATION_OWNERSHIP = Ownership(TableKind.DESTINATION)
# the words stand where a backfill has its id
BACKFILL_NAME_PATTERN = re.compile(r"_backfill(_([0-9a-f]+|replay|verify))?$")
# a pipeline `user_actions` would have the DAG of the actions of a pipeline `user`
DAG_NAME_PATTERN = re.compile(rf"(.+)_({'|'.join(DAG_KINDS)})")


def load_pipeline(
    path: Path, catalogs: Mapping[str, Catalog | str] | None = None, defaults: Mapping[str, Any] | None = None
) -> Pipeline:
    """Checked against catalogs and defaults beside its folder. `ConfigurationError` with every problem."""
    document = read_document(path)
    if defaults is None:
        defaults = read_defaults(find_folder_around(path))
    findings = Problems(document, defaults)
    if path.suffix != ".yaml" or not NAME_PATTERN.fullmatch(path.stem):
        findings.add((), f"name={path.name}: a pipeline's file is [a-z][a-z0-9_-]*.yaml, at most 60 letters; rename it")
    if BACKFILL_NAME_PATTERN.search(path.stem):
        findings.add((), f"name={path.stem}: names that end in _backfill are those of backfills; rename the file")
    elif (dag := DAG_NAME_PATTERN.fullmatch(path.stem)) and path.with_name(f"{dag[1]}.yaml").exists():
        findings.add((), f"name={path.stem}: pipeline={dag[1]} has a DAG tidegate_{path.stem}; rename one of the files")
    if not isinstance(document.data, dict):
        findings.add((), "no pipeline in it; start with source: and tables:, see docs/pipeline-file.md")
        findings.raise_if_any()
    model = read_model(PipelineModel, apply_defaults(document.data, defaults), findings)
    if catalogs is None:
        try:
            catalogs = read_catalogs(find_folder_around(path))
        except ConfigurationError as fault:
            findings.entries += [(0, problem) for problem in fault.problems]
            catalogs = {}
    for word in ("description", "tags"):  # the page and Airflow show them
        refuse_secrets(getattr(model, word), (word,), findings, "an Airflow connection")
    check_source(model, findings)
    entries = [TableEntry(model, index, findings) for index in range(len(model.tables))]
    check_columns(model, entries, findings)
    check_sequences(entries)
    check_tables(path.stem, model, entries, catalogs, findings)
    check_destinations(path.stem, model, entries, catalogs, findings)
    check_selects(entries, catalogs)
    check_timing_and_spark(model, findings)
    check_fleet(path, model, findings)
    findings.raise_if_any()
    return replace(to_pipeline(path.stem, model, entries), warnings=tuple(findings.warnings))


def load_all_pipelines(include: Path, only: str | None = None) -> Loaded:
    """Every file under ``pipelines/`` by name, or one; a broken file does not affect the others.

    A file of another ending is refused under the same name, before the right one.
    """
    try:
        catalogs = read_catalogs(include)
        defaults = read_defaults(include)
        shared: SharedFiles | ConfigurationError = (catalogs, defaults)
    except ConfigurationError as fault:
        shared = fault
    files = [file for file in list_written_files(include / "pipelines") if only in (None, file.stem)]
    return _refuse_conflicts(include, [(file.stem, _load_or_problem(file, shared)) for file in files])


def list_unread_warnings(include: Path) -> tuple[str, ...]:
    """A sentence for each pipeline or publication file in a subfolder, which nobody reads."""
    return tuple(
        f"{format_path(file)}: lies in a folder below {file.relative_to(include).parts[0]}/, and is not read; "
        "move it up"
        for file in list_unread_files(include)
    )


def _load_or_problem(path: Path, shared: SharedFiles | ConfigurationError) -> Pipeline | ConfigurationError:
    if isinstance(shared, ConfigurationError):
        return shared
    try:
        return load_pipeline(path, *shared)
    except ConfigurationError as fault:
        return fault
    except Exception as error:
        return to_unexpected_problem(path, error)


def check_tables_of_others(include: Path, name: str) -> None:
    """`ConfigurationError` where the pipeline needs a table that an earlier one has for another purpose."""
    pipeline = dict(load_all_pipelines(include)).get(name)
    if isinstance(pipeline, ConfigurationError):
        raise pipeline


def _refuse_conflicts(include: Path, load_results: Loaded) -> Loaded:
    """Refuse, of two pipelines that need the same thing for themselves, the later one by name."""
    answer = [*load_results]
    for claim in (_claim_tables, _claim_group, _claim_pool):
        claims: Claims = {}
        for number, (name, pipeline) in enumerate(answer):
            if isinstance(pipeline, Pipeline) and (problem := claim(claims, pipeline)):
                file = format_path(include / "pipelines" / f"{name}.yaml")
                answer[number] = (name, ConfigurationError(f"{file}: {problem}"))
    return answer


# Each notes what a pipeline needs for itself, or returns why it cannot have it.


def _claim_tables(claims: Claims, pipeline: Pipeline) -> str | None:
    # several may share a destination and its remembered deletes; every other table belongs to one
    needed = {table.name: DESTINATION_OWNERSHIP for table in pipeline.tables if table.naming is None}
    needed |= list_product_tables(pipeline)
    for table, table_owner in needed.items():
        owner, name = claims.get(table.casefold(), (table_owner, pipeline.name))
        if owner != table_owner:
            return f"pipeline {name} needs {table} too; rename one of the two files or destinations"
    # one of the pipelines of a destination reports its hours
    period = pipeline.complete
    hours = {(t.name.casefold(), t.branch, period.value): t.name for t in pipeline.tables} if period else {}
    taken = next((hour for hour in hours if hour in claims), None)
    if taken is not None:
        claim = f"complete={taken[2]} of pipeline {claims[taken]} reports those of {hours[taken]}"
        return f"{claim} already, and they would be reported twice; leave complete out of one of the two files"
    claims |= dict.fromkeys(hours, pipeline.name)
    for table, owner in needed.items():
        claims.setdefault(table.casefold(), (owner, pipeline.name))
    return None


def _claim_group(claims: Claims, pipeline: Pipeline) -> str | None:
    members: list[Pipeline] = claims.setdefault(pipeline.source.group, [])
    for other in members:
        if topic := _find_shared_topic(other.source, pipeline.source):
            return (
                f"source.group={pipeline.source.group}: pipeline {other.name} commits its offsets of {topic} to it "
                "too, and each would take the other's for its own; name another group"
            )
    members.append(pipeline)
    return None


def _claim_pool(claims: Claims, pipeline: Pipeline) -> str | None:
    # stages and merges of a fleet are one task for Airflow, and a task has one pool: that of the catalog
    if pipeline.fleet is None:
        return None
    table = pipeline.entries[0]
    first, catalog = claims.setdefault(pipeline.fleet, (pipeline.name, table.catalog))
    if table.catalog == catalog:
        return None
    reason = f"its members take turns in the pool of one catalog, catalog={catalog} of pipeline {first}"
    return f"fleet={pipeline.fleet}: {reason}, and {table.name} lies in another; give the file another fleet"


def _find_shared_topic(one: Source, other: Source) -> str:
    """Return a topic, or a pattern, that two sources on equal brokers read; empty if none is seen to be shared."""
    if one.kafka != other.kafka:
        return ""
    if one.topic_pattern is not None and one.topic_pattern == other.topic_pattern:
        return f"topic_pattern={one.topic_pattern}"
    for topics, source in ((one.topics, other), (other.topics, one)):
        for topic in topics:
            if topic in source.topics or (source.topic_pattern and re.fullmatch(source.topic_pattern, topic)):
                return f"topic={topic}"
    return ""


def read_defaults(include: Path) -> Mapping[str, Any]:
    """The keys as written; empty without the file. `ConfigurationError` with all problems."""
    path = include / DEFAULTS_FILE
    if not os.path.lexists(path):  # a link that leads nowhere is a mistake: without it pipelines would leave a fleet
        return {}
    document = read_document(path)
    findings = Problems(document)
    if isinstance(document.data, dict):
        read_model(SharedModel, document.data, findings)
    else:
        findings.add((), "no section in it; write e.g. heartbeat: {interval: 10m}, or remove the file")
    findings.raise_if_any()
    defaults: Mapping[str, Any] = document.data
    return defaults


def apply_defaults(own_settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A pipeline file's settings, completed by the defaults.

    A section gets the keys that it lacks; a list or any other value is one whole.
    """
    settings = {**defaults, **own_settings}
    for key, words in defaults.items():
        if isinstance(words, Mapping) and isinstance(own_settings.get(key), Mapping):
            settings[key] = {**words, **own_settings[key]}
    return settings


def find_fleet(include: Path, name: str) -> str | None:
    """The fleet in a pipeline's file, or else in ``defaults.yaml``; None for neither, or an unreadable file."""
    try:
        own_settings = read_document(include / "pipelines" / f"{name}.yaml").data
        defaults = read_defaults(include)
    except ConfigurationError:
        return None
    # only this key: the rest of the file may be wrong
    fleet = own_settings.get("fleet", defaults.get("fleet")) if isinstance(own_settings, dict) else None
    return fleet if isinstance(fleet, str) else None
