"""A sink's transforms become one SELECT that makes of each record the row that the sink wrote, in the same order."""

from pathlib import Path
from typing import Any

import connect_transforms as connect
import pytest
import sqlglot
from examples import choose_number
from hypothesis import assume, example, given, settings
from sink_configs import format_json
from sqlglot import exp
from tidegate.config.parsing.ddl import parse_columns
from tidegate.config.parsing.select_statement import parse_select
from tidegate.errors import ConfigurationError
from tidegate.migration.connector_config import Choices, read_config
from tidegate.migration.draft import Translation
from tidegate.migration.report import format_catalog_entry, format_pipeline_file
from tidegate.migration.transforms.record_plan import FILL_IN
from tidegate.migration.translate import translate
from tidegate.schema.data_types import Column
from tidegate.sinks.world import TableShape, UnreachableWorld
from tidegate.spec.projection import resolve_projection
from tidegate.wiring.proposed_files import check_files

AVRO = {
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://registry:8081",
}
JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
SINK = {
    "name": "sink",
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "topics": "orders",
    "iceberg.tables": "shop.orders",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://rest:8181",
}
RECORDS = (connect.VALUES, {**connect.VALUES, "a": None, "d": "44"})


class TableOf(UnreachableWorld):
    """Each table has these columns."""

    def __init__(self, columns: dict[str, str]) -> None:
        self.shape = TableShape(tuple(Column(name, kind) for name, kind in columns.items()))

    def describe_table(self, name: str) -> TableShape | None:
        return self.shape


def import_sink(steps: list[connect.Step], world: Any = None, **options: str) -> Translation:
    config = {**SINK, **(AVRO if world is None else JSON), **connect.list_settings(steps), **options}
    return translate(read_config(format_json(config), "connector"), Choices(), world or UnreachableWorld())


def list_refused(translation: Translation) -> set[str]:
    return {setting.name for setting in translation.settings if setting.outcome == "not mapped"}


def evaluate(node: exp.Expression, record: dict[str, Any]) -> Any:
    """The value of what the import writes: casts, literals, columns, NULL, and a CASE with one branch."""
    if isinstance(node, exp.Cast):
        value = evaluate(node.this, record)
        return value if value is None else int(value) if node.to.this.name == "BIGINT" else str(value)
    if isinstance(node, exp.Case):
        (branch,) = node.args["ifs"]
        tested = branch.this.this.this  # NOT (x IS NULL)
        return evaluate(branch.args["true"], record) if evaluate(tested, record) is not None else None
    if isinstance(node, exp.Column) and node.name not in record:
        raise ConfigurationError(f"{node.name}: there is no such column")
    assert isinstance(node, exp.Column | exp.Literal | exp.Null), node.sql()
    return record[node.name] if isinstance(node, exp.Column) else node.this if isinstance(node, exp.Literal) else None


def select_row(select: str, record: dict[str, Any], types: dict[str, str]) -> dict[str, Any]:
    """The row that the product's own projection makes of a record."""
    if not select:
        return record
    fields = [Column(name, kind) for name, kind in types.items()]
    columns = resolve_projection(parse_select(select), fields, "table")
    return {
        column.name: evaluate(sqlglot.parse_one(f"CAST({column.sql} AS {column.type})", read="spark"), record)
        for column in columns
    }


def drop_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def assert_shows_no_more(row: dict[str, Any], written: dict[str, Any]) -> None:
    """What stands in the clear in a row stood there in the sink's, too: nothing masked or left out comes back."""
    for name, value in drop_nulls(row).items():
        if str(value) in [str(own) for record in RECORDS for own in record.values()]:
            assert str(written.get(name)) == str(value), (name, row, written)


@settings(max_examples=choose_number(600), deadline=None)
@given(connect.STEPS)
@example(
    [("MaskField", {"fields": "a", "replacement": "99"}), ("CopyValue", {"source.field": "a", "target.field": "x"})]
)
@example([("ReplaceField", {"renames": "a:x"}), ("ReplaceField", {"exclude": "x"})])
@example([("ReplaceField", {"exclude": "a"}), ("CopyValue", {"source.field": "a", "target.field": "x"})])
@example([("ReplaceField", {"exclude": "a"}), ("MaskField", {"fields": "a", "replacement": "99"})])
@example([("ReplaceField", {"renames": "a:b,b:a"})])
def test_chain_with_a_schema_makes_the_sinks_row_and_shows_nothing_more(steps: list[connect.Step]) -> None:
    types = dict.fromkeys(connect.OWN_FIELDS, "STRING")
    try:
        written = [connect.apply(steps, record, has_schema=True) for record in RECORDS]
    except connect.RefusedByConnect:
        assume(False)
    translation = import_sink(steps)
    select = translation.draft.data["tables"][0].get("select", "")
    if select == FILL_IN:
        assert list_refused(translation)
        return
    try:
        rows = [select_row(select, record, types) for record in RECORDS]
    except ConfigurationError:  # it leaves out, or reads, a field that no record has: the flush says so, too
        return
    for row, expected in zip(rows, written, strict=True):
        assert_shows_no_more(row, expected)
        if not list_refused(translation):
            assert drop_nulls(row) == drop_nulls(expected), (select, steps)


@settings(max_examples=choose_number(600), deadline=None)
@given(connect.STEPS)
@example([("ReplaceField", {"exclude": "a"}), ("InsertField", {"static.field": "a", "static.value": "77"})])
@example([("CopyValue", {"source.field": "a", "target.field": "b"}), ("ReplaceField", {"exclude": "b"})])
@example([("CopyValue", {"source.field": "a", "target.field": "x"}), ("Cast", {"spec": "a:int64"})])
def test_chain_over_plain_json_makes_the_sinks_row_and_shows_nothing_more(steps: list[connect.Step]) -> None:
    """The table has the sink's columns, and those of all fields, as from before a transform was added."""
    try:
        written = [connect.apply(steps, record, has_schema=False) for record in RECORDS]
    except connect.RefusedByConnect:
        assume(False)
    columns = dict.fromkeys((*connect.OWN_FIELDS, *written[0]), "STRING")
    columns |= {name: "BIGINT" for row in written for name, value in row.items() if isinstance(value, int)}
    translation = import_sink(steps, TableOf(columns))
    (table,) = translation.draft.data["tables"]
    value = translation.draft.data["source"]["value"]
    select = table.get("select", "")
    if select == FILL_IN or translation.draft.to_fill_in:
        assert list_refused(translation) or "value.schema" in translation.draft.to_fill_in[0]
        return
    types = {c.name: c.type for c in parse_columns(value["schema"])} if value.get("schema") else columns
    for record, expected in zip(RECORDS, written, strict=True):
        read = {name: record.get(name) for name in types}
        assume(all(value is None or types[name] != "BIGINT" for name, value in read.items()))
        row = select_row(select, read, types)
        row = {name: int(v) if v is not None and columns.get(name) == "BIGINT" else v for name, v in row.items()}
        assert_shows_no_more(row, expected)
        if not list_refused(translation):
            as_read = {n: int(v) if v is not None and columns[n] == "BIGINT" else v for n, v in expected.items()}
            assert drop_nulls(row) == drop_nulls(as_read), (select, value, steps)


MASKS_A = ("MaskField", {"fields": "a", "replacement": connect.MASK})


def find_problems(include: Path, translation: Translation) -> list[str]:
    (include / "catalogs.yaml").unlink(missing_ok=True)
    text, entry = format_pipeline_file(translation), format_catalog_entry(translation.draft)
    return list(check_files(include, "sink", text, entry)[0])


@pytest.mark.parametrize(
    ("steps", "options"),
    [
        ([MASKS_A], {"transforms.t0.predicate": "some", "predicates.some.type": "x.HasHeaderKey"}),
        ([("Flatten", {}), MASKS_A], {}),
        ([("ReplaceField", {"renames": "a:b"}), ("ReplaceField", {"renames": "c:b"}), MASKS_A], {}),
        ([("InsertField", {"timestamp.field": "a"}), MASKS_A], {}),
        ([("InsertField", {"static.field": "z", "static.value": "1"}), ("ExtractNewRecordState", {})], {}),
    ],
)
def test_file_that_lacks_a_mask_or_the_row_itself_is_refused_until_somebody_writes_the_select(
    steps: list[connect.Step], options: dict[str, str], include: Path
) -> None:
    translation = import_sink(steps, **options)
    assert translation.draft.data["tables"][0]["select"] == FILL_IN
    assert any("would show what the connector does not" in text for text in translation.draft.to_fill_in)
    assert any("tables[0].select" in problem for problem in find_problems(include, translation))
    last = f"transforms.t{len(steps) - 1}.type"
    assert last in list_refused(translation)


def test_mask_of_all_records_that_have_a_value_is_folded() -> None:
    options = {"transforms.t0.predicate": "gone", "transforms.t0.negate": "true"}
    tombstone = {"predicates.gone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"}
    translation = import_sink([MASKS_A], **options, **tombstone)
    assert list_refused(translation) == set()
    select = translation.draft.data["tables"][0]["select"]
    assert select_row(select, dict(connect.VALUES), dict.fromkeys("abcd", "STRING"))["a"] == connect.MASK


def test_other_filter_is_a_condition_that_validate_asks_for(include: Path) -> None:
    filtered = {"transforms.t0.predicate": "some", "predicates.some.type": "x.HasHeaderKey"}
    translation = import_sink([("Filter", {})], **filtered)
    assert any("when" in problem for problem in find_problems(include, translation))


@pytest.mark.parametrize(
    ("step", "way_out"),
    [
        (("Cast", {"spec": "a:int64"}), "value.json.numbers: lenient"),
        (("TimestampConverter", {"field": "a", "target.type": "Timestamp"}), "value.timestamp_unit"),
    ],
    ids=["cast", "timestamp"],
)
def test_conversion_is_not_mapped_and_the_report_says_what_to_write(
    step: connect.Step, way_out: str, include: Path
) -> None:
    translation = import_sink([step], TableOf({"a": "BIGINT", "b": "STRING"}))
    (reason,) = {s.reason for s in translation.settings if s.outcome == "not mapped"}
    assert way_out in reason
    assert "The transform t0 " in " ".join(translation.draft.to_check)
    assert find_problems(include, translation) == []


TABULAR = {
    "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector",
    "iceberg.tables.default-id-columns": "a",
}


def test_operation_and_route_behind_a_rename_are_read_under_the_records_own_names() -> None:
    """`delete_when` and `route` see the record before `select`."""
    options = {**TABULAR, "iceberg.tables.cdc-field": "op", "iceberg.tables.route-field": "area"}
    options |= {"iceberg.table.shop.orders.route-regex": "eu"}
    translation = import_sink([("ReplaceField", {"renames": "c:op,d:area"})], **options)
    (table,) = translation.draft.data["tables"]
    assert table["delete_when"] == "upper(left(`c`, 1)) = 'D'"
    assert table["route"] == {"field": "d", "pattern": "eu"}
    options["iceberg.tables.route-field"] = "area.the region"
    (table,) = import_sink([("ReplaceField", {"renames": "c:op,d:area"})], **options).draft.data["tables"]
    assert table["route"] == {"field": "`d`.`the region`", "pattern": "eu"}


def test_route_by_a_column_that_is_gone_is_a_condition_that_validate_asks_for(include: Path) -> None:
    options = {"iceberg.tables.route-field": "d", "iceberg.table.shop.orders.route-regex": "eu"}
    translation = import_sink([("ReplaceField", {"exclude": "d"})], **options)
    assert "iceberg.tables.route-field" in list_refused(translation)
    assert any("when" in problem for problem in find_problems(include, translation))


@pytest.mark.parametrize("step", [MASKS_A, ("ReplaceField", {"renames": "a:z"}), ("ReplaceField", {"exclude": "a"})])
def test_key_that_a_transform_has_changed_is_to_be_filled_in(step: connect.Step) -> None:
    translation = import_sink([step], **TABULAR, **{"iceberg.tables.upsert-mode-enabled": "true"})
    assert any("a key is the record's own" in text for text in translation.draft.to_fill_in)


def test_transforms_of_a_key_that_the_sink_does_not_read_have_no_effect() -> None:
    settings = {
        "transforms": "t0",
        "transforms.t0.type": f"{connect.PACKAGE}MaskField$Key",
        "transforms.t0.fields": "a",
    }
    translation = import_sink([], **settings)
    assert list_refused(translation) == set()
    assert "select" not in translation.draft.data["tables"][0]
