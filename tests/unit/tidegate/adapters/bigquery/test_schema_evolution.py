"""Where in a table's schema a change is made: by the names on its way, of which some are called as steps are."""

from types import SimpleNamespace
from typing import Any

from google.cloud.bigquery import SchemaField
from tidegate.adapters.bigquery.table import BigQueryTables
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.schema.data_types import Column


def build_schema() -> list[dict[str, Any]]:
    return [{"name": "a", "type": "INTEGER", "mode": "REQUIRED"}]


class Written:
    """A project with one table, which keeps what is written of it."""

    def __init__(self, *fields: dict[str, Any]) -> None:
        self.table: Any = SimpleNamespace(schema=[SchemaField.from_api_repr(field) for field in fields])

    def require_table(self, _: str) -> Any:
        return self.table

    def update_table(self, table: Any, *_: str) -> None:
        table.schema = [SchemaField.from_api_repr(field) for field in table.schema]

    def list_names(self) -> list[str]:
        return sorted(self._walk([field.to_api_repr() for field in self.table.schema], ""))

    def _walk(self, fields: list[dict[str, Any]], above: str) -> Any:
        for field in fields:
            yield f"{above}{field['name']}{'!' if field.get('mode') == 'REQUIRED' else ''}"
            yield from self._walk(field.get("fields", []), f"{above}{field['name']}.")


def test_field_called_element_is_no_step_into_an_array() -> None:
    warehouse: Any = Written(
        {"name": "element", "type": "RECORD", "fields": build_schema()},
        {"name": "rows", "type": "RECORD", "mode": "REPEATED", "fields": [
            {"name": "Element", "type": "RECORD", "mode": "REPEATED", "fields": build_schema()}
        ]},
    )  # fmt: skip
    type_text = "STRUCT<a: BIGINT, b: STRING>"
    columns = (Column("element", type_text), Column("rows", f"ARRAY<STRUCT<element: ARRAY<{type_text}>>>"))
    tables = BigQueryTables({"dwh": warehouse}, SqlFiles("bigquery"))
    assert tables.evolve("dwh.shop.t", columns, add=True, widen=True, relax=True) != []
    assert warehouse.list_names() == [
        "element", "element.a", "element.b", "rows", "rows.Element", "rows.Element.a", "rows.Element.b",
    ]  # fmt: skip
    assert tables.evolve("dwh.shop.t", columns, add=True, widen=True, relax=True) == []
