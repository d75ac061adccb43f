"""The Iceberg sinks of Kafka Connect, Apache's and Tabular's: tables, routes, keys, and where the position stands."""

from typing import Any

from tidegate.config.destinations.registry import SPARK_DESTINATION
from tidegate.errors import ConfigurationError
from tidegate.migration.connector_config import Choices, ConnectorConfig, SourceKind
from tidegate.migration.draft import Draft, PositionSource, SettingsLedger, Translation
from tidegate.migration.kafka_connect.catalog_settings import choose_catalog_name, plan_catalog
from tidegate.migration.kafka_connect.converters import plan_converter
from tidegate.migration.kafka_connect.table_settings import (
    complete_records,
    declare_disjoint_keys,
    format_milliseconds,
    note_new_fields,
    parse_partitions,
)
from tidegate.migration.kafka_connect.worker_settings import (
    find_connect_group,
    find_reset,
    note_worker_settings,
    plan_topics,
    start_draft,
)
from tidegate.migration.transforms.record_plan import FILL_IN, RecordPlan
from tidegate.migration.transforms.single_message_transforms import plan_transforms
from tidegate.sinks.world import ControlTopic, World
from tidegate.sql.spark import quote, render_literal

ROUTE_FIELD = "iceberg.tables.route-field"
EVOLVES = "iceberg.tables.evolve-schema-enabled"
DYNAMIC = "iceberg.tables.dynamic-enabled"
NO_COORDINATOR = "there is no coordinator: Spark writes, and one commit publishes rows and position"
DEFAULT_COMMIT_MS = "300000"
WITHOUT_MEANING = {
    "iceberg.control.commit.timeout-ms": NO_COORDINATOR,
    "iceberg.control.commit.threads": NO_COORDINATOR,
    "iceberg.control.commit.max-consecutive-failures": NO_COORDINATOR,
    "iceberg.control.group-id-prefix": NO_COORDINATOR,
    "iceberg.coordinator.transactional.prefix": NO_COORDINATOR,
    "iceberg.coordinator.transactional.suffix": NO_COORDINATOR,
    "iceberg.coordinator-executor-keep-alive-timeout-ms": NO_COORDINATOR,
    "iceberg.tables.schema-case-insensitive": "names are compared without case",
}
ICEBERG_WORD = SPARK_DESTINATION.name  # the name of a catalog that the sink gives none
HADOOP_SETTINGS = (
    "Hadoop's settings: give Spark what it needs of them in spark.conf, as spark.hadoop.*; PyIceberg needs the store's "
    "settings in catalogs.yaml"
)
IDENTIFIERS = (
    "the sink appends: the columns became identifier fields of the table, and no key; to keep one row for each key, "
    "remove the older rows of each key from it, and set source.key.fields with upsert: true"
)


def translate_iceberg_sink(config: ConnectorConfig, choices: Choices, world: World) -> Translation:
    ledger = SettingsLedger(config.settings)
    plan = RecordPlan()
    catalog = choices.catalog or choose_catalog_name(ledger.get("iceberg.catalog", ICEBERG_WORD))
    draft = start_draft(config.name, choices, f"Imported from {config.name}: {config.kind}", catalog)
    note_worker_settings(ledger, draft)
    plan_catalog(ledger.below("iceberg.catalog."), draft)
    ledger.map("iceberg.catalog", f"catalogs.yaml: {draft.catalog_name}")
    for name in (*ledger.list_names("iceberg.hadoop."), *ledger.list_names("iceberg.hadoop-conf-dir")):
        ledger.refuse(name, HADOOP_SETTINGS)
    topics = plan_topics(ledger, draft, choices, world)
    plan_converter(ledger, draft, plan, "value")
    ledger.drop_below("key.converter", "the sink does not read the record's key")
    plan_transforms(ledger, draft, plan)
    control = _find_control(ledger, config)
    draft.data["tables"] = _plan_tables(ledger, draft, plan, _name_tables(ledger, draft, choices, world, control))
    _plan_modes(ledger, draft, plan, choices, world)
    complete_records(draft, plan, world)
    if plan.row.is_typed and "topic_pattern" in draft.data["source"] and topics:
        problem = f"It matches {', '.join(topics)}; a registry format needs a subject beside it."
        draft.check(("source", "topic_pattern"), problem)
    interval = format_milliseconds(ledger.read_number("iceberg.control.commit.interval-ms", DEFAULT_COMMIT_MS))
    draft.data["merge"] = {"interval": interval}
    ledger.map("iceberg.control.commit.interval-ms", f"merge.interval: {interval}")
    ledger.drop_each(WITHOUT_MEANING)
    # Tabular's sink prefers its own group to Connect's
    groups = dict.fromkeys(group for group in (control.group, _find_connect_group(ledger, config)) if group)
    position = PositionSource(groups=tuple(groups), control=control, reset=find_reset(ledger))
    return Translation(
        kind=config.kind, connector=config.name, draft=draft, settings=ledger.list_reports(), position=position
    )


def _find_control(ledger: SettingsLedger, config: ConnectorConfig) -> ControlTopic:
    """The topic and the consumer groups through which the sink's tasks and its coordinator agree."""
    topic = ledger.get("iceberg.control.topic", "control-iceberg")
    connect = _find_connect_group(ledger, config)
    group = connect
    if config.kind == SourceKind.TABULAR_ICEBERG_SINK:
        group = ledger.get("iceberg.control.group-id", f"cg-control-{config.name}")
    names = ("iceberg.control.topic", "iceberg.control.group-id", "iceberg.connect.group-id")
    ledger.map_each(names, "source.start: it names where the connector's position stands")
    return ControlTopic(
        name=topic, group=group, property=f"kafka.connect.offsets.{topic}.{group}", coordinator=f"{group}-coord"
    )


def _find_connect_group(ledger: SettingsLedger, config: ConnectorConfig) -> str:
    return ledger.get("iceberg.connect.group-id") or find_connect_group(ledger, config.name)


def _name_tables(
    ledger: SettingsLedger, draft: Draft, choices: Choices, world: World, control: ControlTopic
) -> list[str]:
    ledger.map("iceberg.tables", "tables[].name")
    names = list(choices.tables) or ledger.list_items("iceberg.tables")
    if names:
        return names
    if not ledger.is_true(DYNAMIC):
        raise ConfigurationError(
            f"iceberg.tables: missing, and {DYNAMIC} is not true: the connector writes no table; give the tables' "
            "names with --table namespace.table, or correct the configuration"
        )
    # records name the tables: then the sink's notes in the catalog tell them
    table_names = world.list_noted_tables(draft.catalog_name, control)
    if not table_names:
        raise ConfigurationError(
            "iceberg.tables.dynamic-enabled: records name the tables, and no setting does; give their names with "
            f"--table namespace.table, or declare catalog={draft.catalog_name} in catalogs.yaml, where the tables that "
            "the connector has committed to are looked up"
        )
    draft.check(("tables",), "These are the tables that the connector has committed to; records may name more.")
    return list(table_names)


def _plan_modes(ledger: SettingsLedger, draft: Draft, plan: RecordPlan, choices: Choices, world: World) -> None:
    cdc = ledger.get("iceberg.tables.cdc-field")
    # both sinks append; Tabular's upserts if a setting says that records have a key
    upserts = ledger.is_true("iceberg.tables.upsert-mode-enabled") or bool(cdc)
    ledger.map("iceberg.tables.upsert-mode-enabled", f"tables[].upsert: {str(upserts).lower()}")
    _plan_cdc_field(ledger, draft, plan, cdc)
    deletes = bool(plan.delete_when) or (upserts and plan.is_change_event)
    for index, table in enumerate(draft.data["tables"]):
        table |= {"upsert": upserts, "delete": deletes}
        own_setting = f"iceberg.table.{table['name'].partition('.')[2]}.id-columns"
        id_settings = (own_setting, "iceberg.tables.default-id-columns")
        columns = ledger.list_items(own_setting) or ledger.list_items("iceberg.tables.default-id-columns")
        if not upserts:
            ledger.drop_each(dict.fromkeys(id_settings, IDENTIFIERS))
            continue
        if not choices.key_fields and not columns:
            shape = world.describe_table(table["name"])
            columns = list(shape.identifiers) if shape else []
        columns = list(choices.key_fields) or columns
        ledger.map_each(id_settings, "source.key.fields, with source.key.from: value")
        _set_key(draft, plan, index, columns)
    topics = draft.data["source"].get("topics", [])
    if upserts and len(topics) != 1:
        for index, table in enumerate(draft.data["tables"]):
            declare_disjoint_keys(draft, table, index)


def _plan_cdc_field(ledger: SettingsLedger, draft: Draft, plan: RecordPlan, cdc: str) -> None:
    if not cdc:
        return
    if plan.is_change_event:
        ledger.map("iceberg.tables.cdc-field", "tables[].delete: true", "the change event itself says what it does")
        return
    operation = _find_sql(plan, cdc)
    if not operation:
        ledger.refuse("iceberg.tables.cdc-field", f"{cdc} is no column any more behind the transforms")
        return
    draft.check(
        ("source", "key"),
        "The connector ignored records without a value. Here they are bad, as the key is in the value: set "
        "source.errors.tolerance: all to set them aside, or let the record's key be the key, and they delete.",
    )
    plan.delete_when = f"upper(left({operation}, 1)) = 'D'"
    ledger.map("iceberg.tables.cdc-field", "tables[].delete_when")


def _find_sql(plan: RecordPlan, field: str) -> str:
    """A field behind the transforms as SQL over the record; empty if it is gone."""
    first, *inner = field.split(".")
    # when, route and delete_when see the record before select
    cell = plan.row.find(first)
    return ".".join([cell.sql, *map(quote, inner)]) if cell else ""


def _set_key(draft: Draft, plan: RecordPlan, index: int, columns: list[str]) -> None:
    key: dict[str, Any] = {"from": "value", "fields": columns}
    if not columns:
        draft.fill_in(
            ("source", "key"), "fields: the columns that identify a row; the table has no identifier fields to read."
        )
    if index == 0:
        plan.key = key
    # one that differs stands beside its own table
    elif key != plan.key:
        draft.data["tables"][index]["key"] = key


def _plan_tables(ledger: SettingsLedger, draft: Draft, plan: RecordPlan, names: list[str]) -> list[dict[str, Any]]:
    field = ledger.get(ROUTE_FIELD)
    is_dynamic = ledger.is_true(DYNAMIC)
    ledger.map(ROUTE_FIELD, "tables[].route.field")
    if is_dynamic:
        ledger.map(DYNAMIC, "tables[].route", "a record goes to the table that it names")
    ledger.drop(DYNAMIC, "the tables are those of iceberg.tables")
    entries = []
    for name in names:
        entry: dict[str, Any] = {"name": f"{draft.catalog_name}.{name}"}
        pattern = ledger.get(f"iceberg.table.{name}.route-regex")
        ledger.map(f"iceberg.table.{name}.route-regex", "tables[].route.pattern")
        if field and not is_dynamic and not pattern:
            draft.to_check.append(f"The table {name} has no route-regex: no record reached it; it is left out.")
            # a table without a route gets no records
            continue
        if field:
            entry |= _build_route(ledger, plan, field, pattern, name)
        branch_settings = (f"iceberg.table.{name}.commit-branch", "iceberg.tables.default-commit-branch")
        branch = next(filter(None, map(ledger.get, branch_settings)), "")
        ledger.map_each(branch_settings, f"tables[].branch: {branch}")
        entry |= {"branch": branch} if branch else {}
        entry["create"] = _plan_creation(ledger, name)
        is_read = bool(field or ledger.get("iceberg.tables.cdc-field"))
        note_new_fields(ledger, plan, EVOLVES, "tables[].evolve", can_add=not is_read)
        entry["evolve"] = {} if ledger.is_true(EVOLVES) else {"add_columns": False, "widen": False, "relax": False}
        entries.append({key: value for key, value in entry.items() if value != {}})
    for name in ledger.list_names("iceberg.table."):
        if not any(name.startswith(f"iceberg.table.{table}.") for table in names):
            ledger.drop(name, "it belongs to no table of iceberg.tables")
    return entries


def _build_route(ledger: SettingsLedger, plan: RecordPlan, field: str, pattern: str, name: str) -> dict[str, Any]:
    """`route` for a field of the record, `when` for anything else."""
    first, *inner = field.split(".")
    cell = plan.row.find(first)
    if cell is not None and cell.field:
        path = ".".join(map(quote, (cell.field, *inner))) if inner else cell.field
        return {"route": {"field": path} | ({"pattern": pattern} if pattern else {})}
    text = _find_sql(plan, field)
    if not text:
        ledger.refuse(ROUTE_FIELD, f"{field} is no column any more behind the transforms; write tables[].when")
        return {"when": FILL_IN}
    if pattern:
        return {"when": f"{text} RLIKE {render_literal(f'^(?:{pattern})$')}"}
    return {"when": f"lower({text}) = {render_literal(name.casefold())}"}


def _plan_creation(ledger: SettingsLedger, name: str) -> dict[str, Any]:
    create: dict[str, Any] = {}
    if not ledger.is_true("iceberg.tables.auto-create-enabled"):
        create["enabled"] = False
    ledger.map("iceberg.tables.auto-create-enabled", "tables[].create.enabled")
    own_setting = f"iceberg.table.{name}.partition-by"
    default = "iceberg.tables.default-partition-by"
    partitions = parse_partitions(ledger.get(own_setting) or ledger.get(default))
    if partitions:
        create["partition_by"] = partitions
    ledger.map_each((own_setting, default), "tables[].create.partition_by", "for a table that is still to be made")
    properties: dict[str, str] = {}
    for prefix in ("iceberg.tables.auto-create-props.", "iceberg.tables.write-props.", "iceberg.table.write-props."):
        # the writers' properties become the table's, and so Spark's
        reason = "" if "auto-create" in prefix else "set it on a table that exists by ALTER TABLE"
        given = ledger.below(prefix)
        for word in given.list_names():
            if word == "format-version" and given.get(word) not in ("1", "2"):
                given.refuse(word, "write tables[].create.format_version: 3 for a table that is still to be made")
                continue
            properties[word] = given.get(word)
            given.map(word, f"tables[].create.properties.{word}", reason)
    if properties:
        create["properties"] = properties
    if ledger.is_true("iceberg.tables.schema-force-optional"):
        create["force_optional"] = True
    ledger.map("iceberg.tables.schema-force-optional", "tables[].create.force_optional")
    return create
