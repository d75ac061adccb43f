"""What a registry's schemas make of a table, and what is said of those that cannot be read."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fakes import build_table
from schema_registry import SchemaRegistry
from tidegate.adapters.schema_registry import schema_provider
from tidegate.adapters.schema_registry.client import Registry, Version
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.config.parsing.ddl import parse_columns
from tidegate.connections import Connection
from tidegate.errors import ConfigurationError
from tidegate.spec.table import Table
from tidegate.table.columns import compute_shape

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


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    server = SchemaRegistry()
    yield server
    server.close()


def build_registry_table(registry: SchemaRegistry, form: str, columns: str | None = None, **words: Any) -> Table:
    table = build_table("lake.shop.Orders", topics=("orders",), **words)
    declared = None if columns is None else parse_columns(columns)
    options = {"registry": registry.url}
    return replace(table, value=replace(table.value, format=form, columns=declared, options=options))


def describe(table: Table) -> Table:
    return RegistrySchemas(lambda _: None).describe_table(table)


PROTO = 'syntax = "proto3"; package shop; '
GOOD = {
    "avro": RECORD,
    "json": '{"type": "object", "properties": {"id": {"type": "string"}}}',
    "protobuf": PROTO + "message Order { string id = 1; }",
}
ODD = [
    ("avro", '{"type": "record", "name": "Order", "fields": [{"name": "old", "type": {}}]}'),
    ("avro", '{"type": "record", "name": "Order", "fields": null}'),
    ("avro", '{"type": "record", "name": "Order", "fields": [{"type": "string"}]}'),
    ("avro", '{"type": "record", "fields": [{"name": "old", "type": "string"}]}'),
    ("avro", '{"type": "record", "name": "Order", "fields": [{"name": "old", "type": ["null"]}]}'),
    ("json", '{"properties": {"old": {"type": {}}}}'),
    ("json", '{"properties": {"old": {"enum": null, "type": [{}]}}}'),
    ("json", '{"properties": {"old": {"oneOf": null}}}'),
    ("json", "[1"),
    ("protobuf", 'syntax = "proto2"; message Order { optional int32 id = 1 [default = 1.5e+3]; }'),
    ("protobuf", PROTO + "message Order { Nowhere old = 2; }"),
]


@pytest.mark.parametrize(("form", "text"), ODD)
@pytest.mark.parametrize("is_newest", [True, False])
def test_schema_that_is_none_is_named_by_subject_version_and_id(
    registry: SchemaRegistry, form: str, text: str, is_newest: bool
) -> None:
    registry.register("another", {"schema": '"int"'})
    kind = {} if form == "avro" else {"schemaType": form.upper()}
    for schema in (GOOD[form], text) if is_newest else (text, GOOD[form]):
        registry.register("orders-value", {"schema": schema, **kind})
    number = 2 if is_newest else 1
    place = f"the schema of its values with subject=orders-value version={number} id={number + 1}: "
    with pytest.raises(ConfigurationError, match=f"^table=lake.shop.Orders: {place}"):
        describe(build_registry_table(registry, form))


@pytest.mark.parametrize("page", ["<html>Sign in</html>", "[{}]", "7", '{"versions": 1}'])
def test_page_of_a_proxy_is_no_schema_registry(registry: SchemaRegistry, page: str) -> None:
    registry.page = page
    with pytest.raises(ConfigurationError, match="subject=orders-value: this is no answer of a schema registry"):
        describe(build_registry_table(registry, "avro"))
    with pytest.raises(ConfigurationError, match="id=7: this is no answer of a schema registry"):
        Registry("r", {"url": registry.url}).read_text(7)
    apicurio = build_registry_table(registry, "avro")
    own_api = replace(apicurio.value, options={"registry": f"{registry.url}/apis/registry/v3"})
    with pytest.raises(ConfigurationError, match="subject=orders-value: this is no answer of a schema registry"):
        describe(replace(apicurio, value=own_api))


def test_default_with_an_exponent_is_read_in_the_language_of_protobuf(registry: SchemaRegistry) -> None:
    numbers = {"a": "1.5e+3", "b": "-2E-4", "c": ".5", "d": "1.", "e": "1e3", "f": "-inf"}
    fields = " ".join(
        f"optional double {name} = {n} [default = {number}];" for n, (name, number) in enumerate(numbers.items(), 1)
    )
    text = f'syntax = "proto2"; message Order {{ {fields} optional int32 g = 9 [default = 0x1F]; }}'
    registry.register("orders-value", {"schema": text, "schemaType": "PROTOBUF"})
    table = describe(build_registry_table(registry, "protobuf"))
    assert [c.name for c in table.value.columns or ()] == ["a", "b", "c", "d", "e", "f", "g"]


AVRO_ORDER = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "Id", "type": "string"},
        {"name": "marker", "type": {"type": "record", "name": "Marker", "fields": []}},
        {"name": "parent", "type": ["null", "Order"], "default": None},
        {"name": "tree", "type": {"type": "record", "name": "Node", "fields": [
            {"name": "leaf", "type": {"type": "record", "name": "Leaf", "fields": [{"name": "n", "type": "int"}]}},
            {"name": "inside", "type": {"type": "array", "items": "Node"}},
        ]}},
        {"name": "leaf", "type": "Leaf"},
    ],
}  # fmt: skip
LONE_PARENT: dict[str, Any] = {"fields": AVRO_ORDER["fields"][2:3]}
EVENT_ROW: dict[str, Any] = {"fields": [AVRO_ORDER["fields"][n] for n in (0, 2)]}
EVENT = {
    "type": "record", "name": "Envelope", "namespace": "shop", "fields": [
        {"name": "before", "type": ["null", {**AVRO_ORDER, **EVENT_ROW}], "default": None},
        {"name": "after", "type": ["null", "Order"], "default": None},
        {"name": "op", "type": "string"},
    ],
}  # fmt: skip
PROTO_ORDER = PROTO + (
    "message Order { string Id = 1; Marker marker = 2; Order parent = 3; Node tree = 4; map<string, Node> by = 5; } "
    "message Marker {} message Node { string n = 1; repeated Node inside = 2; }"
)


@pytest.mark.parametrize(
    ("form", "text", "unheld"),
    [
        ("avro", json.dumps(AVRO_ORDER), "Avro record=Marker has no fields"),
        (
            "avro",
            json.dumps({**AVRO_ORDER, "fields": AVRO_ORDER["fields"][2:3]}),
            "Avro record=shop.Order holds itself",
        ),
        ("debezium-avro", json.dumps(EVENT), "Avro record=shop.Order holds itself"),
        ("protobuf", PROTO_ORDER, "Protobuf message=shop.Marker has no fields"),
        ("protobuf", PROTO + "message Order { Order parent = 1; }", "Protobuf message=shop.Order holds itself"),
    ],
)
def test_field_that_no_table_holds_is_refused_unless_value_schema_leaves_it_out(
    registry: SchemaRegistry, form: str, text: str, unheld: str
) -> None:
    kind = {"schemaType": "PROTOBUF"} if form == "protobuf" else {}
    registry.register("orders-value", {"schema": text, **kind})
    with pytest.raises(ConfigurationError, match=rf"id=1: {unheld}, and no table has such a column"):
        describe(build_registry_table(registry, form))
    if "Id" in text:
        table = describe(build_registry_table(registry, form, "Id STRING"))
        assert [(c.name, c.type) for c in table.value.columns or ()] == [("Id", "STRING")]
        with pytest.raises(ConfigurationError, match=r"holds itself|has no such field|it as"):
            describe(build_registry_table(registry, form, "Id STRING, parent STRUCT<Id: STRING>"))


@pytest.mark.parametrize("columns", [None, "id INT"])
@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_values_without_fields_are_refused_in_one_sentence(
    registry: SchemaRegistry, form: str, columns: str | None
) -> None:
    avro = {"schema": '{"type": "record", "name": "Order", "fields": []}'}
    proto = {"schema": PROTO + "message Order {}", "schemaType": "PROTOBUF"}
    registry.register("orders-value", avro if form == "avro" else proto)
    with pytest.raises(ConfigurationError, match=r"lake\.shop\.Orders: the schema of its values is no record"):
        describe(build_registry_table(registry, form, columns))


def test_schema_that_is_registered_between_two_flushes_of_one_process_is_known_to_the_second(
    registry: SchemaRegistry,
) -> None:
    """A flush until the end of the log called records of a new version bad, or set them aside as dead letters."""
    registry.register("orders-value", {"schema": RECORD})
    schemas, table = RegistrySchemas(lambda _: None), build_registry_table(registry, "avro")
    first = schemas.describe_table(table).value
    added = [*FIELDS, {"name": "city", "type": ["null", "string"], "default": None}]
    number = registry.register("orders-value", {"schema": json.dumps({**json.loads(RECORD), "fields": added})})
    assert schemas.describe_table(table).value == first  # within a flush all steps see one answer
    schemas.forget()
    second = schemas.describe_table(table).value
    assert [column.name for column in second.columns or ()] == ["id", "name", "city"]
    assert (*first.options["writers"], str(number)) == tuple(second.options["writers"])


VERSIONS = {
    "avro": (
        RECORD,
        RECORD.replace('"Order"', '"Order", "doc": "of a shop"'),
        RECORD.replace('"fields": [', '"fields": [{"name": "City", "type": "string", "default": ""}, '),
    ),
    "json": (
        '{"properties": {"id": {"type": "string"}}}',
        '{"title": "of a shop", "properties": {"id": {"type": "string"}}}',
        '{"properties": {"id": {"type": "string"}, "City": {"type": "string"}}}',
    ),
    "protobuf": (
        PROTO + "message Order { string id = 1; }",
        PROTO + "message Order { string id = 1; } message Marker {}",
        PROTO + "message Order { string id = 1; string City = 2; }",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", VERSIONS)
@pytest.mark.parametrize("columns", [None, "id STRING"])
def test_new_version_stages_nothing_anew_unless_it_changes_the_columns(
    registry: SchemaRegistry, form: str, columns: str | None
) -> None:
    """Each version, also of a comment, took what waited out of the queue, with a person's approval of it."""
    kind = {} if form == "avro" else {"schemaType": form.upper()}
    shapes = list[str]()
    for text in VERSIONS[form]:
        registry.register("orders-value", {"schema": text, **kind})
        shapes.append(compute_shape(describe(build_registry_table(registry, form, columns))))
    first, documented, wider = shapes
    assert first == documented
    assert (wider == first) == (columns is not None)


def test_option_of_the_file_stages_anew_also_with_a_registry(registry: SchemaRegistry) -> None:
    registry.register("orders-value", {"schema": VERSIONS["json"][0], "schemaType": "JSON"})
    table = build_registry_table(registry, "json")
    changed_value = replace(table.value, options={**table.value.options, "timestamps": "iso-8601"})
    shapes = {compute_shape(describe(each)) for each in (table, replace(table, value=changed_value))}
    assert len(shapes) == 2


@pytest.mark.parametrize(
    ("form", "option"),
    [
        ("avro", {"ignored_records": ["shop.Refund"]}),
        ("avro", {"records": ["shop.Order", "shop.Refund"]}),
        ("protobuf", {"ignored_records": ["shop.Refund"]}),
    ],
)
def test_record_types_that_the_file_names_otherwise_stage_anew(
    registry: SchemaRegistry, form: str, option: dict[str, Any]
) -> None:
    """What waited lacked the records of a type that the file had ignored, also after it was read."""
    kind = {} if form == "avro" else {"schemaType": form.upper()}
    for name in ("Order", "Refund"):
        text = VERSIONS[form][0].replace('"Order"', f'"shop.{name}"').replace("message Order", f"message {name}")
        registry.register(f"shop.{name}", {"schema": text, **kind})
    table = build_registry_table(registry, form, "id STRING")
    own = {"subject_name_strategy": "RecordNameStrategy", "records": ["shop.Order"]}
    first, changed, corrected = (
        compute_shape(describe(replace(table, value=replace(table.value, options={**table.value.options, **words}))))
        for words in (own, {**own, **option}, own)
    )
    assert first == corrected
    assert first != changed


@pytest.mark.parametrize("topics", [("eu", "us"), ("us", "eu")])
def test_newest_schema_of_several_topics_has_the_columns_whichever_topic_comes_first(
    registry: SchemaRegistry, topics: tuple[str, str]
) -> None:
    """Where the last topic was behind, each number of the others was bad that only the wider type holds."""

    def version(kind: str) -> dict[str, Any]:
        fields = [{"name": "id", "type": "string"}, {"name": "n", "type": kind}]
        return {"schema": json.dumps({"type": "record", "name": "Order", "fields": fields})}

    for subject, kind in (("eu-value", "int"), ("us-value", "int"), ("us-value", "long")):
        registry.register(subject, version(kind))
    value = describe(replace(build_registry_table(registry, "avro"), topics=topics)).value
    assert [(column.name, column.type) for column in value.columns or ()] == [("id", "STRING"), ("n", "BIGINT")]
    assert json.loads(value.options["reader"])["fields"][1]["type"] == "long"


@pytest.mark.parametrize(
    ("schema", "said"),
    [("Id INT", "key.schema has Id INT, and the registered schema has it as STRING"),
     ("number BIGINT", "key.schema has number BIGINT, and the registered schema has no such field")],
)  # fmt: skip
@pytest.mark.parametrize(
    ("form", "text"), [("avro", json.dumps(AVRO_ORDER)), ("protobuf", PROTO_ORDER)], ids=["avro", "protobuf"]
)
def test_key_from_the_value_has_a_type_that_holds_each_value(
    registry: SchemaRegistry, form: str, text: str, schema: str, said: str
) -> None:
    """Spark's cast of one text that is no number ended the batch, again and again."""
    registry.register("orders-value", {"schema": text, **({} if form == "avro" else {"schemaType": form.upper()})})
    table = build_registry_table(registry, form, "leaf STRUCT<n: INT>" if form == "avro" else "Id STRING")
    (column,) = parse_columns(schema)
    key = replace(table.key, fields=(column.name,), columns=(column,), from_value=True)
    with pytest.raises(ConfigurationError, match=f"table=lake.shop.Orders: .*{said}; correct it"):
        describe(replace(table, key=key))
    (right,) = parse_columns("Id STRING NOT NULL")
    assert describe(replace(table, key=replace(key, fields=("Id",), columns=(right,)))).key.columns == (right,)
