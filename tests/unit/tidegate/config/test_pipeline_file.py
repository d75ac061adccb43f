"""A pipeline file becomes the nouns that the steps work with, with every default where the contract says."""

import shutil
from pathlib import Path

import pytest
import yaml
from pipeline_files import MINIMAL, find_problems, load, render_source, render_table
from tidegate.cli.main import main
from tidegate.config.models.pipeline import PipelineModel, build_json_schema
from tidegate.config.parsing.problems import Problems
from tidegate.config.pipeline_file import check_tables_of_others, load_all_pipelines
from tidegate.errors import ConfigurationError
from tidegate.model.resource_names import name_control_table
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline, Stage
from tidegate.spec.runtime import Maintenance
from tidegate.spec.source import Start
from tidegate.table.session import get_naming, make_concrete_table


def test_minimal_file_has_the_documented_defaults(include: Path) -> None:
    pipeline = load(include, MINIMAL)
    (orders,) = pipeline.tables
    assert (pipeline.source.kafka, pipeline.source.group) == ("kafka_default", "tidegate-orders")
    assert (orders.mode, orders.topics, orders.value.columns) == ("append", ("t",), None)
    assert (pipeline.merge.interval_seconds, pipeline.heartbeat.interval_seconds) == (60, 600)
    assert pipeline.maintenance == Maintenance(86_400, "auto", 10, 10, 5 * 86_400, 3 * 86_400)


def test_defaults_of_the_nouns_are_those_of_the_file(include: Path) -> None:
    pipeline = load(include, MINIMAL)
    bare = Pipeline(name="orders", source=pipeline.source, tables=pipeline.tables)
    assert pipeline == bare


DOCUMENTED = """
source:
  kafka: kafka_default
  topics: [t]
  start: earliest
  isolation: read_committed
  group: tidegate-orders
  key: {format: json, fields: [], prefix: '', into: null}
  value: {format: json, fields_include: ALL}
  verify_integrity: false
  errors: {tolerance: none, max_per_batch: 1000}
tables:
  - name: lake.shop.orders
    when: null
    when_false: ignore
    delete_when: null
    deletes: hard
    history: none
    partial_updates: false
    sequence_by: []
    tombstone_retention: 7d
    max_pending: 10
    select: null
    create: {enabled: true, partition_by: [], cluster_by: [], properties: {}}
    evolve: {add_columns: true, widen: true, relax: true}
    audits: []
merge: {interval: 60s, records_threshold: -1, max_records: 1000000, intermediate_suffix: _tmp}
heartbeat: {interval: 10m, produce: false, topic: connect-heartbeats, ignore_topics: ['__debezium-heartbeat.*']}
maintenance: {interval: 24h, compact: auto, keep_snapshots: 10, keep_snapshots_for: 5d, orphans_older_than: 3d}
on_rollback: fail
on_partition_growth: fail
on_incomplete_start: fail
spark: {mode: connect, connection: spark_default, conf: {}}
"""


def test_writing_every_documented_default_changes_nothing(include: Path) -> None:
    assert load(include, DOCUMENTED) == load(include, MINIMAL)
    documented, implied = (PipelineModel.model_validate(yaml.safe_load(text)) for text in (DOCUMENTED, MINIMAL))
    whole = {"source": {"kafka", "start", "group"}}  # compared above
    assert documented.model_dump(exclude=whole) == implied.model_dump(exclude=whole)


def test_a_key_makes_upsert_and_delete_the_default(include: Path) -> None:
    assert load(include, render_source("key: {fields: [id]}")).tables[0].mode == "upsert_delete"
    only = "tables: [{name: lake.a.b, delete: false}]"
    assert load(include, f"source: {{topics: [t], key: {{fields: [id]}}}}\n{only}").tables[0].mode == "upsert"


def test_namespaces_have_several_levels(include: Path) -> None:
    tables = "[{name: lake.Shop.EU.Orders}, {name: lake.shop.orders}, {name: lake.a.b.c.d.e}]"
    pipeline = load(include, render_source("key: {fields: [id]}", tables=tables))
    assert [table.identifier for table in pipeline.tables] == ["Shop.EU.Orders", "shop.orders", "a.b.c.d.e"]
    assert name_control_table(pipeline) == "lake.Shop.EU.tidegate_orders_batches"
    value = "value: {schema: 'region STRING, type STRING'}"
    template = "[{name: 'lake.shop.{region}.{type}', namespaces: [shop.eu, shop.us]}]"
    found = load(include, render_source(value, tables=template)).template
    assert found is not None
    assert found.namespaces == ("shop.eu", "shop.us")
    named = make_concrete_table(load(include, render_source(value, tables=template)), "lake.shop.eu.line").naming
    assert named is not None
    assert named.name_of({"region": "EU", "type": "Line"}) == "shop.eu.line"
    assert named.name_of({"region": "de", "type": "line"}) is None


def test_record_names_no_table_that_is_a_namespace(include: Path) -> None:
    """Its files would lie among those of the tables in that namespace, where removal of orphans would find them."""
    value = "value: {schema: 'type STRING'}"
    tables = "[{name: 'lake.shop.{type}', namespaces: [shop]}, {name: lake.shop.eu.west.orders}]"
    naming = get_naming(load(include, render_source(value, tables=tables)))
    assert [naming.name_of({"type": word}) for word in ("eu", "EU", "west", "shop")] == [
        None, None, "shop.west", "shop.shop"]  # fmt: skip


def test_whole_key_that_no_schema_types_is_text_or_bytes(include: Path) -> None:
    own = "{name: lake.shop.Own, key: {format: raw, fields: [B], prefix: k_}}"
    tables = f"[{{name: lake.shop.orders}}, {own}]"
    source = render_source("key: {format: string, fields: [K]}, value: {schema: 'id BIGINT'}", tables=tables)
    assert [table.key.columns for table in load(include, source).tables] == [
        (Column("K", "STRING"),),
        (Column("B", "BINARY"),),
    ]
    typed = render_source("key: {format: string, fields: [id]}, value: {schema: 'id BIGINT'}")
    assert load(include, typed).tables[0].key.columns == (Column("id", "BIGINT"),)


def test_key_without_fields_is_an_append_that_is_warned_of_unless_it_is_said(include: Path) -> None:
    (warning,) = load(include, render_source("key: {format: json, schema: id INT}")).warnings
    for words in ("orders.yaml:1: source.key: no key.fields", "appended to lake.shop.orders", "key.fields: []"):
        assert words in warning
    own = "source: {topics: [t]}\ntables: [{name: lake.a.b}, {name: lake.a.c, key: {format: string}}]"
    (warning,) = load(include, own).warnings
    assert "orders.yaml:2: tables[1].key: no key.fields, so every record is appended to lake.a.c" in warning
    key_texts = ("", "key: {format: json, fields: []}", "key: {fields: [id]}")
    assert [load(include, render_source(text)).warnings for text in key_texts] == [(), (), ()]
    appended = render_source("key: {format: json}", tables="[{name: lake.shop.orders, upsert: false, delete: false}]")
    assert load(include, appended).warnings == ()


def test_validate_prints_warnings_and_succeeds(include: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = include / "pipelines" / "orders.yaml"
    file.write_text(render_source("key: {format: json}"))
    assert main(["validate", str(file)]) == 0
    ok, _, warning = capsys.readouterr().out.splitlines()
    assert ok == f"{file}: ok"
    assert warning.startswith("  warning: ")
    assert "no key.fields" in warning


def test_validate_says_which_tables_have_no_key(include: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who knows upserts by the Kafka key from elsewhere would else learn from doubled rows that nothing is updated."""
    file = include / "pipelines" / "orders.yaml"
    tables = "[{name: lake.shop.Events}, {name: lake.shop.orders, key: {fields: [id]}}, {name: lake.shop.log}]"
    file.write_text(render_source("value: {schema: 'id INT'}", tables=tables))
    assert main(["validate", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{file}: ok",
        "  lake.shop.Events: there is no key.fields: each record is appended, and none updates or deletes a row",
        "  lake.shop.log: there is no key.fields: each record is appended, and none updates or deletes a row",
    ]
    file.write_text(render_source("key: {fields: [id], schema: id INT}"))
    assert main(["validate", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: ok\n"


def test_topics_that_share_keys_need_an_order(include: Path) -> None:
    shared = "source: {topics: [t, u], key: {fields: [id]}}\ntables: [{name: lake.a.b%s}]"
    assert "several topics feed it" in find_problems(include, shared % "")[0]
    assert load(include, shared % ", disjoint_keys: true").tables[0].topics == ("t", "u")
    assert load(include, shared % ", upsert: false, delete: false").tables[0].mode == "append"
    pattern = "source: {topic_pattern: 's.*', key: {fields: [id]}}\ntables: [{name: lake.a.b}]"
    assert "several topics feed it" in find_problems(include, pattern)[0]


@pytest.mark.parametrize(
    "condition",
    [
        "id > 1 AND NAME <> 'x' AND src = topic AND partition >= 0 AND offset > 0",
        "exists(lines, l -> exists(l.tags, t -> t = l.sku AND t = name))",
        "at > current_date AND at < localtimestamp AND name <> current_user AND name <> user",
        "timestampdiff(HOUR, at, now()) > 1 AND extract(YEAR FROM at) > 2000 AND at > now() - INTERVAL 1 DAY",
        "place.`a.b` = 1 AND place.c['k'][0].d IS NULL AND `we``ird` = \"text\" AND true",
    ],
)
def test_condition_may_look_at_whatever_the_record_has(include: Path, condition: str) -> None:
    schema = "name STRING, at TIMESTAMP, lines ARRAY<STRUCT<sku: STRING, tags: ARRAY<STRING>>>, `we``ird` STRING, "
    schema += "place STRUCT<`a.b`: INT, c: MAP<STRING, ARRAY<STRUCT<d: INT>>>>"
    source = {"topics": ["t"], "key": {"fields": ["id"], "schema": "id BIGINT"}, "value": {"schema": schema}}
    table = {"name": "lake.shop.orders", "when": condition, "delete_when": condition}
    file = {"source": {**source, "metadata": {"src": "topic"}}, "tables": [table]}
    assert load(include, yaml.safe_dump(file)).tables[0].when == condition


def test_a_table_has_its_own_key_and_value(include: Path) -> None:
    pipeline = load(
        include,
        "source: {topics: [t, u], key: {fields: [id], schema: id INT}}\n"
        "tables: [{name: lake.a.b, topics: [t]}, {name: lake.a.c, topics: [u], key: {fields: [k], schema: k STRING}}]",
    )
    assert [table.key_columns for table in pipeline.tables] == [("id",), ("k",)]
    assert pipeline.tables[1].key.columns == (Column("k", "STRING"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latest", Start("latest")),
        ("{timestamp: 2026-01-01T00:00:00Z}", Start("timestamp", timestamp_ms=1767225600000)),
        ("{timestamp: '2026-01-01T01:00:00+01:00'}", Start("timestamp", timestamp_ms=1767225600000)),
        ("{offsets: {t: {0: 42, '1': 7}}}", Start("offsets", offsets={"t": {0: 42, 1: 7}})),
    ],
)
def test_every_form_of_start(include: Path, text: str, expected: Start) -> None:
    assert load(include, render_source(f"start: {text}")).source.start == expected


def test_integers_become_times_only_where_their_unit_is_known(include: Path) -> None:
    units = [
        load(include, render_source(f"value: {{format: {f}}}")).tables[0].value.timestamp_unit
        for f in ("json", "debezium-json")
    ]
    assert units == [None, None]
    by_column = "value: {schema: 'a TIMESTAMP, b TIMESTAMP', timestamp_unit: {a: nanos, B: seconds}}"
    assert load(include, render_source(by_column)).source.value.timestamp_unit == {"a": "nanos", "B": "seconds"}
    assert load(include, render_source("value: {timestamp_unit: millis}")).source.value.timestamp_unit == "millis"


def test_bytes_and_nanoseconds_are_read_as_the_file_says_and_strictly_without_it(include: Path) -> None:
    plain = load(include, render_source("value: {format: debezium-json}")).source.value
    assert (plain.options, plain.nanoseconds, plain.truncates("a")) == ({}, "refuse", False)
    text = "format: debezium-json, schema: 'a BINARY, at TIMESTAMP', json: {binary: hex}, nanoseconds: {AT: truncate}"
    value_format = load(include, render_source(f"value: {{{text}}}")).source.value
    assert value_format.options == {"binary": "hex"}
    assert [value_format.truncates(name) for name in ("at", "At", "a")] == [True, True, False]
    assert load(include, render_source("value: {nanoseconds: truncate}")).source.value.truncates("anything")
    by_column = "value: {format: csv, schema: 'a BINARY', csv: {binary: {A: base64-url-safe}}}"
    assert load(include, render_source(by_column)).source.value.options["binary"] == {"A": "base64-url-safe"}


def test_characters_of_csv_with_which_no_line_can_be_told_apart_are_refused(include: Path) -> None:
    message = "the same as delimiter: columns could not be separated; choose another"
    for options in ('{delimiter: ";", escape: ";"}', "{delimiter: '\"'}"):
        with pytest.raises(ConfigurationError, match=message):
            load(include, render_source(f"value: {{format: csv, schema: 'a STRING', csv: {options}}}"))
    plain = "value: {format: csv, schema: 'a STRING', csv: {delimiter: '\\', escape: '\"'}}"
    assert load(include, render_source(plain)).source.value.options["delimiter"] == "\\"


def test_properties_are_text_for_everyone_downstream(include: Path) -> None:
    text = render_table("create: {properties: {a: 1, b: true, c: x}}") + "spark: {conf: {spark.x: 2}}"
    pipeline = load(include, text)
    assert pipeline.tables[0].create.properties == {"a": "1", "b": "true", "c": "x"}
    assert pipeline.spark.conf == {"spark.x": "2"}


def test_a_master_means_submit(include: Path) -> None:
    assert load(include, MINIMAL + "spark: {master: 'local[2]'}").spark.mode == "submit"


@pytest.mark.parametrize("name", ["Orders.yaml", "1.yaml", "a b.yaml", "orders.yml", f"{'a' * 61}.yaml"])
def test_a_file_name_that_cannot_be_a_pipeline_name(include: Path, name: str) -> None:
    assert "rename it" in find_problems(include, MINIMAL, name)[0]


@pytest.mark.parametrize("name", ["orders_backfill", "orders_backfill_0af3", "orders_backfill_replay"])
def test_a_file_name_whose_tables_and_branches_would_read_like_a_backfills(include: Path, name: str) -> None:
    assert "rename the file" in find_problems(include, MINIMAL, f"{name}.yaml")[0]


@pytest.mark.parametrize("kind", ["actions", "maintenance", "replay", "verify"])
def test_a_file_name_that_is_that_of_another_pipelines_dag(include: Path, kind: str) -> None:
    assert load(include, MINIMAL, f"user_{kind}.yaml").name == f"user_{kind}"
    (include / "pipelines" / "user.yaml").write_text(MINIMAL)
    (problem,) = find_problems(include, MINIMAL, f"user_{kind}.yaml")
    assert f"name=user_{kind}: pipeline=user has a DAG tidegate_user_{kind}; rename one of the files" in problem


def test_a_broken_file_takes_no_other_down(include: Path) -> None:
    (include / "pipelines" / "bad.yaml").write_text("source: [")
    (include / "pipelines" / "good.yaml").write_text(MINIMAL)
    pipelines_by_name = dict(load_all_pipelines(include))
    assert isinstance(pipelines_by_name["bad"], ConfigurationError)
    assert isinstance(pipelines_by_name["good"], Pipeline)


def test_a_file_over_which_a_check_itself_fails_takes_no_other_down(
    include: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (include / "pipelines" / "bad.yaml").write_text(render_source("kafka: {bootstrap.servers: 'h:1'}"))
    (include / "pipelines" / "good.yaml").write_text(MINIMAL)

    def fail(model: PipelineModel, findings: Problems) -> None:
        if model.source.kafka != "kafka_default":
            raise RecursionError("secret")

    monkeypatch.setattr("tidegate.config.pipeline_file.check_source", fail)
    pipelines_by_name = dict(load_all_pipelines(include))
    assert isinstance(pipelines_by_name["good"], Pipeline)
    assert "bad.yaml: an unexpected RecursionError (test_pipeline_file.py:" in str(pipelines_by_name["bad"])
    assert "secret" not in str(pipelines_by_name["bad"])


def test_two_pipelines_that_would_share_an_intermediate_table(include: Path) -> None:
    (include / "pipelines" / "b_x.yaml").write_text("source: {topics: [t]}\ntables: [{name: lake.s.t}]")
    (include / "pipelines" / "x.yaml").write_text("source: {topics: [t]}\ntables: [{name: lake.s.t_b}]")
    pipelines_by_name = dict(load_all_pipelines(include))
    assert isinstance(pipelines_by_name["b_x"], Pipeline)
    assert "pipeline b_x needs lake.s.t_b_x_tmp too" in str(pipelines_by_name["x"])


def test_two_pipelines_that_would_commit_offsets_of_a_topic_to_one_group(include: Path) -> None:
    """As in a file that was copied: each took the other's offsets for its own, also as its start."""
    sources = {
        "a": "topics: [t, u], group: g",
        "b": "topics: [u], group: g",  # as a
        "c": "topics: [T], group: g",
        "d": "topics: [t], group: g, kafka: other",
        "e": "topics: [t]",
        "f": "topics: [t], group: tidegate-e",  # that of e, which names none
        "g": "topic_pattern: 'v.*', group: g",
        "h": "topics: [w, v1], group: g",  # as g
        "i": "topic_pattern: 'v.*', group: g",  # as g
        "j": "topic_pattern: 'x.*', group: g",
    }
    for name, source in sources.items():
        text = f"source: {{{source}}}\ntables: [{{name: lake.s.{name}}}]"
        (include / "pipelines" / f"{name}.yaml").write_text(text)
    pipelines_by_name = dict(load_all_pipelines(include))
    refusals = {name: str(value) for name, value in pipelines_by_name.items() if not isinstance(value, Pipeline)}
    assert {name: text.partition(": ")[2].partition(", and")[0] for name, text in refusals.items()} == {
        "b": "source.group=g: pipeline a commits its offsets of topic=u to it too",
        "f": "source.group=tidegate-e: pipeline e commits its offsets of topic=t to it too",
        "h": "source.group=g: pipeline g commits its offsets of topic=v1 to it too",
        "i": "source.group=g: pipeline g commits its offsets of topic_pattern=v.* to it too",
    }


@pytest.mark.guard(
    "one pipeline of a table reports its hours",
    file="plugins/tidegate/config/pipeline_file.py",
    text="    if taken is not None:\n",
    off="    if False:\n",
)
def test_hours_of_a_table_are_told_by_one_of_its_pipelines(include: Path) -> None:
    """Two that look at the same moment would both tell an hour."""
    tables = "tables: [{{name: lake.s.{own}}}, {{name: lake.s.orders{more}}}]\ncomplete: {period}\n"
    for name, options, period in (
        ("a", "", "hour"),
        ("b", "", "hour"),
        ("c", ", branch: eu", "hour"),
        ("d", "", "day"),
    ):
        text = "source: {topics: [t]}\n" + tables.format(own=name, more=options, period=period)
        (include / "pipelines" / f"{name}.yaml").write_text(text)
    (include / "pipelines" / "e.yaml").write_text("source: {topics: [t]}\ntables: [{name: lake.s.orders}]")
    pipelines_by_name = dict(load_all_pipelines(include))
    assert [name for name, value in pipelines_by_name.items() if not isinstance(value, Pipeline)] == ["b"]
    assert (
        "complete=hour of pipeline a reports those of lake.s.orders already, and they would be reported twice"
        in str(pipelines_by_name["b"])
    )


@pytest.mark.parametrize(("own", "table"), [
    ("sequence_by: [n]", "orders_deletes"), ("history: scd2", "orders_changes"), ("", "orders_a_tmp"),
    ("", "tidegate_a_batches"), ("sequence_by: [n], branch: eu", "orders_eu_deletes"),
])  # fmt: skip
@pytest.mark.parametrize("is_first", [True, False])
def test_table_that_a_pipeline_makes_is_no_destination_of_another(
    include: Path, own: str, table: str, is_first: bool
) -> None:
    maker, user = ("a", "b") if is_first else ("z", "b")
    table = table.replace("_a_", f"_{maker}_")
    source = "source: {topics: [t], key: {fields: [id]}, value: {schema: 'id INT, n INT'}}\n"
    (include / "pipelines" / f"{maker}.yaml").write_text(f"{source}tables: [{{name: lake.s.orders, {own}}}]")
    (include / "pipelines" / f"{user}.yaml").write_text(f"{source}tables: [{{name: lake.s.{table.upper()}}}]")
    first, second = sorted((maker, user))
    pipelines_by_name = dict(load_all_pipelines(include))
    assert isinstance(pipelines_by_name[first], Pipeline)
    assert f"pipeline {first} needs lake.s.{table} too" in str(pipelines_by_name[second]).replace(table.upper(), table)
    check_tables_of_others(include, first)
    with pytest.raises(ConfigurationError, match="needs"):
        check_tables_of_others(include, second)


GROUPED = "partial_updates: {sequence_groups: {va: [a], vb: [b, vc]}}"


@pytest.mark.parametrize(("options", "is_refused"), [
    (f"{GROUPED}, delete: false", False),
    (f"{GROUPED}, delete: false, select: 'SELECT *, CAST(va AS INT) AS x FROM record'", True),
    (f"{GROUPED}, delete: false, select: 'SELECT id, a, b, va, vb, CAST(va AS INT) AS vc FROM record'", False),
    (GROUPED, True),
    (f"{GROUPED}, disjoint_keys: true", False),
    ("partial_updates: {sequence_groups: {va: [a], vb: [b]}}, delete: false", True),
    ("partial_updates: true, delete: false", True),
])  # fmt: skip
def test_topics_whose_columns_all_have_sequences_may_share_keys(include: Path, options: str, is_refused: bool) -> None:
    schema = "id INT, a STRING, va INT, b STRING, vb BIGINT, vc STRING"
    source = f"source: {{topics: [t, u], key: {{fields: [id]}}, value: {{schema: '{schema}'}}}}\n"
    text = f"{source}tables: [{{name: lake.s.wide, {options}}}]"
    if not is_refused:
        assert load(include, text).tables[0].sequence_groups == (("va", ("a",)), ("vb", ("b", "vc")))
        return
    (problem,) = find_problems(include, text)
    assert "or put all columns into sequence_groups and set delete: false" in problem


def test_columns_of_updates_are_those_of_the_table_in_any_letters(include: Path) -> None:
    schema = "id BIGINT, Name STRING, n INT"
    source = f"key: {{fields: [id]}}, value: {{schema: '{schema}'}}, metadata: {{Last_Seen: timestamp}}"
    options = "name: lake.s.a, update_columns: [NAME, last_seen]"
    named = load(include, render_source(source, tables=f"[{{{options}}}]")).tables[0]
    assert named.update_columns == ("NAME", "last_seen")
    select = "select: 'SELECT id, CAST(n * 2 AS INT) AS Twice FROM record'"
    selected = f"name: lake.s.a, deletes: soft, update_columns: [twice], {select}"
    table = load(include, render_source(source, tables=f"[{{{selected}}}]")).tables[0]
    assert (table.update_columns, table.folds_records) == (("twice",), True)
    unknown = "key: {fields: [id], schema: id BIGINT}"
    assert load(include, render_source(unknown, tables=f"[{{{options}}}]")).tables[0].update_columns[0] == "NAME"


def test_layout_may_name_columns_in_backquotes_whatever_letters_they_have(include: Path) -> None:
    schema = "value: {schema: 'id BIGINT, `the day` DATE, `a``b` INT'}"
    create = (
        "create: {partition_by: ['days(`the day`)', 'bucket(4, `a``b`)'], cluster_by: ['`the day`', a`b, '`a``b`']}"
    )
    (table,) = load(include, render_source(schema, tables=f"[{{name: lake.shop.t, {create}}}]")).tables
    assert table.create.partition_by == ("days(`the day`)", "bucket(4, `a``b`)")
    assert table.create.cluster_by == ("the day", "a`b", "a`b")
    wrong = render_source(
        schema, tables="[{name: lake.shop.t, create: {partition_by: ['days(`a``c`)'], cluster_by: ['`c``b`']}}]"
    )
    assert [text.partition(": ")[2] for text in find_problems(include, wrong) if "not a column" in text] == [
        "tables[0].create.partition_by[0]=days(`a``c`): a`c is not a column of the table; did you mean a`b?",
        "tables[0].create.cluster_by[0]=`c``b`: c`b is not a column of the table; did you mean a`b?",
    ]


def test_pipelines_may_share_a_destination_and_what_remembers_its_deletes(include: Path) -> None:
    source = "source: {topics: [t], key: {fields: [id]}, value: {schema: 'id INT, n INT'}}\n"
    for name in ("a", "b"):
        (include / "pipelines" / f"{name}.yaml").write_text(
            f"{source}tables: [{{name: lake.s.orders, sequence_by: [n]}}]"
        )
    (include / "pipelines" / "c.yaml").write_text(
        f"{source}tables: [{{name: lake.s.lines_deletes}}, {{name: lake.s.x}}]"
    )
    (include / "pipelines" / "d.yaml").write_text(f"{source}tables: [{{name: lake.s.lines}}]")  # remembers none
    assert all(isinstance(pipeline, Pipeline) for _, pipeline in load_all_pipelines(include))


def test_demos_pipelines_load_and_none_is_shipped_whose_topics_a_new_user_does_not_have(include: Path) -> None:
    root = Path(__file__).parents[4]
    assert load_all_pipelines(root / "include") == []
    for file in (root / "demo" / "pipelines").glob("*.yaml"):
        shutil.copy(file, include / "pipelines")
    pipelines_by_name = dict(load_all_pipelines(include))
    assert {name for name in pipelines_by_name if name.startswith("shop_")} == {
        "shop_customers",
        "shop_orders",
        "shop_order_lines",
    }
    assert [pipeline for pipeline in pipelines_by_name.values() if isinstance(pipeline, ConfigurationError)] == []


def test_schema_for_editors_refuses_unknown_keys_and_requires_what_has_no_default() -> None:
    schema = build_json_schema()
    assert schema["required"] == ["source", "tables"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["MergeModel"]["properties"]["interval"]["default"] == 60


def test_an_interval_may_be_a_cron_expression(include: Path) -> None:
    hourly = load(include, MINIMAL + "\nmerge: {interval: '0  * * * *'}\n").merge
    assert (hourly.cron, hourly.interval_seconds, hourly.is_timed) == ("0 * * * *", 3600, True)
    workdays = load(include, MINIMAL + "\nmerge: {interval: '0 6 * * 1-5'}\n").merge
    assert workdays.interval_seconds == 3 * 86_400


def test_records_alone_may_start_a_flush(include: Path) -> None:
    merge = load(include, MINIMAL + "\nmerge: {interval: -1, records_threshold: 5}\n").merge
    assert (merge.records_threshold, merge.is_timed) == (5, False)


def test_tags_are_texts_in_the_order_of_the_file(include: Path) -> None:
    assert load(include, MINIMAL).tags == ()
    assert load(include, MINIMAL + "tags: [team-a, 'cost centre 7', '2026']\n").tags == (
        "team-a",
        "cost centre 7",
        "2026",
    )


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        ("shop", "tags=shop: must be a list, e.g. [a, b]"),
        ("[a, 7]", "tags[1]=7: must be text; put it in quotes"),
        ("[a, '']", "tags[1]='': a tag has 1 to 100 printable letters, no blank before or after them"),
        ("[' a']", "tags[0]=a: a tag has 1 to 100 printable letters, no blank before or after them"),
        ("[a, b, a]", "tags=[a, b, a]: a is listed twice; keep one"),
    ],
)
def test_wrong_tags_are_refused_with_one_problem(include: Path, tags: str, problem: str) -> None:
    assert find_problems(include, f"{MINIMAL}tags: {tags}\n") == [f"pipelines/orders.yaml:3: {problem}"]


def test_tag_may_be_as_long_as_airflow_s_and_no_longer(include: Path) -> None:
    assert load(include, f"{MINIMAL}tags: [{'t' * 100}]\n").tags == ("t" * 100,)
    [problem] = find_problems(include, f"{MINIMAL}tags: [{'t' * 101}]\n")
    assert "1 to 100 printable letters" in problem
    with pytest.raises(ConfigurationError):
        load(include, MINIMAL + 'tags: ["a\\nb"]\n')


def test_schema_for_editors_knows_tags() -> None:
    words = build_json_schema()["properties"]["tags"]
    assert words["items"] == {"type": "string", "minLength": 1, "maxLength": 100}
    assert words["uniqueItems"] is True


@pytest.mark.parametrize(
    ("interval", "expected"),
    [("10s", Stage(10)), ("1", Stage(1)), ("'*/5 * * * *'", Stage(300, "*/5 * * * *"))],
)
def test_staging_has_a_clock_of_its_own_where_the_file_gives_one(include: Path, interval: str, expected: Stage) -> None:
    two_clocks = load(include, f"{MINIMAL}stage: {{interval: {interval}}}\n")
    assert (two_clocks.stage, two_clocks.stage.has_clock, two_clocks.merge.interval_seconds) == (expected, True, 60)
    assert [table.max_pending for table in two_clocks.tables] == [1000], "one merge takes all that waits"
    assert (load(include, MINIMAL).stage.has_clock, load(include, MINIMAL).tables[0].max_pending) == (False, 10)
    bounded = render_source(tables="[{name: lake.shop.orders, max_pending: 10}]") + "stage: {interval: 10s}\n"
    assert load(include, bounded).tables[0].max_pending == 10


@pytest.mark.parametrize("interval", ["0", "-1", "0s"])
def test_clock_of_staging_that_never_runs_is_refused(include: Path, interval: str) -> None:
    (problem,) = find_problems(include, f"{MINIMAL}stage: {{interval: {interval}}}\n")
    assert "stage.interval" in problem
    assert "out of range; must be at least 1s; leave it out to stage in each flush" in problem
