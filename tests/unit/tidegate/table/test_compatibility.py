"""A batch that its destination cannot take is refused before it is staged; a key may only become wider."""

from dataclasses import replace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_session, build_table
from tidegate.errors import GiveUp, IncompatibleSchema, SomeTablesFailed
from tidegate.flush.flush import flush
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import TableState
from tidegate.schema.data_types import Array, Column, DataType, Map, Primitive, Struct, format_type
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import DeleteMode, History
from tidegate.table.columns import find_names_of_columns, list_destination_columns, list_value_columns
from tidegate.table.compatibility import build_row_properties, check_compatible, check_key_unchanged
from tidegate.table.session import open_table

TABLE = "lake.shop.orders"
TEXT, TIME = Primitive("STRING"), Primitive("TIMESTAMP")


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    return world


def build_keyed_pipeline(*columns: Column, values: tuple[Column, ...] = (Column("name", "STRING"),)) -> Pipeline:
    key = KeyFormat(fields=tuple(column.name for column in columns), columns=columns)
    return build_pipeline(replace(build_table(), key=key, value=ValueFormat(columns=(*columns, *values))))


def test_column_of_another_type_is_refused_with_the_first_offset_before_anything_is_staged(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": 7})
    jobs = len(world.engine.jobs)
    with pytest.raises(IncompatibleSchema) as error_info:
        flush(world.open_session(build_keyed_pipeline(Column("id", "STRING"), values=(Column("name", "INT"),))))
    for part in (f"table={TABLE}", "column=name", "type=STRING", "type=INT", "partition=0 offset=1", "nothing was"):
        assert part in str(error_info.value)
    assert len(world.engine.jobs) == jobs


def test_incompatible_table_of_several_does_not_hold_the_others(world: World) -> None:
    other_name = "lake.shop.copy"
    flush(world.open_session(build_pipeline(build_table(), build_table(other_name))))
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y"})
    changed = replace(
        build_table(other_name), value=ValueFormat(columns=(Column("id", "STRING"), Column("name", "INT")))
    )
    with pytest.raises(SomeTablesFailed, match="column=name: incompatible change"):
        flush(world.open_session(build_pipeline(build_table(), changed)))
    assert [len(world.read_rows(name)) for name in (TABLE, other_name)] == [2, 1]


ALLOWED = [
    ((Column("id", "INT"),), (Column("id", "BIGINT"),)),
    ((Column("id", "STRING", False),), (Column("id", "STRING"),)),
    ((Column("id", "STRING"),), (Column("id", "STRING"), Column("line", "INT"))),
]


@pytest.mark.parametrize(("before", "after"), ALLOWED)
def test_key_may_gain_nullable_columns_relax_and_widen(
    world: World, before: tuple[Column, ...], after: tuple[Column, ...]
) -> None:
    flush(world.open_session(build_keyed_pipeline(*before)))
    world.broker.produce("orders", {"id": "a", "line": 1}, {"name": "y"})
    flush(world.open_session(build_keyed_pipeline(*after)))
    assert len(world.read_rows(TABLE)) == (2 if len(after) > 1 else 1)


REFUSED = [
    ((Column("id", "STRING"),), (Column("id", "STRING"), Column("line", "INT", False)), "new and required"),
    ((Column("id", "STRING"), Column("line", "INT")), (Column("id", "STRING"),), "column=line is no longer part"),
    ((Column("id", "STRING"),), (Column("id", "INT"),), "column=id from type=STRING to type=INT"),
    ((Column("id", "STRING"),), (Column("id", "STRING", False),), "to type=STRING NOT NULL"),
    ((Column("id", "STRING"),), (Column("key", "STRING"),), "column=id is no longer part"),
]


@pytest.mark.guard(
    "a key does not lose a part, nor gain one that existing rows lack",
    file="plugins/tidegate/table/compatibility.py",
    text="    if previous_columns:\n",
    off="    if False:\n",
)
@pytest.mark.parametrize(("before", "after", "message"), REFUSED)
def test_any_other_change_of_the_key_is_refused_and_nothing_is_staged(
    world: World, before: tuple[Column, ...], after: tuple[Column, ...], message: str
) -> None:
    flush(world.open_session(build_keyed_pipeline(*before)))
    world.broker.produce("orders", {"id": "b"}, {"name": "y"})
    rows, jobs = world.read_rows(TABLE), len(world.engine.jobs)
    with pytest.raises(IncompatibleSchema, match=message):
        flush(world.open_session(build_keyed_pipeline(*after)))
    assert (world.read_rows(TABLE), len(world.engine.jobs)) == (rows, jobs)


def test_key_of_a_table_with_identifier_fields_does_not_grow_until_they_are_dropped(world: World) -> None:
    key = Column("id", "STRING", False)
    plain, grown = build_keyed_pipeline(key), build_keyed_pipeline(key, Column("line", "INT"))
    identified = Struct((("id", TEXT), ("name", TEXT)), frozenset({"id"}), identifier_fields=frozenset({"id"}))
    state = _build_changed_state(world, plain, identified)
    check_key_unchanged(build_session(plain, plain.tables[0], state))
    with pytest.raises(IncompatibleSchema, match=r"column=line: .*identifier fields id .*DROP IDENTIFIER FIELDS"):
        check_key_unchanged(build_session(grown, grown.tables[0], state))
    dropped = replace(state, schema=replace(identified, identifier_fields=frozenset()))
    check_key_unchanged(build_session(grown, grown.tables[0], dropped))


def test_topic_becomes_no_part_of_the_key_of_rows_that_lack_it(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    by_topic = build_pipeline(build_table(topic_column="src", metadata={"src": "topic"}))
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y"})
    with pytest.raises(IncompatibleSchema, match="column=src: the topic is a part of the key, and the table's rows"):
        flush(world.open_session(by_topic))


def test_topic_becomes_no_part_of_the_key_of_rows_that_another_pipeline_wrote(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    by_topic = build_pipeline(build_table(topic_column="src", metadata={"src": "topic"}), name="second")
    with pytest.raises(IncompatibleSchema, match=r"pipeline=second .*column=src: the topic is a part of the key"):
        flush(world.open_session(by_topic))


def test_column_renamed_in_the_table_keeps_receiving_the_records_field(world: World) -> None:
    session = world.open_session(build_pipeline())
    flush(session)
    world.destination.rename_column(TABLE, "name", "full_name")
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y"})
    flush(session)
    assert world.read_rows(TABLE) == [{"full_name": "x", "id": "a"}, {"full_name": "y", "id": "b"}]


def test_renamed_key_column_still_finds_its_rows(world: World) -> None:
    session = world.open_session(build_pipeline())
    flush(session)
    world.destination.rename_column(TABLE, "id", "order_id")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "y"})
    flush(session)
    assert world.read_rows(TABLE) == [{"name": "y", "order_id": "a"}]


def test_table_without_a_declared_schema_takes_a_renamed_column_under_both_names(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    world.destination.rename_column(TABLE, "name", "full_name")
    changed_table = replace(build_table(), value=ValueFormat(), key=KeyFormat(fields=("id",)))
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "old"})
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "full_name": "new"})
    flush(world.open_session(build_pipeline(changed_table)))
    assert [row["full_name"] for row in world.read_rows(TABLE)] == ["new", "old", "x"]


def test_required_column_that_was_renamed_is_required_under_neither_name(world: World) -> None:
    """Its field still comes under the old name, and each such record was bad: the new name was missing."""
    columns = (Column("id", "STRING"), Column("name", "STRING", nullable=False), Column("note", "STRING", False))
    world.destination.create(TABLE, columns)
    world.destination.rename_column(TABLE, "name", "full_name")
    world.destination.rename_column(TABLE, "note", "NOTE")  # that is no other name
    undeclared_table = replace(build_table(), value=ValueFormat(), key=KeyFormat(fields=("id",)))
    for table in (undeclared_table, replace(undeclared_table, value=ValueFormat(unknown_fields="add"))):
        session = world.open_session(build_pipeline(table))
        resolved_table = open_table(session, TABLE).refresh().resolved
        required = {c.name: not c.nullable for c in list_value_columns(resolved_table) if c.name != "id"}
        assert required == {"full_name": False, "NOTE": True, "name": False}


def test_names_of_a_column_that_was_renamed_begin_with_the_tables_own(world: World) -> None:
    flush(world.open_session(build_pipeline()))
    world.destination.rename_column(TABLE, "name", "Title")
    columns = (Column("id", "STRING"), Column("NAME", "STRING"), Column("title", "STRING"))
    declared = {"undeclared": None, "both declared": columns, "one declared": columns[:2]}
    names = {"undeclared": ("Title", "name"), "both declared": ("title", "NAME")}
    for case, declared_columns in declared.items():
        table = build_table(columns=declared_columns)
        resolved_table = open_table(world.open_session(build_pipeline(table)), TABLE).refresh().resolved
        assert find_names_of_columns(resolved_table) == dict.fromkeys(names.get(case, ()), names.get(case)), case


def test_renamed_sequence_column_is_refused_with_its_old_name(world: World) -> None:
    columns = (Column("id", "STRING"), Column("name", "STRING"))
    sequenced_table = replace(build_table(columns=columns), sequence_by=("name",))
    flush(world.open_session(build_pipeline(sequenced_table)))
    world.destination.rename_column(TABLE, "name", "version")
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y"})
    with pytest.raises(
        IncompatibleSchema, match="column=version: somebody renamed it in the table, from name, and with sequence_by"
    ):
        flush(world.open_session(build_pipeline(sequenced_table)))


LOST_COLUMNS = [
    (
        Struct((("name", TEXT),)),
        "column=id: the table has it no more, and its rows were written by this part of the key",
    ),
    (
        Struct((("order", TEXT), ("name", TEXT))),
        "column=id: the table has it no more, and its rows were written by this part of the key",
    ),
    (Struct((("id", TEXT), ("name", TEXT))), None),
    (Struct((("order", TEXT), ("name", TEXT)), aliases=(("id", "order"),)), None),
]


@pytest.mark.guard(
    "a table that has lost a part of its key is not merged into",
    file="plugins/tidegate/table/compatibility.py",
    text="    if missing:\n",
    off="    if False:\n",
)
@pytest.mark.parametrize(("schema", "message"), LOST_COLUMNS)
def test_table_that_lost_its_key_is_refused_and_one_that_was_emptied_is_not(
    world: World, schema: Struct, message: str | None
) -> None:
    pipeline, state = build_pipeline(), _build_changed_state(world, build_pipeline(), schema)
    for rows in (1, None):
        changed_state = replace(state, total_records=rows)
        if message is None:
            check_key_unchanged(build_session(pipeline, pipeline.tables[0], changed_state))
            continue
        with pytest.raises(IncompatibleSchema, match=message):
            check_key_unchanged(build_session(pipeline, pipeline.tables[0], changed_state))
    check_key_unchanged(build_session(pipeline, pipeline.tables[0], replace(state, total_records=0)))


def test_part_of_a_key_in_one_column_that_is_gone_is_named(world: World) -> None:
    columns = (Column("id", "STRING"), Column("line", "STRING"))
    key, value = (
        KeyFormat(fields=("id", "line"), columns=columns, into="k"),
        ValueFormat(columns=(Column("name", "STRING"),)),
    )
    pipeline = build_pipeline(replace(build_table(), key=key, value=value))
    state = _build_changed_state(world, pipeline, Struct((("k", Struct((("id", TEXT),))), ("name", TEXT))))
    with pytest.raises(
        IncompatibleSchema,
        match=r"column=k\.line: the table has it no more, and its rows were written by this part of the key",
    ):
        check_key_unchanged(build_session(pipeline, pipeline.tables[0], state))


RENAMED_STRUCT = Struct((("b", TEXT), ("first", TEXT)), aliases=(("a", "first"),))


@pytest.mark.guard(
    "remembered deletes and changes keep their column names",
    file="plugins/tidegate/table/compatibility.py",
    text="        if own_path[-1].casefold() != path[-1].casefold():\n",
    off="        if False:\n",
)
@pytest.mark.parametrize(
    ("kind", "data_type", "at"),
    [
        ("STRUCT<a: STRING, b: STRING>", RENAMED_STRUCT, "s.first: somebody renamed it in the table, from s.a"),
        (
            "ARRAY<STRUCT<a: STRING, b: STRING>>",
            Array(RENAMED_STRUCT),
            "s.element.first: somebody renamed it in the table, from s.element.a",
        ),
        (
            "MAP<STRING, STRUCT<a: STRING>>",
            Map(TEXT, RENAMED_STRUCT),
            "s.value.first: somebody renamed it in the table, from s.value.a",
        ),
    ],
)
def test_history_keeps_the_names_of_parts_too(world: World, kind: str, data_type: DataType, at: str) -> None:
    times = Struct((("valid_from", TIME), ("valid_to", TIME), ("is_current", Primitive("BOOLEAN"))))
    target = Struct((("id", TEXT), ("s", data_type), *times.fields))
    value = ValueFormat(columns=(Column("id", "STRING"), Column("s", kind)))
    table = replace(build_table(), value=value, history=History("valid_from", "valid_to", "is_current"))
    state = _build_changed_state(world, build_pipeline(), target)
    with pytest.raises(IncompatibleSchema, match=f"column={at}, and with sequence_by or history"):
        check_key_unchanged(build_session(build_pipeline(table), table, state))
    check_key_unchanged(build_session(build_pipeline(), replace(table, history=None), state))


def _build_changed_state(world: World, pipeline: Pipeline, schema: Struct) -> TableState:
    """The state of a table with a published batch, as if somebody had changed its columns since."""
    flush(world.open_session(build_pipeline()))
    state = world.open_session(build_pipeline()).tables.read_state(TABLE, pipeline.name)
    assert state is not None
    marks = {**state.marks, **build_row_properties(build_session(pipeline, pipeline.tables[0]))}
    return replace(state, marks=marks, schema=schema)


def test_table_that_iceberg_cannot_merge_into_any_more_is_refused_before_anything_is_staged(world: World) -> None:
    pipeline = build_pipeline()
    lost = replace(
        _build_changed_state(world, pipeline, Struct((("id", TEXT), ("name", TEXT)))), dropped_partition="day"
    )
    ranges = Ranges({"orders": {0: (1, 2)}})
    with pytest.raises(GiveUp, match=r"partition=day: the column of a partition .* to copy-on-write"):
        check_compatible(build_session(pipeline, pipeline.tables[0], lost), ranges)
    check_compatible(build_session(pipeline, pipeline.tables[0], replace(lost, rewrites_files=True)), ranges)
    appended = replace(pipeline.tables[0], upsert=False, delete=False)
    check_compatible(build_session(build_pipeline(appended), appended, lost), ranges)


def test_table_that_takes_any_schema_is_refused_for_merges_alone(world: World) -> None:
    pipeline = build_pipeline()
    state = _build_changed_state(world, pipeline, Struct((("id", TEXT), ("name", TEXT))))
    state = replace(state, takes_any_schema=True)
    ranges = Ranges({"orders": {0: (1, 2)}})
    with pytest.raises(
        GiveUp, match=rf"accept-any-schema=true.*ALTER TABLE `lake`.`shop`.`{TABLE.split('.')[2]}` UNSET"
    ):
        check_compatible(build_session(pipeline, pipeline.tables[0], state), ranges)
    appended = replace(pipeline.tables[0], upsert=False, delete=False)
    check_compatible(build_session(build_pipeline(appended), appended, state), ranges)


@pytest.mark.parametrize("column", ["_file", "_POS"])
def test_table_with_a_column_that_iceberg_keeps_for_itself_is_refused(world: World, column: str) -> None:
    pipeline, ranges = build_pipeline(), Ranges({"orders": {0: (1, 2)}})
    state = _build_changed_state(world, pipeline, Struct((("id", TEXT), ("name", TEXT))))
    state = replace(state, reserved_columns=("_file", "_pos"))
    check_compatible(build_session(pipeline, pipeline.tables[0], state), ranges)
    message = f"column={column}: Iceberg keeps this name"
    with pytest.raises(GiveUp, match=message):
        check_compatible(
            build_session(pipeline, pipeline.tables[0], replace(state, columns=(Column(column, "INT"),))), ranges
        )
    keyed_pipeline = build_keyed_pipeline(Column("id", "STRING"), values=(Column(column, "STRING"),))
    with pytest.raises(GiveUp, match=message):
        check_compatible(build_session(keyed_pipeline, keyed_pipeline.tables[0], state), ranges)
    appended = replace(keyed_pipeline.tables[0], upsert=False, delete=False)
    check_compatible(build_session(build_pipeline(appended), appended, state), ranges)


DECIDING = [
    ({"sequence_by": ("version",)}, "version"),
    ({"deletes": DeleteMode.SOFT}, "_deleted"),
    ({"partial_updates": True, "sequence_groups": (("version", ("name",)),)}, "version"),
    ({"history": History("valid_from", "valid_to", "is_current")}, "is_current"),
]


@pytest.mark.parametrize(("options", "lost"), DECIDING, ids=[lost for _, lost in DECIDING])
def test_table_that_lost_a_column_by_which_rows_are_decided_is_refused(
    world: World, options: dict[str, Any], lost: str
) -> None:
    value = ValueFormat(columns=tuple(Column(name, "STRING") for name in ("id", "name", "version")))
    table = replace(build_table(), value=value, **options)
    pipeline = build_pipeline(table)
    names = [column.name for column in list_destination_columns(table)]
    whole = Struct(tuple((name, TEXT) for name in names))
    state = _build_changed_state(world, pipeline, whole)
    check_key_unchanged(build_session(pipeline, table, state))
    changed_state = replace(state, schema=Struct(tuple((name, TEXT) for name in names if name != lost)))
    with pytest.raises(
        IncompatibleSchema, match=f"column={lost}: the table has it no more, and existing rows were written with it"
    ):
        check_key_unchanged(build_session(pipeline, table, changed_state))
    check_key_unchanged(build_session(pipeline, table, replace(changed_state, total_records=0)))
    if table.history is None:  # else the others of its columns are there still
        plain = replace(build_table(), value=value)  # nothing is decided by it any more
        check_key_unchanged(build_session(build_pipeline(plain), plain, changed_state))


@pytest.mark.parametrize(("lost", "is_used"), [("id", True), ("version", True), ("name", False)])
def test_column_that_was_dropped_and_added_again_is_refused_where_rows_are_found_or_decided_by_it(
    world: World, lost: str, is_used: bool
) -> None:
    columns = tuple(Column(name, "STRING") for name in ("id", "name", "version"))
    table = replace(build_table(columns=columns), sequence_by=("version",))
    struct = Struct(tuple((column.name, TEXT) for column in columns))
    state = replace(_build_changed_state(world, build_pipeline(table), struct), emptied_columns=frozenset({(lost,)}))
    if is_used:
        with pytest.raises(IncompatibleSchema, match=f"column={lost}: somebody has dropped it and added it again"):
            check_key_unchanged(build_session(build_pipeline(table), table, state))
    for fine in (replace(state, total_records=0), replace(state, emptied_columns=frozenset({("name",)}))):
        check_key_unchanged(build_session(build_pipeline(table), table, fine))
    appended = replace(table, upsert=False, delete=False, sequence_by=())
    check_key_unchanged(build_session(build_pipeline(appended), appended, state))


def test_column_that_rows_were_never_decided_by_is_added(world: World) -> None:
    value = ValueFormat(columns=(Column("id", "STRING"), Column("name", "STRING")))
    state = _build_changed_state(world, build_pipeline(), Struct((("id", TEXT), ("name", TEXT))))
    columns = (*value.columns, Column("version", "STRING"))
    sequenced_table = replace(
        build_table(), value=ValueFormat(columns=columns), sequence_by=("version",), deletes=DeleteMode.SOFT
    )
    check_key_unchanged(build_session(build_pipeline(sequenced_table), sequenced_table, state))


@pytest.mark.guard(
    "a name that differs in more than case names another column",
    file="plugins/tidegate/table/compatibility.py",
    text=" and declared_name.lower() != table_name.lower():\n",
    off=" and False:\n",
)
@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (Struct((("id", TEXT), ("strasse", TEXT), ("ort", Struct((("n", TEXT),))))), "straße"),
        (Struct((("id", TEXT), ("straße", TEXT), ("ort", Struct((("\u017f", TEXT),))))), "ort.s"),
    ],
)
@pytest.mark.parametrize("mode", ["upsert_delete", "append"])
def test_name_that_is_another_one_to_spark_is_not_written_into_that_column(
    schema: Struct, path: str, mode: str
) -> None:
    columns = (Column("id", "STRING"), Column("straße", "STRING"), Column("ort", "STRUCT<s: STRING>"))
    pipeline = build_pipeline(build_table(TABLE, mode, columns=columns))
    state = TableState("u", 1, 0, None, 1, (), schema=schema)
    with pytest.raises(IncompatibleSchema, match=f"column={path}: .*nothing was written; write the name alike"):
        check_compatible(build_session(pipeline, pipeline.tables[0], state), Ranges({}))
    alike = Struct((("ID", TEXT), ("STRAßE", TEXT), ("Ort", Struct((("S", TEXT),)))))
    check_compatible(build_session(pipeline, pipeline.tables[0], replace(state, schema=alike)), Ranges({}))


@pytest.mark.parametrize("spelled", ["Version", "VERSION", "version"])
def test_dropped_column_that_decides_is_found_however_the_file_spells_it_now(world: World, spelled: str) -> None:
    """Added as NULL, any older record would overwrite the rows that are there."""
    columns = tuple(Column(name, "STRING") for name in ("id", "Name", "Version"))
    table = replace(build_table(columns=columns), sequence_by=("Version",))
    state = _build_changed_state(world, build_pipeline(table), Struct((("id", TEXT), ("Name", TEXT))))
    now = replace(table, sequence_by=(spelled,))
    with pytest.raises(
        IncompatibleSchema, match=f"column={spelled}: the table has it no more, and existing rows were written with it"
    ):
        check_key_unchanged(build_session(build_pipeline(now), now, state))


WHOLE = {"id": TEXT, "N": Primitive("BIGINT"), "Note": TEXT, "Place": Struct((("Y", TEXT),))}
EVOLUTIONS: dict[str, dict[str, DataType]] = {
    "add_columns": {name: kind for name, kind in WHOLE.items() if name != "Note"},
    "widen": {**WHOLE, "N": Primitive("INT")},
    "relax": {**WHOLE, "Place": Struct((("Y", TEXT), ("X", TEXT)), required=frozenset({"X"}))},
}


@pytest.mark.parametrize("rule", EVOLUTIONS)
def test_each_way_in_which_a_table_may_change_is_asked_for_by_itself(rule: str) -> None:
    columns = tuple(Column(name, format_type(kind)) for name, kind in WHOLE.items())
    state = TableState("u", 1, 0, None, 1, (), schema=Struct(tuple(EVOLUTIONS[rule].items())))
    only_this = {name: name == rule for name in EVOLUTIONS}
    allowing = replace(build_table(columns=columns), **only_this)
    check_compatible(build_session(build_pipeline(allowing), allowing, state), Ranges({}))
    refusing = replace(build_table(columns=columns), **{name: name != rule for name in EVOLUTIONS})
    with pytest.raises(IncompatibleSchema):
        check_compatible(build_session(build_pipeline(refusing), refusing, state), Ranges({}))


def test_map_is_compared_as_the_destination_keeps_it() -> None:
    """BigQuery has no maps: there its column is a list of keys and values."""
    pipeline = build_pipeline(build_table(columns=(Column("id", "STRING"), Column("Marks", "MAP<STRING, INT>"))))
    entries = Array(Struct((("key", TEXT), ("value", Primitive("INT")))))
    as_map = TableState("u", 1, 0, None, 1, (), schema=Struct((("id", TEXT), ("Marks", Map(TEXT, Primitive("INT"))))))
    as_list = replace(as_map, schema=Struct((("id", TEXT), ("Marks", entries))), has_maps=False)
    for state in (as_map, as_list):
        check_compatible(build_session(pipeline, pipeline.tables[0], state), Ranges({}))
    for state in (replace(as_map, has_maps=False), replace(as_list, has_maps=True)):
        with pytest.raises(IncompatibleSchema, match="column=Marks"):
            check_compatible(build_session(pipeline, pipeline.tables[0], state), Ranges({}))


def test_table_that_is_not_there_yet_takes_any_batch() -> None:
    pipeline = build_pipeline()
    check_compatible(build_session(pipeline, pipeline.tables[0], None), Ranges({"orders": {0: (0, 1)}}))
