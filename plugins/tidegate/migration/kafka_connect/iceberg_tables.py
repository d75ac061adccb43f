"""The Iceberg sink's settings of its tables, one by one: routes, branches, partitions, creation and evolution."""

from typing import Any

from tidegate.migration.draft import Draft
from tidegate.migration.kafka_connect.table_settings import parse_partitions
from tidegate.migration.settings_ledger import SettingsLedger
from tidegate.sql.spark import quote_name, render_literal

ROUTE_FIELD = "iceberg.tables.route-field"
DYNAMIC = "iceberg.tables.dynamic-enabled"


def plan_iceberg_tables(ledger: SettingsLedger, draft: Draft, names: list[str]) -> list[dict[str, Any]]:
    """Make an entry for each table that the sink writes. A table without a route gets no records, so no entry."""
    field, is_dynamic = ledger.get(ROUTE_FIELD), ledger.is_true(DYNAMIC)
    ledger.map(ROUTE_FIELD, "tables[].route.field")
    ledger.map(DYNAMIC, "tables[].route", "a record goes to the table that it names")
    entries = []
    for name in names:
        entry: dict[str, Any] = {"name": f"{draft.catalog_name}.{name}"}
        pattern = ledger.get(f"iceberg.table.{name}.route-regex")
        ledger.map(f"iceberg.table.{name}.route-regex", "tables[].route.pattern")
        if field and not is_dynamic and not pattern:
            draft.to_check.append(f"The table {name} has no route-regex: no record reached it; it is left out.")
            continue
        if field:
            entry |= _build_route(field, pattern, name)
        entry |= _plan_branch(ledger, name)
        entry["create"] = _plan_creation(ledger, name)
        entry["evolve"] = _plan_evolution(ledger)
        entries.append({key: value for key, value in entry.items() if value != {}})
    for name in ledger.list_names("iceberg.table."):
        if not any(name.startswith(f"iceberg.table.{table}.") for table in names):
            ledger.drop(name, "it belongs to no table of iceberg.tables")
    return entries


def _build_route(field: str, pattern: str, name: str) -> dict[str, Any]:
    if "." not in field:
        return {"route": {"field": field} | ({"pattern": pattern} if pattern else {})}
    if pattern:
        return {"when": f"{quote_name(field)} RLIKE {render_literal(f'^(?:{pattern})$')}"}
    return {"when": f"lower({quote_name(field)}) = {render_literal(name.casefold())}"}


def _plan_branch(ledger: SettingsLedger, name: str) -> dict[str, str]:
    own_setting, default = f"iceberg.table.{name}.commit-branch", "iceberg.tables.default-commit-branch"
    branch = ledger.get(own_setting) or ledger.get(default)
    for setting in (own_setting, default):
        ledger.map(setting, f"tables[].branch: {branch}")
    return {"branch": branch} if branch else {}


def _plan_creation(ledger: SettingsLedger, name: str) -> dict[str, Any]:
    create: dict[str, Any] = {}
    if not ledger.is_true("iceberg.tables.auto-create-enabled"):
        create["enabled"] = False
    ledger.map("iceberg.tables.auto-create-enabled", "tables[].create.enabled")
    own_setting, default = f"iceberg.table.{name}.partition-by", "iceberg.tables.default-partition-by"
    partitions = parse_partitions(ledger.get(own_setting) or ledger.get(default))
    if partitions:
        create["partition_by"] = partitions
    for setting in (own_setting, default):
        ledger.map(setting, "tables[].create.partition_by", "for a table that is still to be made")
    properties = _read_properties(ledger)
    if properties:
        create["properties"] = properties
    if ledger.is_true("iceberg.tables.schema-force-optional"):
        create["force_optional"] = True
    ledger.map("iceberg.tables.schema-force-optional", "tables[].create.force_optional")
    return create


def _read_properties(ledger: SettingsLedger) -> dict[str, str]:
    """Properties of new tables; those of the sink's writers become the table's, and so Spark's."""
    properties: dict[str, str] = {}
    for prefix in ("iceberg.tables.auto-create-props.", "iceberg.tables.write-props.", "iceberg.table.write-props."):
        for setting in ledger.list_names(prefix):
            word = setting.removeprefix(prefix)
            if word == "format-version" and ledger.get(setting) not in ("1", "2"):
                ledger.refuse(setting, "format 3 is not supported: the table must have format 2")
                continue
            properties[word] = ledger.get(setting)
            reason = "" if "auto-create" in prefix else "set it on a table that exists by ALTER TABLE"
            ledger.map(setting, f"tables[].create.properties.{word}", reason)
    return properties


def _plan_evolution(ledger: SettingsLedger) -> dict[str, Any]:
    evolves = ledger.is_true("iceberg.tables.evolve-schema-enabled")
    ledger.map("iceberg.tables.evolve-schema-enabled", "tables[].evolve")
    return {} if evolves else {"add_columns": False, "widen": False, "relax": False}
