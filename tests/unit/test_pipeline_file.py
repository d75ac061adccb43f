"""A user's mistakes in a pipeline file are all named at once, with their line and the way out."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tidegate.adapters.pipeline_file import json_schema, load_all, load_pipeline
from tidegate.adapters.pipeline_model import PipelineModel
from tidegate.errors import ConfigurationError
from tidegate.pipeline import Column, Pipeline, Start

CATALOGS = """
lake: {type: iceberg, properties: {type: sql, uri: 'sqlite:////x/c.db', warehouse: 'file:///x'}}
dwh: {type: bigquery, project: p}
secretive: {type: iceberg, properties: {type: sql, uri: 'postgresql://u:geheim@h/db', warehouse: 'file:///x'}}
"""
MINIMAL = "source: {topics: [t]}\ntables: [{name: lake.shop.orders}]\n"


@pytest.fixture
def include(tmp_path: Path) -> Path:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "catalogs.yaml").write_text(CATALOGS)
    return tmp_path


def load(include: Path, text: str, name: str = "orders.yaml") -> Pipeline:
    path = include / "pipelines" / name
    path.write_text(text)
    return load_pipeline(path)


def problems(include: Path, text: str, name: str = "orders.yaml") -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(include, text, name)
    return [line.replace(f"{include}/", "") for line in caught.value.problems]


def source(more: str = "", tables: str = "[{name: lake.shop.orders}]") -> str:
    return f"source: {{topics: [t]{', ' + more if more else ''}}}\ntables: {tables}\n"


def table(more: str) -> str:
    return source(tables=f"[{{name: lake.shop.orders, {more}}}]")


def test_five_different_mistakes_are_all_named_with_their_lines(include: Path) -> None:
    text = """\
source:
  topics: [shop.orders]
  key: {fields: [id], schema: id BIGINT}
  value: {schema: id BIGINT amount INT}
tables:
  - name: lak.shop.orders
    upsrt: true
    history: scd2
merge:
  interval: abc
"""
    assert problems(include, text) == [
        "pipelines/orders.yaml:4: source.value.schema=id BIGINT amount INT: not SQL that Spark reads near 'amount'; "
        "write e.g. id BIGINT NOT NULL, name STRING",
        "pipelines/orders.yaml:6: tables[0].name=lak.shop.orders: catalog=lak is not in catalogs.yaml; "
        "did you mean lake?",
        "pipelines/orders.yaml:7: tables[0].upsrt=true: unknown key; did you mean upsert?",
        "pipelines/orders.yaml:8: tables[0].history=scd2: not available in this version; use none",
        "pipelines/orders.yaml:10: merge.interval=abc: not a duration; write e.g. 60s, 10m or -1 to disable",
    ]


REFUSED = {
    "a word where a number belongs": (
        source() + "merge: {max_records: many}",
        "merge.max_records=many: must be a whole",
    ),
    "quoted yes is not a bool": (table("upsert: 'yes'"), "tables[0].upsert=yes: must be true or false"),
    "a number is not text": (source("group: 5"), "source.group=5: must be text"),
    "true is not a number": (source() + "merge: {max_records: true}", "merge.max_records=true: must be a whole number"),
    "an empty section": (source() + "merge:", "merge=null: must be a mapping"),
    "no interval and no threshold": (source() + "merge: {interval: -1}", "merge.interval=-1: nothing would ever flush"),
    "interval zero": (source() + "merge: {interval: 0}", "merge.interval=0: out of range"),
    "topics and pattern": (source("topic_pattern: 'x.*'"), "source.topic_pattern=x.*: topics are given too"),
    "neither topics nor pattern": ("source: {}\ntables: [{name: lake.a.b}]", "source.topics: no topic to read"),
    "pattern that does not compile": (source("topic_pattern: '('"), "source.topic_pattern=(: not a regular expression"),
    "upsert without a key": (table("upsert: true"), "tables[0].upsert=true: needs a key"),
    "delete without a key": (table("delete: true"), "tables[0].delete=true: needs a key"),
    "table name without namespace": (source(tables="[{name: lake.orders}]"), "write <catalog>.<namespace>.<table>"),
    "unknown catalog": (source(tables="[{name: lke.a.b}]"), "catalog=lke is not in catalogs.yaml; did you mean lake?"),
    "bigquery destination": (source(tables="[{name: dwh.a.b}]"), "type=bigquery: not available in this version"),
    "two tables of one name": (
        source(tables="[{name: lake.a.b}, {name: lake.a.B}]"),
        "tables[1].name=lake.a.B: the same",
    ),
    "destination is the intermediate table": (
        source(tables="[{name: lake.a.b}, {name: lake.a.b_orders_tmp}]"),
        "tables[1].name=lake.a.b_orders_tmp: the product makes a table of this name",
    ),
    "key field outside the key schema": (
        source("key: {fields: [idd], schema: id BIGINT}"),
        "source.key.fields[0]=idd: not a column of key.schema (id)",
    ),
    "string key with two fields": (
        source("key: {format: string, fields: [a, b]}"),
        "source.key.fields=[a, b]: a key of",
    ),
    "nothing to except": (source("value: {fields_include: EXCEPT_KEY}"), "there is no key to leave out"),
    "one column with two types": (
        source("key: {fields: [id], schema: id INT}, value: {schema: id BIGINT}"),
        "source.key.schema=id INT: id is INT here and BIGINT in value.schema",
    ),
    "prefixed key collides": (
        source("key: {fields: [id], prefix: k_}, value: {schema: k_id BIGINT}"),
        "source.key.prefix=k_: k_id is a column of the value too",
    ),
    "metadata column collides": (
        source("value: {schema: a INT}, metadata: {A: topic}"),
        "source.metadata.A=topic: lake.shop.orders has a column of this name",
    ),
    "metadata of a later version": (source("metadata: {a: leader-epoch}"), "not available in this version; use topic"),
    "unknown metadata": (source("metadata: {a: ofset}"), "source.metadata.a=ofset: not a metadata key"),
    "unknown partition column": (
        source("value: {schema: a INT}", tables="[{name: lake.a.b, create: {partition_by: [days(b)]}}]"),
        "partition_by[0]=days(b): b is not a column",
    ),
    "condition that is no SQL": (table("when: 'a ='"), "tables[0].when=a =: not SQL"),
    "condition that is a statement": (table("when: a = 1; drop table x"), "2 statements found"),
    "condition over many records": (table("when: count(*) > 1"), "aggregates and windows have no meaning"),
    "time without a zone": (source("start: {timestamp: 2026-01-01T00:00:00}"), "means another moment on every machine"),
    "time that is none": (
        source("start: {timestamp: 2026-13-01T00:00:00Z}"),
        "not a value that YAML knows (timestamp)",
    ),
    "offset of an unread topic": (source("start: {offsets: {u: {0: 1}}}"), "source.start.offsets.u: not one of"),
    "negative offset": (source("start: {offsets: {t: {0: -1}}}"), "must be at least 0"),
    "inline group.id": (
        source("kafka: {bootstrap.servers: b, group.id: g}"),
        "source.kafka.group.id=g: set by the product",
    ),
    "inline without brokers": (source("kafka: {client.id: b}"), "bootstrap.servers is missing"),
    "remote and master": (source() + "spark: {remote: 'sc://h:1', master: local}", "remote is given too"),
    "remote of another protocol": (source() + "spark: {remote: 'spark://h:1'}", "write sc://host:port"),
    "unknown word": (
        source() + "on_rollback: explode",
        "on_rollback=explode: not a known word; allowed: fail, keep, rewind",
    ),
    "misspelt word": (source() + "on_rollback: rewnd", "on_rollback=rewnd: not a known word; did you mean rewind?"),
    "a topic that feeds nothing": (
        "source: {topics: [t, u]}\ntables: [{name: lake.a.b, topics: [t]}]",
        "source.topics[1]=u: feeds no table",
    ),
    "old name of another tool": (table("upsertEnabled: true"), "unknown key; did you mean upsert?"),
    "the same key twice": (source() + "tables: []", "3: tables: given twice, first on line 2"),
    "aliases without end": ("a: &a [*a]", ":1: not YAML: aliases nest without end"),
    "an object of Python": ("source: !!python/object:os.system {}", ":1: not YAML: could not determine a constructor"),
    "a tab": (source() + "\tx: 1", ":3: not YAML: found character that cannot start any token"),
    "an empty file": ("", ":1: no pipeline in it"),
}


@pytest.mark.parametrize("hazard", REFUSED)
def test_refused_with_value_and_way_out(include: Path, hazard: str) -> None:
    text, expected = REFUSED[hazard]
    found = problems(include, text)
    assert any(expected in line for line in found), found
    assert all(re.match(r"pipelines/orders\.yaml:\d+: ", line) for line in found), found


LATER = {
    "source.key.format": source("key: {format: avro}"),
    "source.key.into": source("key: {into: k}"),
    "source.value.format": source("value: {format: canal-json}"),
    "source.value.avro": source("value: {avro: {registry: r}}"),
    "source.verify_integrity": source("verify_integrity: true"),
    "source.errors.tolerance": source("errors: {tolerance: all}"),
    "tables[0].key.format": table("key: {format: raw}"),
    "tables[0].value.format": table("value: {format: raw}"),
    "tables[0].route": table("route: {field: type, pattern: x}"),
    "tables[0].sequence_by": table("sequence_by: [lsn]"),
    "tables[0].history": table("history: scd2"),
    "tables[0].partial_updates": table("partial_updates: true"),
    "tables[0].deletes": table("deletes: soft"),
    "tables[0].select": table("select: a"),
    "tables[0].audits": table("audits: [a > 0]"),
    "tables[0].name": source(tables="[{name: 'lake.shop.{type}'}]"),
    "heartbeat.produce": source() + "heartbeat: {produce: true}",
    "merge.records_threshold": source() + "merge: {records_threshold: 5}",
}


@pytest.mark.parametrize("key", LATER)
def test_what_this_version_cannot_do_is_one_clear_line_and_nothing_else(include: Path, key: str) -> None:
    (line,) = problems(include, LATER[key])
    assert f": {key}" in line
    assert "not available in this version" in line


@pytest.mark.parametrize(
    "text",
    [
        source("kafka: {bootstrap.servers: b, sasl.password: geheim}"),
        source("kafka: {bootstrap.servers: b, sasl.oauthbearer.client.secret: geheim, ssl.key.password: geheim}"),
        source() + "spark: {remote: 'sc://h:1/;token=geheim'}",
        source() + "spark: {conf: {spark.hadoop.fs.s3a.secret.key: geheim}}",
        source("kafka: {sasl.password: [geheim]}"),
        source("kafka_password: geheim"),
        source(tables="[{name: secretive.a.b}]"),
    ],
)
def test_a_secret_in_a_file_is_refused_and_never_repeated(include: Path, text: str) -> None:
    found = problems(include, text)
    assert "geheim" not in "".join(found)


def test_minimal_file_has_the_documented_defaults(include: Path) -> None:
    pipeline = load(include, MINIMAL)
    (orders,) = pipeline.tables
    assert (pipeline.source.kafka, pipeline.source.group) == ("kafka_default", "tidegate-orders")
    assert (orders.mode, orders.topics, orders.value.columns) == ("append", ("t",), None)
    assert (pipeline.merge.interval_seconds, pipeline.heartbeat.interval_seconds) == (60, 600)


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
on_rollback: fail
on_partition_growth: fail
spark: {mode: connect, connection: spark_default, conf: {}}
"""


def test_writing_every_documented_default_changes_nothing(include: Path) -> None:
    assert load(include, DOCUMENTED) == load(include, MINIMAL)
    written, implied = (PipelineModel.model_validate(yaml.safe_load(text)) for text in (DOCUMENTED, MINIMAL))
    whole = {"source": {"kafka", "start", "group"}}  # compared above
    assert written.model_dump(exclude=whole) == implied.model_dump(exclude=whole)


def test_a_key_makes_upsert_and_delete_the_default(include: Path) -> None:
    assert load(include, source("key: {fields: [id]}")).tables[0].mode == "upsert_delete"
    only = "tables: [{name: lake.a.b, delete: false}]"
    assert load(include, f"source: {{topics: [t], key: {{fields: [id]}}}}\n{only}").tables[0].mode == "upsert"


def test_topics_that_share_keys_need_an_order(include: Path) -> None:
    shared = "source: {topics: [t, u], key: {fields: [id]}}\ntables: [{name: lake.a.b%s}]"
    assert "several topics feed it" in problems(include, shared % "")[0]
    assert load(include, shared % ", disjoint_keys: true").tables[0].topics == ("t", "u")
    assert load(include, shared % ", upsert: false, delete: false").tables[0].mode == "append"
    pattern = "source: {topic_pattern: 's.*', key: {fields: [id]}}\ntables: [{name: lake.a.b}]"
    assert "several topics feed it" in problems(include, pattern)[0]


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
    assert load(include, source(f"start: {text}")).source.start == expected


def test_integers_become_times_only_where_their_unit_is_known(include: Path) -> None:
    units = [
        load(include, source(f"value: {{format: {f}}}")).tables[0].value.timestamp_unit
        for f in ("json", "debezium-json")
    ]
    assert units == [None, "micros"]
    assert load(include, source("value: {timestamp_unit: millis}")).source.value.timestamp_unit == "millis"


def test_properties_are_text_for_everyone_downstream(include: Path) -> None:
    text = table("create: {properties: {a: 1, b: true, c: x}}") + "spark: {conf: {spark.x: 2}}"
    pipeline = load(include, text)
    assert pipeline.tables[0].create.properties == {"a": "1", "b": "true", "c": "x"}
    assert pipeline.spark.conf == {"spark.x": "2"}


def test_a_master_means_submit(include: Path) -> None:
    assert load(include, MINIMAL + "spark: {master: 'local[2]'}").spark.mode == "submit"


@pytest.mark.parametrize("name", ["Orders.yaml", "1.yaml", "a b.yaml", "orders.yml", f"{'a' * 61}.yaml"])
def test_a_file_name_that_cannot_be_a_pipeline_name(include: Path, name: str) -> None:
    assert "rename it" in problems(include, MINIMAL, name)[0]


def test_a_broken_file_takes_no_other_down(include: Path) -> None:
    (include / "pipelines" / "bad.yaml").write_text("source: [")
    (include / "pipelines" / "good.yaml").write_text(MINIMAL)
    loaded = dict(load_all(include))
    assert isinstance(loaded["bad"], ConfigurationError)
    assert isinstance(loaded["good"], Pipeline)


def test_two_pipelines_that_would_share_an_intermediate_table(include: Path) -> None:
    (include / "pipelines" / "b_x.yaml").write_text("source: {topics: [t]}\ntables: [{name: lake.s.t}]")
    (include / "pipelines" / "x.yaml").write_text("source: {topics: [t]}\ntables: [{name: lake.s.t_b}]")
    loaded = dict(load_all(include))
    assert isinstance(loaded["b_x"], Pipeline)
    assert "pipeline b_x needs lake.s.t_b_x_tmp too" in str(loaded["x"])


def test_shipped_pipelines_load() -> None:
    loaded = load_all(Path(__file__).parents[2] / "include")
    assert {name for name, _ in loaded} >= {"shop_customers", "shop_orders", "shop_order_lines"}
    assert [pipeline for _, pipeline in loaded if isinstance(pipeline, ConfigurationError)] == []


def test_schema_for_editors_refuses_unknown_keys_and_requires_what_has_no_default() -> None:
    schema = json_schema()
    assert schema["required"] == ["source", "tables"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["MergeModel"]["properties"]["interval"]["default"] == 60


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["source", "tables", "merge", "spark", "heartbeat"])
INNER = st.sampled_from(
    ["name", "topics", "kafka", "start", "key", "value", "create", "interval", "conf", "when", "metadata"]
)
ALMOST = st.dictionaries(KEYS, JUNK | st.dictionaries(INNER, JUNK, max_size=4) | st.lists(st.dictionaries(INNER, JUNK)))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=ALMOST)
def test_no_file_however_broken_ends_in_another_error(include: Path, data: object) -> None:
    with suppress(ConfigurationError):
        load(include, yaml.safe_dump(data, allow_unicode=True))
