"""Fields of a Protobuf message that no column has."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from protobuf_messages import build_classes, build_field, build_file, build_message
from schema_registry import SchemaRegistry
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Table
from tidegate_spark.formats import protobuf
from unit.tidegate_spark.fields.test_protobuf import encode_message

TIME = ".google.protobuf.Timestamp"


@pytest.fixture
def decode(monkeypatch: pytest.MonkeyPatch, registry: SchemaRegistry) -> Any:
    """Decodes orders into the rows of just these columns, without Spark around the function that it would call."""
    message = build_message(
        "Order", build_field("Id", 1, "int64"), build_field("note", 2, "string"), build_field("seen_at", 3, TIME)
    )
    orders = build_classes(build_file(message))["shop.Order"]
    encode_message(registry, orders())
    value = ValueFormat("protobuf", options={"registry": registry.url})
    described = RegistrySchemas(lambda _: None, Path()).describe_table(
        Table("lake.shop.orders", ("orders",), KeyFormat(), value, True, True)
    )
    functions = SimpleNamespace(arrow_udf=lambda function, _: function)
    monkeypatch.setattr(protobuf, "F", functions)

    def decode_orders(names: tuple[str, ...], *records: dict[str, Any]) -> list[Any]:
        encoded = pyarrow.array([encode_message(registry, orders(**record)) for record in records], pyarrow.binary())
        functions.col = lambda _: encoded
        columns = tuple(Column(name, "STRING") for name in names)
        return protobuf._decode_part("value", described.value.options, columns).to_pylist()

    return decode_orders


def test_field_that_no_column_has_makes_no_record_bad(decode: Any) -> None:
    """`value.schema` leaves it out: whatever a producer writes there is nobody's concern."""
    beyond = {"seconds": 10**15}
    records = {"Id": 1, "note": "x", "seen_at": beyond}, {"Id": 2}
    assert decode(("Id", "note"), *records) == [
        {"row": {"Id": 1, "note": "x"}, "reason": None},
        {"row": {"Id": 2, "note": ""}, "reason": None},
    ]
    bad, good = decode(("Id", "seen_at"), *records)
    assert (bad["row"], good["row"]) == (None, {"Id": 2, "seen_at": None})
    assert "seen_at" in bad["reason"]
