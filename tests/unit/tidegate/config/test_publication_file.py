"""A publication file: everything wrong with it is said at once, and what is right becomes a publication."""

import re
from pathlib import Path

import pytest
import yaml
from tidegate.cli.main import main
from tidegate.config.models.pipeline import build_json_schema
from tidegate.config.models.publication import PublicationModel
from tidegate.config.parsing.publication_sql import parse_publication_sql
from tidegate.config.publication_file import load_publication, load_publications
from tidegate.connections import read_connection_from_env
from tidegate.errors import ConfigurationError
from tidegate.runner.pipeline_files import PipelineFiles, PublicationFiles
from tidegate.runner.work import Place, PublicationWork
from tidegate.spec.publication import Begin, Publication

LAKE = {"type": "iceberg", "properties": {"type": "sql", "uri": "sqlite:////tmp/x.db", "warehouse": "file:///tmp/x"}}
PLAIN = {"table": "lake.shop.orders", "topic": "orders.out", "key": {"fields": ["id"]}}


@pytest.fixture
def include(tmp_path: Path) -> Path:
    (tmp_path / "publications").mkdir()
    (tmp_path / "catalogs.yaml").write_text(yaml.safe_dump({"lake": LAKE}))
    return tmp_path


def load(include: Path, name: str = "out", **words) -> Publication:
    path = include / "publications" / f"{name}.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in {**PLAIN, **words}.items() if v is not None}))
    return load_publication(path)


def read_refusal(include: Path, **words) -> str:
    with pytest.raises(ConfigurationError) as error_info:
        load(include, **words)
    return str(error_info.value)


def test_three_words_are_enough_and_the_rest_has_defaults(include: Path) -> None:
    publication = load(include)
    assert (publication.topics, publication.delivery, publication.start, publication.parallelism) == (
        ("orders.out",),
        "at-least-once",
        Begin(),
        4,
    )
    assert (publication.state_topic, publication.sql, publication.on_expired) == (
        "tidegate-publication-out",
        "SELECT * FROM {table}",
        "fail",
    )


@pytest.mark.parametrize(
    ("name", "pipeline"),
    [("orders", "publish_orders"), ("orders_replay", "publish_orders"), ("orders_replay", "publish_orders_replay")],
)
def test_publication_whose_dag_would_be_that_of_a_pipeline_is_refused(include: Path, name: str, pipeline: str) -> None:
    (include / "pipelines").mkdir()
    (include / "pipelines" / "orders.yaml").write_text("")
    assert load(include, name).name == name
    (include / "pipelines" / f"{pipeline}.yaml").write_text("")
    assert load(include, "users").name == "users"
    with pytest.raises(ConfigurationError, match=f"pipeline={pipeline} has a DAG tidegate_publish_{name}; rename"):
        load(include, name)


def test_all_words_are_taken(include: Path) -> None:
    publication = load(
        include,
        topic=None,
        topics=["a", "b"],
        sql="SELECT id AS k_id, t, h, at FROM {table}",
        key={"fields": ["k_id"], "fields_prefix": "k_", "format": "csv", "csv": {"delimiter": ";"}},
        value={"fields_include": "EXCEPT_KEY"},
        metadata={"topic": "t", "headers": "h", "timestamp": "at"},
        start={"timestamp": "2026-01-01T00:00:00Z"},
        delivery="exactly-once",
        interval="5m",
    )
    assert (publication.topics, publication.start.timestamp_ms, publication.interval_seconds) == (
        ("a", "b"),
        1767225600000,
        300,
    )
    assert publication.key.options == {"delimiter": ";", "quote": '"', "escape": None, "null_literal": None}


def test_start_at_a_millisecond_begins_at_that_one(include: Path) -> None:
    """Seconds as a float lie just below some milliseconds."""
    assert load(include, start={"timestamp": "2038-04-16T15:46:34.213Z"}).start.timestamp_ms == 2155045594213


def test_every_problem_is_told_with_its_line(include: Path) -> None:
    refusal = read_refusal(
        include,
        tabel="x",
        table="lake.orders",
        delivery="exactly_once",
        key={"fields": ["id", "ID"], "format": "string", "fields_prefix": "k_"},
        kafka={"bootstrap.servers": "x:1", "sasl.password": "s3cr3t"},
        sql="SELECT DISTINCT id FROM {table}",
    )
    for part in (
        "tabel=x: unknown key; did you mean table?",
        "not a table's full name",
        "delivery=exactly_once: not a known word; did you mean exactly-once",
        "listed twice",
        "a key of format string is one value",
        "needs value.fields_include: EXCEPT_KEY",
        "does not begin with fields_prefix=k_",
        "a secret in a file; put it into an Airflow connection and name that in kafka",
        "OVER, DISTINCT, ORDER BY and LIMIT look across rows and groups",
    ):
        assert part in refusal
    assert "s3cr3t" not in refusal


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"topic": None}, "no topic to produce to"),
        ({"topics": ["a"]}, "topics are given too"),
        ({"topic": None, "topics": ["a"]}, "several topics, and no column that says to which a row goes"),
        ({"metadata": {"topic": "t"}}, "the column's values must be listed"),
        ({"topic": "a b"}, "not a topic name"),
        (
            {"kafka": {"bootstrap.servers": "b:1", "enable.ssl.certificate.verification": False}},
            "kafka: enable.ssl.certificate.verification=false: the Java client always verifies",
        ),
        ({"state_topic": ".."}, "state_topic=..: not a topic name: Kafka refuses . and .."),
        ({"heartbeat": {"topic": "."}}, "heartbeat.topic=.: not a topic name: Kafka refuses . and .."),
        ({"key": {}}, "key.fields"),
        ({"key": {"fields": [], "format": "json"}}, "records of inserted rows have no key"),
        ({"key": {"fields": []}, "value": {"format": "debezium-json"}}, "shows changes of a key's row"),
        ({"key": {"fields": []}, "value": {"fields_include": "EXCEPT_KEY"}}, "set value.fields_include: ALL"),
        ({"key": {"fields": []}, "on_expired": "resynchronise"}, "leave on_expired out"),
        ({"key": {"fields": []}, "sql": "SELECT count(*) AS n FROM {table}"}, "groups and joined rows change"),
        (
            {"key": {"fields": []}, "sql": "SELECT t.id FROM {table} t JOIN {lake.shop.b} b ON b.id = t.id"},
            "groups and joined rows change",
        ),
        ({"on_delete": "ignore"}, "on_delete=ignore: a row that is gone deletes its key"),
        ({"value": {"csv": {}}}, "options of another format than json"),
        ({"value": {"format": "debezium-json", "csv": {}}}, "options of another format than debezium-json"),
        ({"key": {"fields": ["id"], "format": "debezium-json"}}, "key.format=debezium-json: not a known word"),
        ({"value": {"format": "canal-json"}}, "value.format=canal-json: not a known word"),
        ({"value": {"format": "csv", "csv": {"delimiter": '"'}}}, "value.csv.quote: the same as delimiter"),
        ({"value": {"format": "csv", "csv": {"quote": "\U0001f600"}}}, "of which Java makes two; choose another"),
        ({"value": {"format": "csv", "csv": {"delimiter": "\n"}}}, "a line break, or a character beyond"),
        ({"start": {"snapshot": "x"}}, "must be a whole number"),
        ({"start": "latest"}, "start"),
        ({"interval": 0}, "at least 1s"),
        ({"spark": {"conf": {"x": "y"}}}, "not a Spark setting"),
        ({"spark": {"conf": {"spark.wap.branch": "y"}}}, "write outside of the branch"),
        ({"topic": None, "topics": ["a", "b", "a"], "metadata": {"topic": "t"}}, "topics[2]=a: listed twice"),
        ({"state_topic": "orders.out"}, "its progress needs a topic of its own"),
        ({"topic": "tidegate-publication-out"}, "its progress needs a topic of its own"),
        ({"heartbeat": {"produce": True, "topic": "orders.out"}}, "heartbeats need another one"),
        ({"heartbeat": {"produce": True, "topic": "s"}, "state_topic": "s"}, "heartbeats need another one"),
        ({"table": "lake.shop.{type}"}, "one table is published"),
        ({"create": {"partitions": 0}}, "create.partitions=0: out of range; must be at least 1, or -1"),
        ({"create": {"partitions": 2**31}}, "create.partitions=2147483648: out of range; must be at most 2147483647"),
        ({"value": {"format": "avro", "avro": {"registry": "http://u:geheim@h"}}}, "value.avro.registry=***: a secret"),
        ({"key": {"fields": ["id"], "protobuf": {"registry": "http://u:g@h"}}}, "key.protobuf.registry=***: a secret"),
        ({"parallelism": 257}, "parallelism=257: out of range; must be at most 256"),
        ({"create": {"replication_factor": 0}}, "create.replication_factor=0: out of range"),
        ({"table": "lak.shop.orders"}, "is not in catalogs.yaml; did you mean lake?"),
    ],
)
def test_what_cannot_be_is_refused(include: Path, words: dict, message: str) -> None:
    assert message in read_refusal(include, **words)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM orders", "must occur in it once"),
        (f"SELECT id FROM {{table}} WHERE {'(' * 90}true{')' * 90}", "nest too deeply to be read"),
        ("SELECT {table}.id FROM {table}", "must occur in it once"),
        (
            "SELECT * FROM {table} t JOIN lake.shop.customers c ON t.id = c.id",
            "may read {table} and, each once, tables in braces",
        ),
        ("SELECT * FROM {table} WHERE id IN (SELECT id FROM x)", "may read {table} and, each once, tables in braces"),
        (
            "SELECT t.id FROM {table} t JOIN {lake.shop.customers} c ON true JOIN {lake.shop.customers} d ON true",
            "each once",
        ),
        ("SELECT t.id FROM {lake.shop.customers} c JOIN {table} t ON t.id = c.id", "must follow FROM"),
        (
            "SELECT t.id FROM {table} t RIGHT JOIN {lake.shop.customers} c ON t.id = c.id",
            "rows that no row of {table} gives",
        ),
        (
            "SELECT t.id FROM {table} t FULL JOIN {lake.shop.customers} c ON t.id = c.id",
            "rows that no row of {table} gives",
        ),
        ("SELECT t.id FROM {table} t NATURAL JOIN {lake.shop.customers} c", "rows that no row of {table} gives"),
        (
            "SELECT id FROM {table} WHERE EXISTS (SELECT 1 FROM {lake.shop.customers})",
            "subqueries are not supported",
        ),
        ("SELECT id, row_number() OVER (ORDER BY id) AS n FROM {table}", "look across rows and groups"),
        ("SELECT DISTINCT id FROM {table}", "look across rows and groups"),
        ("SELECT id FROM {table} LIMIT 3", "look across rows and groups"),
        ("SELECT id, now() AS at FROM {table}", "answers differently each time"),
        ("SELECT id, current_timestamp AS at FROM {table}", "answers differently each time"),
        ("SELECT id FROM {table} WHERE rand() < 0.5", "answers differently each time"),
        ("SELECT id, `rand`() AS x FROM {table}", "rand() answers differently each time"),
        ("SELECT id, localtimestamp AS at FROM {table}", "answers differently each time"),
        ("SELECT id, input_file_name() AS f FROM {table}", "input_file_name() is not known to give the same answer"),
        ("SELECT id, reflect('java.util.UUID', 'randomUUID') AS x FROM {table}", "reflect() is not known"),
        ("SELECT id, mine(name) AS x FROM {table}", "mine() is not known to give the same answer"),
        ("SELECT id, our.upper(name) AS x FROM {table}", "upper() is a function of your own"),
        ("SELECT id FROM {table} TABLESAMPLE (5 PERCENT)", "TABLESAMPLE (5 PERCENT): this clause is not known"),
        ("SELECT id FROM {table} CLUSTER BY id", "CLUSTER BY id: this clause is not known"),
        ("SELECT id FROM {table} VERSION AS OF 3", "VERSION AS OF 3: this clause is not known"),
        ("SELECT TRANSFORM(id) USING 'cat' AS id FROM {table}", "this clause is not known"),
        ("SELECT id FROM {table}; SELECT 1", "2 statements found"),
        ("DELETE FROM {table}", "not one SELECT"),
        ("SELECT ((id FROM {table}", "not SQL that Spark reads"),
    ],
)
def test_sql_must_be_a_function_of_the_rows_of_the_tables_that_it_names(sql: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_publication_sql(sql, ("id",))


def test_projection_and_filter_are_taken() -> None:
    row = "SELECT id, upper(name) AS name, a.b.c, transform(xs, x -> x + 1) AS xs FROM {table} t WHERE t.id > 3"
    assert parse_publication_sql(row, ("id",)) is None
    assert parse_publication_sql("SELECT id, explode(tags) AS tag FROM {table}", ("id",)) is None
    assert parse_publication_sql(ALL_SQL, ("id",)) is None


ALL_SQL = """SELECT id, * EXCEPT (a), extract(year FROM at) AS y, substring(a FROM 2) AS b, trim(BOTH 'x' FROM a) AS c,
    CAST(a AS DECIMAL(10, 2)) AS d, try_cast(a AS STRUCT<x: INT, y: ARRAY<STRING>>) AS e, a::INT AS f, xs[1] AS g,
    m['k'] AS h, filter(xs, x -> x > 1) AS i, aggregate(xs, 0, (sum, x) -> sum + x) AS j, struct(a AS b) AS k,
    DATE '2020-01-01' AS l, at + INTERVAL 1 DAY AS m, if(a, b, c) AS n, a || b AS o, a DIV b AS p, -(a) AS q,
    CASE WHEN (a) THEN (b) ELSE (c) END AS r, position('a' IN b) AS s, overlay(a PLACING 'b' FROM 1 FOR 2) AS t,
    make_date(1, 2, 3) AS u, user, `odd name`, t.`x y`.z, (a, b) AS v, left(a, 2) AS w, date(at) AS z
    FROM {table} AS t LEFT SEMI JOIN {lake.a.b} AS s USING (id) LATERAL VIEW OUTER explode(tags) o AS tag
    WHERE a IN (1, 2) AND b BETWEEN (1) AND (2) AND NOT exists(xs, x -> x > 1) OR (a <=> b AND c RLIKE 'x')"""


def test_two_publications_of_one_topic_are_refused_by_the_later_name(include: Path) -> None:
    load(include, "a")
    load(include, "b")
    (_, first), (_, second) = load_publications(include)
    assert isinstance(first, Publication)
    assert "publication a has topic=orders.out too" in str(second)


@pytest.mark.parametrize(("first", "second", "message"), [
    ({"topic": "t"}, {"topic": "u", "heartbeat": {"produce": True, "topic": "t"}},
     "heartbeat.topic=t: publication a has this topic; choose another"),
    ({"topic": "t", "state_topic": "s"}, {"topic": "u", "heartbeat": {"produce": True, "topic": "s"}},
     "heartbeat.topic=s: publication a has this topic; choose another"),
    ({"topic": "t", "heartbeat": {"produce": True, "topic": "u"}}, {"topic": "u"},
     "publication a sends heartbeats to topic=u; choose another"),
    ({"topic": "t", "heartbeat": {"produce": True, "topic": "h"}},
     {"topic": "u", "heartbeat": {"produce": True, "topic": "h"}}, ""),
    ({"topic": "t", "heartbeat": {"topic": "u"}}, {"topic": "u"}, ""),
])  # fmt: skip
def test_heartbeats_of_one_publication_are_no_records_of_another(
    include: Path, first: dict, second: dict, message: str
) -> None:
    load(include, "a", **first)
    load(include, "b", **second)
    load(include, "c", topic="v")
    refused = {name: str(value) for name, value in load_publications(include) if isinstance(value, ConfigurationError)}
    assert {*refused} == ({"b"} if message else set())
    assert message in refused.get("b", "")


def test_second_publication_of_a_topic_is_validated_and_run_by_no_command(
    include: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(include))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"extra": {"bootstrap.servers": "127.0.0.1:1"}}')
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    load(include, "a")
    load(include, "b")
    for command in (["validate", str(include / "publications" / "b.yaml")], ["publish", "b"]):
        assert main(command) == 1
        assert "publication a has topic=orders.out too; choose another" in capsys.readouterr().err
    place = Place(include, read_connection_from_env, PipelineFiles(include), PublicationFiles(include))
    with pytest.raises(ConfigurationError, match="publication a has topic=orders"):
        PublicationWork(place, "b").run(1)
    assert main(["validate", str(include / "publications" / "a.yaml")]) == 0


def test_digest_changes_with_what_the_records_look_like_and_with_nothing_else(include: Path) -> None:
    plain = load(include)
    assert load(include, delivery="exactly-once", interval="1m", transaction_records=5).digest == plain.digest
    assert load(include, sql="SELECT id FROM {table}").digest != plain.digest
    assert load(include, value={"fields_include": "EXCEPT_KEY"}).digest != plain.digest


def test_schema_for_editors_names_every_key() -> None:
    assert {"table", "sql", "topic", "key", "value", "delivery", "start"} <= set(
        build_json_schema(PublicationModel)["properties"]
    )


@pytest.mark.parametrize(
    ("sql", "keys", "matched_columns"),
    [
        ("SELECT word, count(*) AS n FROM {table} GROUP BY word", "SELECT word FROM {table} GROUP BY word", ("word",)),
        (
            "SELECT upper(t.word) AS word, count(DISTINCT id) AS n FROM {table} AS t WHERE id > 3 "
            "GROUP BY upper(t.word) HAVING count(*) > 1",
            "SELECT UPPER(t.word) AS word FROM {table} AS t WHERE id > 3 GROUP BY UPPER(t.word)",
            ("word",),
        ),
        ("SELECT 'all' AS word, sum(x) AS n FROM {table}", "SELECT 'all' AS word FROM {table}", ("word",)),
        ("SELECT 'all' AS word, try_sum(x) AS n FROM {table}", "SELECT 'all' AS word FROM {table}", ("word",)),
        (
            "SELECT word, upper(lang) AS l, count(*) AS n FROM {table} GROUP BY word, l",
            "SELECT word, UPPER(lang) AS l FROM {table} GROUP BY word, l",
            ("word",),
        ),
        (
            "SELECT lower(a) AS b, b || '!' AS word, bit_or(x) AS n FROM {table} GROUP BY lower(a)",
            "SELECT LOWER(a) AS b, b || '!' AS word FROM {table} GROUP BY LOWER(a)",
            ("word",),
        ),
        (
            "SELECT window.start AS word, count(*) AS n FROM {table} GROUP BY window(at, '10 minutes', '5 minutes')",
            "SELECT window.start AS word FROM {table} GROUP BY window(at, '10 minutes', '5 minutes')",
            ("word",),
        ),
        (
            "SELECT session_window.start AS word, count(*) AS n FROM {table} GROUP BY session_window(at, '5 minutes')",
            "SELECT session_window.start AS word FROM {table} GROUP BY SESSION_WINDOW(at, '5 minutes')",
            (),
        ),
    ],
)
def test_keys_of_touched_groups_come_from_the_same_statement(
    sql: str, keys: str, matched_columns: tuple[str, ...]
) -> None:
    publication_sql = parse_publication_sql(sql, ("word",))
    assert publication_sql is not None
    assert (publication_sql.keys_sql, publication_sql.matched_keys) == (keys, matched_columns)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT count(*) AS n FROM {table} GROUP BY word", "key column word must stand in SELECT"),
        ("SELECT max(word) AS word FROM {table} GROUP BY id", "key column word must stand in SELECT"),
        ("SELECT word, collect_list(id) AS ids FROM {table} GROUP BY word", "depends on the order of rows"),
        ("SELECT word, first(id) AS id FROM {table} GROUP BY word", "depends on the order of rows"),
        ("SELECT word, max_by(id, at) AS id FROM {table} GROUP BY word", "depends on the order of rows"),
        ("SELECT word, mode(id) AS id FROM {table} GROUP BY word", "depends on the order of rows"),
        ("SELECT try_sum(id) AS word FROM {table}", "key column word must stand in SELECT"),
        ("SELECT word, ours(id) AS id FROM {table} GROUP BY word", "is not known to give the same answer"),
        ("SELECT word, count(*) AS n FROM {table} GROUP BY 1", "not their numbers"),
        ("SELECT word, count(*) AS n FROM {table} GROUP BY ALL", "a list of expressions"),
        ("SELECT word, count(*) AS n FROM {table} GROUP BY ROLLUP (word)", "a list of expressions"),
        ("SELECT word, count(*) AS n, now() AS at FROM {table} GROUP BY word", "answers differently each time"),
    ],
)
def test_aggregate_whose_groups_cannot_be_told_is_refused(sql: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_publication_sql(sql, ("word",))


def test_table_of_bigquery_is_refused_with_the_way_round(include: Path) -> None:
    warehouse = {"type": "bigquery", "project": "p", "location": "EU", "staging": "gs://b/x"}
    (include / "catalogs.yaml").write_text(yaml.safe_dump({"lake": LAKE, "dwh": warehouse}))
    refusal = read_refusal(include, table="dwh.shop.orders")
    assert "a BigQuery table cannot be published; let the pipeline write an Iceberg table beside it" in refusal
    assert load(include, table="lake.shop.orders").catalog == "lake"


def test_protobuf_is_made_of_the_columns_and_takes_no_descriptor(include: Path) -> None:
    publication = load(
        include, value={"format": "protobuf", "protobuf": {"registry": "http://r:1", "message": "Order"}}
    )
    assert (publication.value.options["registry"], publication.value.options["message"]) == ("http://r:1", "Order")
    refusal = read_refusal(include, value={"format": "protobuf", "protobuf": {"descriptor": "x.desc"}})
    assert "a publication makes its message from the columns" in refusal
    assert "options of another format than json" in read_refusal(include, value={"protobuf": {}})


def test_joined_tables_are_named_in_braces_and_lie_in_the_tables_catalog(include: Path) -> None:
    join = "SELECT t.id, c.name FROM {table} t LEFT JOIN {%s} c ON c.id = t.customer"
    assert load(include, sql=join % "lake.shop.customers").joined_tables == ("lake.shop.customers",)
    join_clause = "JOIN {lake.shop.customers} c ON c.id = t.who"
    count = f"SELECT c.name AS id, count(*) AS n FROM {{table}} t {join_clause} GROUP BY c.name"
    grouped_query = load(include, sql=count).grouped
    assert grouped_query is not None
    assert "{lake.shop.customers}" in grouped_query.keys_sql
    assert "{table}" in grouped_query.keys_sql
    (include / "catalogs.yaml").write_text(yaml.safe_dump({"lake": LAKE, "other": LAKE}))
    assert "lies in another catalog" in read_refusal(include, sql=join % "other.shop.customers")
    assert "is the table itself" in read_refusal(include, sql=join % "lake.shop.orders")
    assert "catalog=nowhere is not in catalogs.yaml" in read_refusal(include, sql=join % "nowhere.shop.customers")
    assert "the state of the joined tables" in read_refusal(include, sql=join % "lake.shop.c", start={"snapshot": 5})
