"""``tidegate import``: another system's sink as a pipeline file and a catalog entry, with a report of each setting."""

import argparse
import json
from pathlib import Path
from typing import Any

from tidegate.adapters.kafka.settings import resolve_kafka_settings
from tidegate.adapters.kafka_connect.rest import fetch_connector
from tidegate.adapters.server_probe import Patience
from tidegate.cli.output import name_command
from tidegate.cli.parser import KAFKA
from tidegate.connections import read_connection_from_env
from tidegate.errors import ConfigurationError, RetryLater
from tidegate.migration.connector_config import Choices, ConnectorConfig, SourceKind, read_config
from tidegate.migration.draft import Translation
from tidegate.migration.position import PositionState, apply_position, find_position
from tidegate.migration.report import describe_import, format_catalog_entry, format_pipeline_file, format_translation
from tidegate.migration.translate import translate
from tidegate.settings import find_include_folder, read_command_name
from tidegate.sinks.world import UnreachableWorld
from tidegate.wiring.proposed_files import check_files, find_new_file, is_declared, refuse_existing, write_files
from tidegate.wiring.sink_world import SinkWorld

STANDS_ELSEWHERE = (PositionState.RUNNING, PositionState.PENDING, PositionState.LOST, PositionState.AHEAD)
# what the user adds for other sinks, and stands in the configuration of these
STATED_OPTIONS = {
    SourceKind.BIGQUERY_SINK: ("table",),
    SourceKind.DEBEZIUM_SERVER: ("table",),
    SourceKind.FLINK_SQL: ("table", "topic", "key"),
}


def run_import(args: argparse.Namespace) -> int:
    """Translate, look where the sink stands, and print or write; 1 where the files could not be written."""
    include = find_include_folder()
    choices = Choices(
        name=args.name,
        catalog=args.catalog,
        kafka=args.kafka,
        tables=tuple(args.table),
        topics=tuple(args.topic),
        key_fields=tuple(part.strip() for part in args.key.split(",") if part.strip()),
        brokers=args.brokers,
    )
    config = _read_config(args)
    for option in STATED_OPTIONS.get(config.kind, ()):
        if getattr(args, option):
            problem = f"--{option}: not for {config.kind}, whose own configuration says it"
            raise ConfigurationError(f"{problem}; leave it out, and correct the pipeline file that comes of it")
    Patience.seconds = 0.0  # someone looks on: a broker that is down is said at once
    try:
        kafka = None if args.offline else _find_kafka(choices)
        world = UnreachableWorld() if args.offline else SinkWorld(include, read_connection_from_env, kafka)
        translation = translate(config, choices, world)
        position = find_position(translation.position, translation.draft, world)
    except RetryLater as fault:
        raise RetryLater(f"{fault}; translate without brokers and catalog: --offline") from fault
    draft = translation.draft
    apply_position(draft, position)
    is_in_file = is_declared(include, draft.catalog_name)
    entry = "" if is_in_file else format_catalog_entry(draft)
    problems, warnings = check_files(include, draft.name, format_pipeline_file(translation), entry)
    draft.to_check += warnings
    data = describe_import(translation, position, problems, is_in_file=is_in_file)
    if args.write:
        if position.state in STANDS_ELSEWHERE:
            raise ConfigurationError(f"position={position.state}: {position.reason}; nothing was written")
        if not args.overwrite:
            refuse_existing(find_new_file(include, draft.name), "--overwrite")
        data["written"] = write_files(include, draft.name, data["file"], entry)
    print(json.dumps(data) if args.json else _format_answer(data, translation))
    return 0


def _read_config(args: argparse.Namespace) -> ConnectorConfig:
    worker = _read_file(args.worker) if args.worker else ""
    if args.config.startswith(("http://", "https://")):
        text = fetch_connector(args.config)
        origin = "the Connect worker's answer"
    else:
        text = _read_file(Path(args.config))
        origin = args.config
    return read_config(text, origin, worker, args.connector)


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8 text"
        raise ConfigurationError(
            f"config={path}: cannot be read: {reason}; give a file, or http://host:8083/..."
        ) from None


def _find_kafka(choices: Choices) -> dict[str, str] | None:
    if choices.brokers and not choices.kafka:
        return {"bootstrap.servers": choices.brokers}
    if not choices.kafka and read_connection_from_env(KAFKA) is None:
        return None
    return resolve_kafka_settings(choices.kafka or KAFKA, read_connection_from_env)


def _format_answer(data: dict[str, Any], translation: Translation) -> str:
    name = data["pipeline"]
    catalog = data["catalog"]
    report = name_command(format_translation(data, translation.settings))
    if "written" in data:
        return f"{report}\n\nwritten: {', '.join(data['written'])}\nnext: {read_command_name()} plan {name}"
    known = "is declared in catalogs.yaml already; the connector's own would be" if catalog["declared"] else "add it"
    parts = (
        f"# ---- pipelines/{name}.yaml",
        data["file"],
        f"# ---- catalogs.yaml: {catalog['name']}: {known}",
        catalog["file"],
        "# ---- report",
        report,
    )
    return "\n".join(parts)
