"""What a registry's schemas make of a table: as little work for a thousand tables as for one."""

import json
from dataclasses import replace

import pytest
from fakes import build_table
from tidegate.adapters.schema_registry import schema_provider
from tidegate.adapters.schema_registry.client import Version
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.connections import Connection
from tidegate.spec.table import Table

FIELDS = [{"name": "id", "type": "string"}, {"name": "name", "type": ["null", "string"]}]
RECORD = json.dumps({"type": "record", "name": "Order", "fields": FIELDS})


def build_avro_table(name: str, subject: str) -> Table:
    table = build_table(name, topics=("orders",))
    return replace(table, value=replace(table.value, format="avro", columns=None, options={"subject": subject}))


def test_tables_that_read_the_same_are_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records name a thousand tables of one topic: with thirty versions each step would plan for a minute."""
    versions = (Version(id=1, kind="AVRO", text=RECORD, references={}),)
    monkeypatch.setattr("tidegate.adapters.schema_registry.client.Registry._read_versions", lambda *_: versions)
    plans, plan = list[str](), schema_provider.plan_decoding
    monkeypatch.setattr(schema_provider, "plan_decoding", lambda *words: plans.append("") or plan(*words))
    schemas = RegistrySchemas(lambda name: Connection(name, "http", host="registry"))
    tables = [schemas.describe_table(build_avro_table(f"lake.shop.t{number}", "orders")) for number in range(5)]
    assert (len(plans), [table.name for table in tables]) == (1, [f"lake.shop.t{number}" for number in range(5)])
    assert {tuple(column.name for column in table.value.columns or ()) for table in tables} == {("id", "name")}
    assert schemas.describe_table(tables[0]) == tables[0]
    schemas.describe_table(build_avro_table("lake.shop.other", "others"))
    assert len(plans) == 2
