"""What no BigQuery table can have is refused in the pipeline file, each mistake in one line."""

import json
from pathlib import Path

import pytest
from pipeline_files import find_problems, load, render_source
from tidegate.adapters.bigquery.schema import get_partition_unit

CATALOGS = """\
lake: {type: iceberg, properties: {type: sql, uri: 'sqlite:////tmp/c.db', warehouse: 'file:///tmp/w'}}
dwh: {type: bigquery, project: p, staging: 'gs://bucket/staging'}
"""
VALUE = "value: {schema: 'id BIGINT, at TIMESTAMP, day DATE, n INT, x DOUBLE, tags ARRAY<STRING>'}"


def render_file(options: str, schema: str = VALUE, name: str = "dwh.shop.orders") -> str:
    return render_source(f"key: {{fields: [id], schema: id BIGINT}}, {schema}", tables=f"[{{name: {name}, {options}}}]")


def render_layout(create: str, name: str = "dwh.shop.orders") -> str:
    return render_file(f"create: {{{create}}}", name=name)


REFUSED = {
    "an array of arrays": (
        render_file("delete: true", "value: {schema: 'id BIGINT, a ARRAY<ARRAY<INT>>'}"),
        "source.value.schema=id BIGINT, a ARRAY<ARRAY<INT>>: type=ARRAY<ARRAY<INT>>: BigQuery has no arrays of arrays",
    ),
    "a name with a dot": (
        render_file("delete: true", "value: {schema: 'id BIGINT, `a.b` INT'}"),
        "source.value.schema=id BIGINT, `a.b` INT: column=a.b: BigQuery takes up to 300 letters",
    ),
    "a name of BigQuery's own": (
        render_file("delete: true", "metadata: {_PARTITIONTIME: timestamp}, value: {schema: id BIGINT}"),
        "source.metadata._PARTITIONTIME=timestamp: column=_PARTITIONTIME: BigQuery reserves names that begin so",
    ),
    "a key of floating point": (
        render_source("key: {fields: [x], schema: x DOUBLE}", tables="[{name: dwh.shop.orders}]"),
        "source.key.fields[0]=x: floating point, by which BigQuery finds no rows",
    ),
    "a sequence of floating point": (render_file("sequence_by: [x]"), "tables[0].sequence_by[0]=x: floating point"),
    "a sequence of structs": (
        render_file("sequence_by: [n, s]", "value: {schema: 'id BIGINT, n INT, S STRUCT<a: INT>'}"),
        "tables[0].sequence_by[1]=s: STRUCT<`a`: INT>, by which BigQuery orders no rows; order by a column without",
    ),
    "a sequence of arrays that select makes": (
        render_file("sequence_by: [Parts], select: 'SELECT id, CAST(array(n) AS ARRAY<INT>) AS parts FROM record'"),
        "tables[0].sequence_by[0]=Parts: ARRAY<INT>, by which BigQuery orders no rows",
    ),
    "a table's name with the mark of a partition": (
        render_layout("enabled: true", name="dwh.shop.Orders$2026"),
        "tables[0].name=dwh.shop.Orders$2026: characters=$: a BigQuery table's name has letters, digits, _, - and",
    ),
    "a table's name with the marks of a time and of many tables": (
        render_layout("enabled: true", name="dwh.shop.orders@x*"),
        "tables[0].name=dwh.shop.orders@x*: characters=* @: a BigQuery table's name",
    ),
    "an odd name of the flag": (
        render_file("deletes: soft, deleted_column: is.deleted"),
        "tables[0].deleted_column=is.deleted: column=is.deleted: BigQuery takes up to 300 letters",
    ),
    "an odd name of history": (
        render_file("history: scd2, history_columns: {valid_to: until?}"),
        "tables[0].history_columns.valid_to=until?: column=until?: BigQuery takes up to 300 letters",
    ),
    "an odd prefix": (
        render_source(f"key: {{fields: [id], schema: id BIGINT, prefix: key.}}, {VALUE}", "[{name: dwh.shop.orders}]"),
        "source.key.prefix=key.: column=key.id: BigQuery takes up to 300 letters",
    ),
    "an odd struct of the key": (
        render_source(f"key: {{fields: [id], schema: id BIGINT, into: 'a,b'}}, {VALUE}", "[{name: dwh.shop.orders}]"),
        "source.key.into=a,b: column=a,b: BigQuery takes up to 300 letters",
    ),
    "two partition columns": (
        render_layout("partition_by: [days(at), day]"),
        "create.partition_by[1]=day: BigQuery partitions by one column",
    ),
    "buckets": (
        render_layout("partition_by: ['bucket(4, id)']"),
        "=bucket(4, id): partition_by=bucket(4, id): BigQuery has",
    ),
    "a partition of numbers": (
        render_layout("partition_by: [n]"),
        "partition_by column=n type=INT: no time; write hours(c)",
    ),
    "hours of a date": (render_layout("partition_by: [hours(day)]"), "a DATE has no hours; use days(day)"),
    "five clusters": (
        render_layout("cluster_by: [id, at, day, n, id]"),
        "create.cluster_by[4]=id: BigQuery clusters by 4 columns at most",
    ),
    "a cluster of arrays": (
        render_layout("cluster_by: [tags]"),
        "=tags: ARRAY<STRING> is no type that BigQuery clusters by",
    ),
    "a property of Iceberg": (
        render_layout("properties: {write.format.default: orc}"),
        "create.properties: property write.format.default=orc: not one of BigQuery's tables; use one of",
    ),
    "a property that is no number": (
        render_layout("partition_by: [day], properties: {partition_expiration_days: soon}"),
        "property partition_expiration_days=soon: not a value that BigQuery takes for it",
    ),
    "partitions that expire at once": (
        render_layout("partition_by: [day], properties: {partition_expiration_days: 0}"),
        "property partition_expiration_days=0: not a value that BigQuery takes for it",
    ),
    "partitions that expire at no number": (
        render_layout("partition_by: [day], properties: {partition_expiration_days: nan}"),
        "property partition_expiration_days=nan: not a value that BigQuery takes for it",
    ),
    "a filter of partitions that are not there": (
        render_layout("properties: {require_partition_filter: true}"),
        "create.properties.require_partition_filter=true: BigQuery has it for partitioned tables alone; add partition_",
    ),
    "partitions that expire and are not there": (
        render_layout("properties: {partition_expiration_days: 30}"),
        "create.properties.partition_expiration_days=30: BigQuery has it for partitioned tables alone; add",
    ),
    "an array in partial updates": (
        render_file("partial_updates: true"),
        "tables[0].partial_updates=true: column=tags: BigQuery stores a NULL array as an empty one, so that a record",
    ),
    "a map in partial updates that no group has": (
        render_file(
            "partial_updates: {sequence_groups: {n: [at]}}",
            "value: {schema: 'id BIGINT, n INT, at DATE, m MAP<STRING, INT>'}",
        ),
        "column=m: BigQuery stores a NULL array as an empty one, so that a record without it would empty the row's; p",
    ),
    "an array that is selected in partial updates": (
        render_file("partial_updates: true, select: 'SELECT id, n, CAST(array(n) AS ARRAY<INT>) AS tags FROM record'"),
        "column=tags: BigQuery stores a NULL array as an empty one",
    ),
    "a column twice among the clusters": (
        render_layout("cluster_by: [id, at, ID]"),
        "create.cluster_by[2]=ID: BigQuery clusters by a column once; keep one",
    ),
    "a dataset with a dash": (
        render_file("delete: true", name="dwh.web-shop.orders"),
        "name=dwh.web-shop.orders: dataset=web-shop: BigQuery's datasets have letters, digits and underscores",
    ),
    "structs that lie too deep": (
        render_file("delete: true", f"value: {{schema: 'id BIGINT, deep {'STRUCT<a: ' * 15}INT{'>' * 15}'}}"),
        "BigQuery nests structs 15 deep, and the staged row is one of them",
    ),
    "another time of partitions": (
        render_layout("partition_by: [days(_PARTITIONTIME)], properties: {partition_time: wall-clock}"),
        "property partition_time=wall-clock: not one of BigQuery's tables; use one of description",
    ),
    "BigQuery's column in Iceberg": (
        render_layout("partition_by: [days(_PARTITIONTIME)]", "lake.shop.orders"),
        "create.partition_by[0]=days(_PARTITIONTIME): BigQuery's own column; name one of the table's",
    ),
    "history by the time of a record": (
        render_file("history: scd2, create: {partition_by: [days(_PARTITIONTIME)]}"),
        "create.partition_by[0]=days(_PARTITIONTIME): a row of history has no record's time to lie at; name a column",
    ),
    "a namespace that is no dataset": (
        render_file("namespaces: [a-b]", VALUE.replace("n INT", "n STRING"), "'dwh.{n}.orders'"),
        "namespaces[0]=a-b: not a dataset's name: letters, digits and underscores",
    ),
    "more load jobs than a day has": (
        render_file("delete: true") + "merge: {interval: 30s}",
        "merge.interval=30s: BigQuery takes 1500 load jobs for one table a day; must be at least 58s",
    ),
    "more stagings than a day has load jobs": (
        render_file("delete: true") + "merge: {interval: 1h}\nstage: {interval: 30s}",
        "stage.interval=30s: BigQuery takes 1500 load jobs for one table a day; must be at least 58s",
    ),
    "more staged batches than there are partitions": (
        render_file("max_pending: 2000"),
        "tables[0].max_pending=2000: BigQuery has partitions for 1000 staged batches; lower it",
    ),
    "flushes of a few records": (
        render_file("delete: true") + "merge: {records_threshold: 10}",
        "merge.records_threshold=10: each flush is a load job",
    ),
}


SELECTED = {
    "a partition of what is made": ("SELECT id, CAST(n AS DATE) AS born FROM record", "partition_by: [born]", ""),
    "a partition of what is left out": (
        "SELECT * EXCEPT (day, deep) FROM record",
        "partition_by: [day]",
        "partition_by column=day type=unknown: no time",
    ),
    "a partition of a dimension's column": (
        "SELECT r.id, d.born FROM record r LEFT JOIN lake.dim.d d ON d.id = r.id",
        "partition_by: [days(born)]",
        "",
    ),
    "arrays of arrays that are left out": ("SELECT * EXCEPT (deep) FROM record", "enabled: true", ""),
    "arrays of arrays that are made": (
        "SELECT id, CAST(NULL AS ARRAY<ARRAY<INT>>) AS deep FROM record",
        "enabled: true",
        "BigQuery has no arrays of arrays; put a struct around the inner one",
    ),
    "a dimension in BigQuery": (
        "SELECT r.id, d.born FROM record r LEFT JOIN dwh.dim.d d ON d.id = r.id",
        "enabled: true",
        "joins dwh.dim.d, which is in no Iceberg catalog of catalogs.yaml",
    ),
}


@pytest.mark.parametrize("case", SELECTED)
def test_columns_that_select_makes_are_those_that_count(case: str, include: Path) -> None:
    select, create, message = SELECTED[case]
    schema = "value: {schema: 'id BIGINT, n STRING, day DATE, deep ARRAY<ARRAY<INT>>'}"
    text = render_file(f"select: '{select}', create: {{{create}}}", schema)
    if not message:
        assert load(include, text).tables[0].select
        return
    problems = find_problems(include, text)
    assert any(message in line for line in problems), problems


@pytest.fixture
def include(include: Path) -> Path:
    (include / "catalogs.yaml").write_text(CATALOGS)
    return include


@pytest.mark.parametrize("case", REFUSED)
def test_what_bigquery_cannot_have_is_refused_with_the_way_out(case: str, include: Path) -> None:
    text, message = REFUSED[case]
    problems = find_problems(include, text)
    assert any(message in line for line in problems), problems
    assert len(problems) == 1


def test_columns_beyond_the_limit_are_counted_with_their_fields(include: Path) -> None:
    fields = ", ".join(f"f{n}: INT" for n in range(5_000))
    (line,) = find_problems(
        include, render_file("delete: true", f"value: {{schema: 'id BIGINT, a STRUCT<{fields}>, b STRUCT<{fields}>'}}")
    )
    assert "BigQuery holds 10000 columns, fields of structs included" in line


def test_structs_that_are_as_deep_as_they_may_be_are_taken(include: Path) -> None:
    deep = f"value: {{schema: 'id BIGINT, deep {'STRUCT<a: ' * 13}MAP<STRING, INT>{'>' * 13}'}}"
    assert load(include, render_file("delete: true", deep)).tables[0].value.columns


@pytest.mark.parametrize(
    "options",
    [
        "partial_updates: {sequence_groups: {n: [TAGS]}}",
        "partial_updates: true, select: SELECT * EXCEPT (tags) FROM record",
        "partial_updates: true, select: 'SELECT * EXCEPT (tags), CAST(to_json(tags) AS STRING) AS tags FROM record'",
        "partial_updates: false",
    ],
)
def test_arrays_that_nothing_depends_on_are_taken_in_partial_updates(options: str, include: Path) -> None:
    assert load(include, render_file(options)).tables[0].upsert


def test_truncate_of_a_table_that_requires_a_filter_is_applied(include: Path) -> None:
    layout = "create: {partition_by: [day], properties: {require_partition_filter: true}}"
    value = "value: {format: debezium-json, truncate: apply, schema: 'id BIGINT, day DATE'}"
    assert load(include, render_file(layout, value)).tables[0].value.applies_truncates


@pytest.mark.parametrize(
    "create",
    [
        "partition_by: [days(at)], cluster_by: [id, n], properties: {require_partition_filter: true}",
        "partition_by: [day], properties: {partition_column: immutable, partition_expiration_days: 90}",
        "partition_by: [months(valid_from)]}, history: scd2, evolve: {",
        "partition_by: [hours(_PARTITIONTIME)], properties: {description: it}",
    ],
)
def test_layouts_that_bigquery_has_are_taken(create: str, include: Path) -> None:
    assert load(include, render_layout(create)).tables[0].create.partition_by


@pytest.mark.parametrize(("merge", "unit"), [("", "DAY"), ("merge: {partition_time: wall-clock}", None)])
def test_one_key_says_at_which_time_a_row_lies_in_its_partition(merge: str, unit: str | None, include: Path) -> None:
    """`merge.partition_time: wall-clock` put rows where `record` of a second key, which was its default, said."""
    orders = load(include, render_layout("partition_by: [days(_PARTITIONTIME)]") + merge).tables[0]
    assert get_partition_unit(orders.create) == unit


def test_rows_of_history_lie_where_they_arrive_or_by_a_column(include: Path) -> None:
    text = render_file("create: {partition_by: [days(_PARTITIONTIME)]}, history: scd2")
    assert load(include, text + "merge: {partition_time: wall-clock}").tables[0].history
    assert "or set merge.partition_time: wall-clock" in find_problems(include, text)[0]


@pytest.mark.parametrize(
    ("location", "tolerance", "is_refused"),
    [("EU", "all", True), ("us", "all", False), ("EU", "none", False)],
)
def test_dead_letters_of_tables_in_two_locations_are_refused(
    location: str, tolerance: str, is_refused: bool, include: Path
) -> None:
    """The dead letters lie beside the first table, and no job of BigQuery writes into two locations."""
    shared = {"type": "bigquery", "project": "p", "staging": "gs://bucket/staging"}
    catalogs = {"dwh": shared, "far": {**shared, "location": location}}
    (include / "catalogs.yaml").write_text(json.dumps(catalogs))
    text = render_source(
        f"key: {{fields: [id], schema: id BIGINT}}, {VALUE}, errors: {{tolerance: {tolerance}}}",
        tables="[{name: dwh.shop.orders}, {name: far.shop.orders}]",
    )
    problems = find_problems(include, text) if is_refused else []
    assert [problem.partition("; ")[2] for problem in problems] == [
        "write none, or make a pipeline for each"
    ] * is_refused
    if is_refused:
        assert "errors.tolerance=all: all needs every table in one location" in problems[0]
        assert "lie in EU, US" in problems[0]
    else:
        assert len(load(include, text).tables) == 2


def test_a_server_of_ones_own_takes_as_many_load_jobs_as_come(include: Path) -> None:
    catalog = {"type": "bigquery", "project": "p", "staging": "file:///tmp/s", "endpoint": "http://127.0.0.1:9050"}
    (include / "catalogs.yaml").write_text(json.dumps({"dwh": catalog}))
    pipeline = load(include, render_file("delete: true") + "merge: {interval: 5s, records_threshold: 10}")
    assert (pipeline.merge.interval_seconds, pipeline.merge.records_threshold) == (5, 10)


@pytest.mark.parametrize("name", ["dwh.shop.eu.orders", "dwh.shop.eu.'{n}'"])
def test_namespace_of_several_levels_is_refused_in_one_sentence(include: Path, name: str) -> None:
    (include / "catalogs.yaml").write_text(CATALOGS)
    text = render_file("delete: true", VALUE.replace("n INT", "n STRING"), f'"{name}"'.replace("'", ""))
    (problem,) = find_problems(include, text)
    assert problem.endswith("BigQuery has one level of datasets; write <catalog>.<dataset>.<table>")
