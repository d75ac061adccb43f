"""Flink SQL as a pipeline: a Kafka table, an Iceberg table or catalog, and the INSERT between them."""

import re
from typing import Any

from tidegate.config.destinations.registry import SPARK_DESTINATION
from tidegate.errors import ConfigurationError
from tidegate.migration.connector_config import Choices, ConnectorConfig
from tidegate.migration.draft import Draft, PositionSource, Translation
from tidegate.migration.flink.kafka_table import plan_kafka_table
from tidegate.migration.flink.statements import FlinkInsert, FlinkScript, FlinkTable, parse_script
from tidegate.migration.kafka_connect.catalog_settings import choose_catalog_name, plan_catalog
from tidegate.migration.kafka_connect.worker_settings import start_draft
from tidegate.migration.settings_ledger import SettingsLedger
from tidegate.sinks.world import World
from tidegate.sql.spark import quote

DESTINATION = SPARK_DESTINATION.name
KAFKA_CONNECTORS = ("upsert-kafka", "kafka")
CATALOG_WORDS = ("type", "connector", "catalog-name", "catalog-database", "catalog-table", "property-version",
                 "default-database", "catalog-type")  # fmt: skip
PLAIN_COLUMN = re.compile(r"`?([A-Za-z_]\w*)`?")
CHECKPOINTS = (
    "Flink commits the group's offsets when a checkpoint is complete, and the table at about the same time. "
    "Stop the job "
    "with a savepoint, and see that the newest snapshot's flink.max-committed-checkpoint-id is that checkpoint."
)
NO_GROUP = (
    "upsert-kafka keeps its offsets in Flink's checkpoints, and the table has no properties.group.id. The "
    "topics are read "
    "again from their begin: upserts and deletes by key end with the same rows."
)


def translate_flink_sql(config: ConnectorConfig, choices: Choices, _: World) -> Translation:
    """The script as a draft, with a report of each option, setting and statement."""
    script = parse_script(config.statements)
    ledger = SettingsLedger(_list_settings(script))
    inserts = _choose_inserts(script, ledger)
    source_name = script.complete(inserts[0].source)
    source = script.tables[source_name]
    first = _find_sink(script, inserts[0])
    name = choices.name or first[-1].rpartition(".")[2]
    catalog = choices.catalog or choose_catalog_name(first[0], "lake")
    draft = start_draft(name, choices, f"Imported from {config.kind}: {source_name}", catalog)
    is_upsert = plan_kafka_table(ledger, draft, source, f"TABLE {source_name}.")
    draft.data["tables"] = [_plan_sink(script, ledger, draft, insert, is_upsert=is_upsert) for insert in inserts]
    draft.data["merge"] = {"interval": "1m"}
    _note_statements(ledger)
    group = source.options.get("properties.group.id", "")
    position = PositionSource(
        groups=(group,) if group else (),
        repeats=CHECKPOINTS if group else "",
        reason=NO_GROUP
        if is_upsert
        else "the Kafka table has no properties.group.id: say where to begin in source.start",
        from_begin=is_upsert,
    )
    return Translation(kind=config.kind, connector=name, draft=draft, settings=ledger.list_reports(), position=position)


def _list_settings(script: FlinkScript) -> dict[str, str]:
    """Every option, setting and statement of the script as a setting with a name of its own."""
    settings = {f"TABLE {name}.{key}": v for name, table in script.tables.items() for key, v in table.options.items()}
    settings |= {f"CATALOG {name}.{key}": v for name, options in script.catalogs.items() for key, v in options.items()}
    settings |= {f"TABLE {name}.WATERMARK": "" for name, table in script.tables.items() if table.watermark}
    settings |= {
        f"TABLE {n}.column {c.name}": c.name for n, t in script.tables.items() for c in t.columns if c.expression
    }
    settings |= {f"INSERT INTO {script.complete(insert.target)}": "" for insert in script.inserts}
    settings |= {f"SET {name}": value for name, value in script.settings.items()}
    return settings | {f"statement {text}": "" for text in script.others}


def _choose_inserts(script: FlinkScript, ledger: SettingsLedger) -> list[FlinkInsert]:
    """The inserts that a pipeline can do; they read one Kafka table."""
    chosen_inserts = list[FlinkInsert]()
    for insert in script.inserts:
        name, source = (
            f"INSERT INTO {script.complete(insert.target)}",
            script.tables.get(script.complete(insert.source)),
        )
        if insert.problem:
            ledger.refuse(name, f"{insert.problem}; keep this statement in Flink, or write it as tables[].select")
        elif source is None or source.options.get("connector") not in KAFKA_CONNECTORS:
            ledger.refuse(name, f"it reads {insert.source}, which is no Kafka table of this script")
        elif chosen_inserts and script.complete(chosen_inserts[0].source) != script.complete(insert.source):
            ledger.refuse(name, "it reads another table than the first INSERT: import it alone, with --name")
        else:
            chosen_inserts.append(insert)
            ledger.map(name, "tables[]")
    if not chosen_inserts:
        raise ConfigurationError(
            "statements: no INSERT INTO <Iceberg table> SELECT ... FROM <Kafka table> that makes one row of "
            "each record; "
            "give CREATE TABLE of both and the INSERT; joins and aggregates stay in Flink"
        )
    return chosen_inserts


def _find_sink(script: FlinkScript, insert: FlinkInsert) -> tuple[str, str, str]:
    """Catalog, prefix of its options in the ledger, and ``namespace.table`` of an INSERT's target."""
    target = script.complete(insert.target)
    table, (head, _, table_path) = script.tables.get(target), target.partition(".")
    if table is not None and table.options.get("connector") == DESTINATION:
        database = table.options.get("catalog-database", "default_database")
        table_name = table.options.get("catalog-table") or target.rpartition(".")[2]
        return table.options.get("catalog-name", ""), f"TABLE {target}.", f"{database}.{table_name}"
    if script.catalogs.get(head, {}).get("type") == DESTINATION:
        return head, f"CATALOG {head}.", table_path
    raise ConfigurationError(
        f"INSERT INTO {target}: it is no Iceberg table of this script; give its CREATE TABLE with "
        f"'connector'='{DESTINATION}', "
        f"or CREATE CATALOG with 'type'='{DESTINATION}'"
    )


def _plan_sink(
    script: FlinkScript, ledger: SettingsLedger, draft: Draft, insert: FlinkInsert, *, is_upsert: bool
) -> dict[str, Any]:
    _, prefix, name = _find_sink(script, insert)
    for word in CATALOG_WORDS:
        ledger.map(f"{prefix}{word}", "tables[].name, catalogs.yaml")
    sink = script.tables.get(script.complete(insert.target), FlinkTable(name))
    options = {**sink.options} if sink.options else {}
    if "type" not in draft.catalog:
        plan_catalog(ledger, draft, prefix, (*CATALOG_WORDS, *_list_table_options(options)), "catalog-type")
    entry: dict[str, Any] = {"name": f"{draft.catalog_name}.{name}", "upsert": is_upsert, "delete": is_upsert}
    select = _build_select(insert, sink, script.tables[script.complete(insert.source)])
    if select:
        entry["select"] = select
        draft.check(("tables",), "Functions of Flink SQL may have another name in Spark SQL: read each select.")
    if insert.condition:
        entry["when"] = insert.condition
        entry |= {"when_false": "delete"} if is_upsert else {}
        draft.check(("tables",), "The WHERE is Flink's text: read it as Spark SQL.")
    create = _plan_creation(ledger, sink, f"TABLE {script.complete(insert.target)}.")
    return {**entry, "create": create} if create else entry


def _list_table_options(options: dict[str, str]) -> list[str]:
    words = ("write.", "format-version", "upsert-enabled", "sink.", "commit.", "history.", "read.")
    return [name for name in options if name.startswith(words)]


def _plan_creation(ledger: SettingsLedger, sink: FlinkTable, prefix: str) -> dict[str, Any]:
    """How a table is made that does not stand yet; accounts for each option of the sink's table."""
    properties: dict[str, str] = {}
    for name, value in sink.options.items():
        if name in ("write.upsert.enabled", "upsert-enabled"):
            ledger.map(f"{prefix}{name}", "tables[].upsert")
        elif name == "format-version" and value not in ("1", "2"):
            ledger.refuse(
                f"{prefix}{name}", "tables of format 3 are refused: let the pipeline make a table of format 2"
            )
        elif name in _list_table_options(sink.options) and not name.startswith("sink."):
            properties[name] = value
            ledger.map(f"{prefix}{name}", f"tables[].create.properties.{name}", "for a table that is still to be made")
        elif name.startswith("sink."):
            ledger.drop(f"{prefix}{name}", "how Flink's tasks write")
    return ({"partition_by": list(sink.partitions)} if sink.partitions else {}) | (
        {"properties": properties} if properties else {}
    )


def _build_select(insert: FlinkInsert, sink: FlinkTable, source: FlinkTable) -> str:
    """Flink inserts by place: each expression goes into the sink's column of the same number."""
    physical = [column for column in sink.columns if not column.expression]
    names = list(insert.columns) or [column.name for column in physical]
    kinds = {column.name: column.type for column in physical}
    if [expression for expression, _ in insert.items] == ["*"]:
        read = [column.name for column in source.columns]
        if not names or names == read:
            return ""
        items = [(quote(name), "") for name in read]
    else:
        items = list(insert.items)
    columns = [
        _format_column(
            expression, alias or (names[index] if index < len(names) else ""), kinds, insert.columns or names, index
        )
        for index, (expression, alias) in enumerate(items)
    ]
    return "SELECT\n  " + ",\n  ".join(columns) + "\nFROM record"


def _format_column(expression: str, alias: str, kinds: dict[str, str], names: Any, index: int) -> str:
    target = names[index] if index < len(names) else alias
    plain = PLAIN_COLUMN.fullmatch(expression)
    if plain:
        return quote(plain[1]) + (f" AS {quote(target)}" if target and target != plain[1] else "")
    kind = kinds.get(target)
    cast_expression = (
        f"CAST({expression} AS {kind})" if kind and not expression.upper().startswith("CAST") else expression
    )
    return f"{cast_expression} AS {quote(target or f'column_{index + 1}')}"


def _note_statements(ledger: SettingsLedger) -> None:
    for name in ledger.list_names("SET "):
        ledger.drop(name, "a setting of Flink's job; Airflow and Spark have their own")
    for name in ledger.list_names("statement "):
        if name.split()[1].upper() in ("CREATE", "USE") and "DATABASE" in name.upper():
            ledger.drop(name, "a namespace is made with its first table")
        else:
            ledger.refuse(name, "a statement without a part in the pipeline")
    for name in ledger.list_names("TABLE "):
        if name.endswith(".WATERMARK"):
            ledger.drop(name, "tables need no watermark; history and sequence_by name a column of their own")
