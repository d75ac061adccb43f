"""Whatever is wrong in a pipeline file is refused with its line, its value and the way out, and never with a secret."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest
import yaml
from examples import choose_number
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline_files import find_problems, load, render_source, render_table
from tidegate.errors import ConfigurationError
from tidegate.spec.readers import READERS, Reader


def render_keyed_source(options: str, column: str = "n INT") -> str:
    schema = f"id BIGINT, lsn BIGINT, tags MAP<STRING, INT>, {column}"
    key = "key: {fields: [id], schema: id BIGINT}"
    return render_source(f"{key}, value: {{schema: '{schema}'}}", tables=f"[{{name: lake.a.b, {options}}}]")


def render_avro_source(schema: str) -> str:
    return render_source(f"value: {{format: avro, avro: {{schema: '{schema}'}}}}")


def test_five_different_mistakes_are_all_named_with_their_lines(include: Path) -> None:
    text = """\
source:
  topics: [shop.orders]
  key: {fields: [id], schema: id BIGINT}
  value: {schema: id BIGINT amount INT}
tables:
  - name: lak.shop.orders
    upsrt: true
    history: scd3
merge:
  interval: abc
"""
    assert find_problems(include, text) == [
        "pipelines/orders.yaml:4: source.value.schema=id BIGINT amount INT: not SQL that Spark reads near 'amount'; "
        "write e.g. id BIGINT NOT NULL, name STRING",
        "pipelines/orders.yaml:6: tables[0].name=lak.shop.orders: catalog=lak is not in catalogs.yaml; "
        "did you mean lake?",
        "pipelines/orders.yaml:7: tables[0].upsrt=true: unknown key; did you mean upsert?",
        "pipelines/orders.yaml:8: tables[0].history=scd3: not a known word; did you mean scd2?",
        "pipelines/orders.yaml:10: merge.interval=abc: not a duration; write e.g. 60s, 10m or -1 to disable",
    ]


DEEP = "(" * 90 + "true" + ")" * 90
REFUSED = {
    "a time that never comes": (
        render_source() + "merge: {interval: '0 0 31 2 *'}",
        "merge.interval=0 0 31 2 *: a time that",
    ),
    "a number that counts sixties": (
        render_source() + "merge: {interval: 1:30}",
        "merge.interval: 1:30 would be read as the number 90; put it in quotes",
    ),
    "a number that counts eights": (
        render_source("start: {offsets: {shop.orders: {0: 0100}}}"),
        "source.start.offsets.shop.orders.0: 0100 would be read as the number 64",
    ),
    "a version that counts sixties": (
        render_table("create: {properties: {v: 1:30.5}}"),
        "1:30.5 would be read as the number",
    ),
    "a number of more than 64 bits": (
        render_source("start: {offsets: {shop.orders: {0: 9223372036854775808}}}"),
        "source.start.offsets.shop.orders.0: a number of more than 64 bits",
    ),
    "a partition of more than 32 bits": (
        render_source("start: {offsets: {shop.orders: {2147483648: 1}}}"),
        "out of range; must be at most 2147483647",
    ),
    "an interval that no clock reaches": (render_source() + "merge: {interval: 40000d}", "longer than 100 years"),
    "a pause that no clock reaches": (render_source() + "heartbeat: {interval: 3153600001}", "longer than 100 years"),
    "a time that is another one each time": (
        render_source() + "merge: {interval: 'R 0 * * *'}",
        "not a cron expression",
    ),
    "a partition given twice": (
        render_source("start: {offsets: {shop.orders: {'0': 1, 0: 2}}}"),
        "a partition is given twice, with and without quotes",
    ),
    "two starts": (
        render_source("start: {timestamp: 2026-01-01T00:00:00Z, offsets: {shop.orders: {0: 1}}}"),
        "no place to start at; write earliest, latest, group, {timestamp: 2026-01-01T00:00:00Z} or {offsets: ",
    ),
    "metadata of no name": (render_source("metadata: {'': offset}"), "a column has a name"),
    "days of a number": (
        render_keyed_source("create: {partition_by: ['days(lsn)']}"),
        "tables[0].create.partition_by[0]=days(lsn): lsn is BIGINT, by which Iceberg cannot partition so",
    ),
    "hours of a day": (
        render_keyed_source("create: {partition_by: ['hours(n)']}", "n DATE"),
        "n is DATE, by which Iceberg cannot",
    ),
    "buckets of a fraction": (
        render_keyed_source("create: {partition_by: ['bucket(4, n)']}", "n DOUBLE"),
        "n is DOUBLE, by which",
    ),
    "a map as a partition": (
        render_keyed_source("create: {partition_by: [tags]}"),
        "tags is MAP, by which Iceberg cannot partition",
    ),
    "a partition twice": (
        render_keyed_source("create: {partition_by: ['bucket(4, id)', 'bucket(8, ID)']}"),
        "tables[0].create.partition_by[1]=bucket(8, ID): Iceberg partitions by id in this way once",
    ),
    "a name that Iceberg keeps": (
        render_keyed_source("upsert: true", "`_Pos` INT"),
        "`_Pos` INT: Iceberg reserves _Pos in Spark; give the column another name",
    ),
    "a name for metadata that Iceberg keeps": (
        render_source("key: {fields: [id], schema: id INT}, metadata: {_file: topic}"),
        "source.metadata._file=topic: Iceberg reserves _file in Spark; give the column another name",
    ),
    "an odd name of a column that is added, and that Iceberg keeps": (
        render_keyed_source("deletes: soft, deleted_column: _file"),
        "tables[0].deleted_column=_file: Iceberg reserves _file in Spark; give the column another name",
    ),
    "a name that Iceberg keeps where merges rewrite files": (
        render_keyed_source("deletes: soft, create: {properties: {write.merge.mode: copy-on-write}}"),
        "tables[0].deleted_column: Iceberg reserves _deleted in Spark",
    ),
    "a name that Iceberg keeps where rows have ids": (
        render_keyed_source("create: {format_version: 3}", "_last_updated_sequence_number INT"),
        "Iceberg reserves _last_updated_sequence_number in Spark; give the column another name",
    ),
    "a struct of the key by a name that Iceberg keeps": (
        render_source("key: {fields: [id], schema: id INT, into: _pos}, value: {schema: n INT}"),
        "source.key.into=_pos: Iceberg reserves _pos in Spark",
    ),
    "a column of history by a name that Iceberg keeps": (
        render_keyed_source("history: scd2, history_columns: {is_current: _Pos}"),
        "tables[0].history_columns.is_current=_Pos: Iceberg reserves _Pos in Spark",
    ),
    "a column beside a struct with a field of its name": (
        render_keyed_source("upsert: true", "`Http.status` INT, http STRUCT<`Status`: INT>"),
        ": http.status would be both a column and a part of one, and no table of Iceberg's holds both; give one of the",
    ),
    "a column beside a list whose elements have its name": (
        render_keyed_source("upsert: true", "`a.element` INT, a ARRAY<INT>"),
        "a.element would be both a column and a part of one",
    ),
    "a field beside a struct with a field of its name": (
        render_keyed_source("upsert: true", "h STRUCT<a: STRUCT<b: INT>, `a.b`: INT>"),
        "h.a.b would be both a column and a part of one",
    ),
    "metadata beside a map whose values have its name": (
        render_source(
            "key: {fields: [id], schema: id INT}, metadata: {tags.value: topic}, value: {schema: 'id INT, "
            "tags MAP<STRING, INT>'}"
        ),
        "source.metadata.tags.value=topic: tags.value would be both a column and a part of one",
    ),
    "a key beside a struct with a field of its name": (
        render_source("key: {fields: [id], schema: id INT, prefix: k.}, value: {schema: 'k STRUCT<id: INT>'}"),
        "k.id would be both a column and a part of one",
    ),
    "a column without a name": (
        render_keyed_source("upsert: true", "`` INT"),
        "source.value.schema=id BIGINT, lsn BIGINT, tags MAP<STRING, INT>, `` INT: a column or field without a name",
    ),
    "a field without a name": (
        render_keyed_source("upsert: true", "s STRUCT<``: INT>"),
        "a column or field without a name; name it",
    ),
    "a key without a name": (
        render_source("key: {fields: [''], schema: id INT}, value: {schema: 'id INT'}"),
        "source.key.fields[0]='': a field without a name; name it",
    ),
    "a column of select without a name": (
        render_keyed_source("select: 'SELECT id, n AS `` FROM record'"),
        "n AS ``: a column without a name",
    ),
    "a cluster of maps": (
        render_keyed_source("create: {cluster_by: [id, S]}", "s STRUCT<m: ARRAY<MAP<STRING, INT>>>"),
        "tables[0].create.cluster_by[1]=S: holds a map, and rows cannot be sorted by it; choose another column",
    ),
    "a cluster of parts of a list": (
        render_keyed_source("create: {cluster_by: [a.element]}", "a ARRAY<INT>"),
        "tables[0].create.cluster_by[0]=a.element: element is no field of a struct; name a column, or a field of one",
    ),
    "a partition by the keys of a map": (
        render_keyed_source("create: {partition_by: [tags.key]}"),
        "tables[0].create.partition_by[0]=tags.key: key is no field of a struct",
    ),
    "a partition by a name that needs backquotes": (
        render_keyed_source("create: {partition_by: ['bucket(4, order-id)']}", "`order-id` INT"),
        "=bucket(4, order-id): Spark reads order-id in backquotes only; write `order-id` instead",
    ),
    "a partition by a name with dots": (
        render_keyed_source("create: {partition_by: [order.id]}", "`order.id` INT"),
        "=order.id: Spark reads a name with dots in backquotes only; write `order.id` instead",
    ),
    "a partition by a path in backquotes": (
        render_keyed_source("create: {partition_by: ['`s.x`']}", "s STRUCT<x: INT>"),
        "=`s.x`: s.x is not a column of the table",
    ),
    "a partition by a field of another type": (
        render_keyed_source("create: {partition_by: ['days(`s`.`x`)']}", "s STRUCT<x: INT>"),
        "=days(`s`.`x`): s.x is INT, by which Iceberg cannot partition so; day takes DATE",
    ),
    "a way to merge that there is not": (
        render_keyed_source("create: {properties: {write.merge.mode: foo}}"),
        "tables[0].create.properties.write.merge.mode=foo: not a value that Iceberg takes for it; use merge-on-read or",
    ),
    "a distribution that there is not": (
        render_keyed_source("create: {properties: {write.merge.distribution-mode: sort}}"),
        "use none or hash or range",
    ),
    "files that nobody reads": (
        render_keyed_source("create: {properties: {write.format.default: avro}}"),
        "use parquet or orc",
    ),
    "manifests that nobody reads": (
        render_keyed_source("create: {properties: {write.manifest.compression-codec: snappy}}"),
        "use gzip or zstd or uncompressed",
    ),
    "a size that is no number": (
        render_keyed_source("create: {properties: {write.target-file-size-bytes: 128MB}}"),
        "write.target-file-size-bytes=128MB: not a whole number",
    ),
    "a switch that is neither on nor off": (
        render_keyed_source("create: {properties: {write.object-storage.enabled: 'on'}}"),
        "use true or false",
    ),
    "a property that Spark keeps": (
        render_keyed_source("create: {properties: {location: /x}}"),
        "tables[0].create.properties.location=/x: kept by Spark for itself; leave it out",
    ),
    "a property that Tidegate keeps": (
        render_keyed_source("create: {properties: {tidegate.created-by: me}}"),
        "kept by Tidegate for itself",
    ),
    "a partition by a name that Spark reads in backquotes only": (
        render_keyed_source("create: {partition_by: [größe]}", "größe INT"),
        "=größe: Spark reads größe in backquotes only; write `größe` instead",
    ),
    "a function that Spark does not have": (
        render_keyed_source("when: 'startswith(n, 1) OR starts_with(n, 1)'"),
        "tables[0].when=startswith(n, 1) OR starts_with(n, 1): starts_with() is no function of Spark's; did you mean "
        "startswith",
    ),
    "a function of another engine that sqlglot knows": (
        render_keyed_source("delete_when: \"json_value(n, '$.a') = 'x'\""),
        "tables[0].delete_when=json_value(n, '$.a') = 'x': json_value() is no function of Spark's",
    ),
    "a function that somebody has registered elsewhere": (
        render_keyed_source("when: default.mine(n) = 1"),
        "mine() is a function of your own, of which nothing is known",
    ),
    "a condition that makes several rows": (
        render_keyed_source("when: explode(map_keys(tags)) = 'x'"),
        "explode() makes several rows, and a condition is true or false of one; write one condition",
    ),
    "rows by a function that sqlglot does not know": (
        render_keyed_source("delete_when: inline_outer(array(struct(n))) = 1"),
        "inline_outer() makes several rows",
    ),
    "an aggregate that sqlglot does not know": (
        render_keyed_source("when: any(n > 1)"),
        "a condition sees one record, so aggregates and windows have no",
    ),
    "a function in select that Spark does not have": (
        render_keyed_source("select: 'SELECT id, CAST(zzyzx(n) AS INT) AS n FROM record'"),
        "zzyzx() is no function of Spark's; write it with Spark's functions, which SHOW FUNCTIONS lists",
    ),
    "several rows of a select": (
        render_keyed_source("select: 'SELECT id, CAST(explode_outer(map_keys(tags)) AS STRING) AS n FROM record'"),
        "a function that makes several rows; each record becomes one row",
    ),
    "a window of a select without OVER": (
        render_keyed_source("select: 'SELECT id, CAST(row_number() AS INT) AS n FROM record'"),
        "an aggregate or window over several records; select sees one record at a time",
    ),
    "a function in an audit that Spark does not have": (
        render_keyed_source("audits: [n > 0, isvalid(n)]"),
        "tables[0].audits[1]=isvalid(n): isvalid() is no function",
    ),
    "a function in an audit's query that Spark does not have": (
        render_keyed_source("audits: ['SELECT count(*) > 0 FROM {table} WHERE regexp_contains(n, ''x'')']"),
        "regexp_contains() is no function of Spark's; did you mean regexp_count",
    ),
    "rows inside of an expression of an audit": (
        render_keyed_source(
            "audits: ['SELECT bool_and(x) FROM (SELECT explode(map_keys(tags)) > 0 AS x FROM {table})']"
        ),
        "explode() makes several rows, and stands inside of an expression; make its rows in a subquery",
    ),
    "a condition that is a number": (
        render_keyed_source("delete_when: s.x", "s STRUCT<x: INT>"),
        "tables[0].delete_when=s.x: INT, and a condition is true or false; compare it",
    ),
    "a field of a condition that is not there": (
        render_keyed_source("when: s.y = 1 AND s.x = 1", "s STRUCT<x: INT>"),
        "when=s.y = 1 AND s.x = 1: s.y: y is no field",
    ),
    "a field of a select that is not there": (
        render_keyed_source("select: 'SELECT id, s.x, s.y FROM record'", "s STRUCT<x: INT>"),
        "s.y: y is no field of a struct; name a column, or a field of one that is a STRUCT",
    ),
    "a part of a map that is not cast": (
        render_keyed_source("select: 'SELECT id, tags.k FROM record'"),
        "tags.k is part of a list or map; write CAST(... AS TYPE) AS name",
    ),
    "a field of a list's elements that is not cast": (
        render_keyed_source("select: 'SELECT id, a.x.y FROM record'", "a ARRAY<STRUCT<x: STRUCT<y: INT>>>"),
        "a.x.y is part of a list or map; write CAST(... AS TYPE) AS name",
    ),
    "a map cast to one of other keys": (
        render_keyed_source("select: 'SELECT id, CAST(tags AS MAP<INT, INT>) AS tags FROM record'"),
        "tags is MAP<STRING, INT>, which Spark casts to no MAP<INT, INT>; cast it to another type, or its parts",
    ),
    "a struct cast to one of fewer fields": (
        render_keyed_source(
            "select: 'SELECT id, TRY_CAST(r.s AS STRUCT<x: INT>) AS s FROM record r'", "s STRUCT<x: INT, y: INT>"
        ),
        "s is STRUCT<`x`: INT, `y`: INT>, which Spark casts to no STRUCT<`x`: INT>",
    ),
    "a date cast to a number": (
        render_keyed_source("select: 'SELECT id, CAST(s.d AS INT) AS d FROM record'", "s STRUCT<d: DATE>"),
        "s.d is DATE, which Spark casts to no INT",
    ),
    "days and hours": (
        render_keyed_source("create: {partition_by: ['days(n)', 'hours(n)']}", "n TIMESTAMP"),
        "Iceberg partitions by n in this way once",
    ),
    "buckets without end": (
        render_keyed_source("create: {partition_by: ['bucket(2147483648, id)']}"),
        "out of range; must be at most 2147483647",
    ),
    "a condition that nests": (render_table(f"when: '{DEEP}'"), "nest too deeply to be read; write it flatter"),
    "a select that nests": (render_table(f"select: 'SELECT {DEEP} AS a FROM record'"), "nest too deeply"),
    "an audit that nests": (render_table(f"audits: ['{DEEP}']"), "nest too deeply"),
    "columns that nest": (render_source(f"value: {{schema: 'a {'ARRAY<' * 400}INT{'>' * 400}'}}"), "nest too deeply"),
    "values that nest": (
        render_source() + f"description: {'[' * 900}{']' * 900}",
        ":3: not YAML: values nest too deeply",
    ),
    "brackets without end": (render_source() + "description: " + "[" * 9000 + "]" * 9000, "nest too deeply"),
    "a tag of another value": (
        render_source() + "description: !!timestamp soon",
        "not a value that YAML knows (timestamp)",
    ),
    "a tag of no switch": (render_source() + "on_rollback: !!bool often", "not a value that YAML knows (bool)"),
    "a tag of an empty number": (
        render_source() + "merge: {max_records: !!int ''}",
        "not a value that YAML knows (int)",
    ),
    "an Avro schema that is a number": (render_avro_source("1e3"), "source.value.avro.schema=1e3: not an Avro schema"),
    "an Avro schema of nothing": (render_avro_source("[]"), "a union of nothing"),
    "an Avro field whose type is a number": (
        render_avro_source('{"type":"record","name":"a","fields":[{"name":"id","type":7}]}'),
        "has 7 where a type stands",
    ),
    "an Avro field that is null alone": (
        render_avro_source('{"type":"record","name":"a","fields":[{"name":"id","type":["null"]}]}'),
        "a union of nothing, or of null alone",
    ),
    "an Avro schema that nests": (render_avro_source("[" * 90_000 + "]" * 90_000), "nests too deeply"),
    "a word where a number belongs": (
        render_source() + "merge: {max_records: many}",
        "merge.max_records=many: must be a whole",
    ),
    "a unit of no column": (
        render_source("value: {schema: 'a TIMESTAMP', timestamp_unit: {b: millis}}"),
        "source.value.timestamp_unit.b",
    ),
    "a unit of a column without a time": (
        render_source("value: {schema: 'a DATE, b TIMESTAMP', timestamp_unit: {a: millis}}"),
        "source.value.timestamp_unit.a=millis: a is DATE, which holds no TIMESTAMP",
    ),
    "nanoseconds of a column without a time": (
        render_source("value: {schema: 'a STRUCT<b: INT>', nanoseconds: {a: truncate}}"),
        "source.value.nanoseconds.a=truncate: a is STRUCT<b: INT>, which holds no TIMESTAMP",
    ),
    "a unit that is none": (render_source("value: {timestamp_unit: hours}"), "source.value.timestamp_unit=hours"),
    "quoted yes is not a bool": (render_table("upsert: 'yes'"), "tables[0].upsert=yes: must be true or false"),
    "a number is not text": (render_source("group: 5"), "source.group=5: must be text"),
    "true is not a number": (
        render_source() + "merge: {max_records: true}",
        "merge.max_records=true: must be a whole number",
    ),
    "an empty section": (render_source() + "merge:", "merge=null: must be a mapping"),
    "no interval and no threshold": (
        render_source() + "merge: {interval: -1}",
        "merge.interval=-1: nothing would ever flush",
    ),
    "heartbeats into what is read": (
        render_source() + "heartbeat: {produce: true, topic: t}",
        "heartbeat.topic=t: the pipeline reads this topic",
    ),
    "heartbeats into what is read, of brokers that are named twice": (
        render_source() + "heartbeat: {produce: true, topic: t, kafka: kafka_default}",
        "heartbeat.topic=t: the pipeline reads this topic",
    ),
    "a secret in the heartbeats' brokers": (
        render_source() + "heartbeat: {kafka: {bootstrap.servers: 'b:1', sasl.password: x}}",
        "heartbeat.kafka.sasl.password=***: a secret in a file",
    ),
    "the heartbeats' brokers without an address": (
        render_source() + "heartbeat: {kafka: {client.id: x}}",
        "heartbeat.kafka: bootstrap.servers is missing",
    ),
    "dead letters into what is read": (
        render_source("errors: {tolerance: all, topic: t}"),
        "source.errors.topic=t: this pipeline reads that topic",
    ),
    "a topic for dead letters that there are none of": (
        render_source("errors: {topic: broken}"),
        "source.errors.topic=broken: with errors.tolerance: none no record is set aside",
    ),
    "a message of a descriptor set that is not named": (
        render_source("value: {format: protobuf, protobuf: {descriptor: a.desc}}"),
        "source.value.protobuf.message: missing; name the message",
    ),
    "a descriptor set beside a registry": (
        render_source("value: {format: protobuf, protobuf: {descriptor: a.desc, message: A, subject: s}}"),
        "source.value.protobuf.descriptor=a.desc: a registry is given too",
    ),
    "a subject of no registry": (
        render_source("value: {json: {subject: s}, schema: id INT}"),
        "source.value.json.subject=s: a subject of no registry",
    ),
    "options of another format": (
        render_source("value: {protobuf: {message: A}, schema: id INT}"),
        "source.value.protobuf: options of another format than json",
    ),
    "a hook that is no entry point": (
        render_source() + "heartbeat: {hook: os.system}",
        "heartbeat.hook=os.system: not the place of a function; write module:function",
    ),
    "a secret in a notifier": (
        render_source() + "on_failure: [{notifier: a.b.Notifier, kwargs: {password: geheim}}]",
        "on_failure[0].kwargs.password=***: a secret in a file",
    ),
    "a notifier that is no import path": (
        render_source() + "on_failure: [{notifier: slack}]",
        "on_failure[0].notifier=slack",
    ),
    "freshness of no time": (render_source() + "freshness_target: 0s", "freshness_target=0s: out of range"),
    "complete minutes": (render_source() + "complete: minute", "complete=minute: not a known word"),
    "threshold zero": (render_source() + "merge: {records_threshold: 0}", "merge.records_threshold=0: out of range"),
    "cron of six fields": (
        render_source() + "merge: {interval: '0 * * * * *'}",
        "merge.interval=0 * * * * *: not a cron",
    ),
    "cron of two such days": (render_source() + "merge: {interval: '0 0 30,31 2 *'}", "a time that never comes"),
    "cron out of range": (render_source() + "merge: {interval: '61 * * * *'}", "merge.interval=61 * * * *: not a cron"),
    "writes that land outside of the branch": (
        render_source() + "spark: {conf: {spark.wap.id: x}}",
        "spark.conf.spark.wap.id=x: makes Spark write outside of the branch that is published",
    ),
    "interval zero": (render_source() + "merge: {interval: 0}", "merge.interval=0: out of range"),
    "topics and pattern": (render_source("topic_pattern: 'x.*'"), "source.topic_pattern=x.*: topics are given too"),
    "neither topics nor pattern": ("source: {}\ntables: [{name: lake.a.b}]", "source.topics: no topic to read"),
    "pattern that does not compile": (
        render_source("topic_pattern: '('"),
        "source.topic_pattern=(: not a regular expression",
    ),
    "upsert without a key": (render_table("upsert: true"), "tables[0].upsert=true: needs a key"),
    "delete without a key": (render_table("delete: true"), "tables[0].delete=true: needs a key"),
    "table name without namespace": (
        render_source(tables="[{name: lake.orders}]"),
        "write <catalog>.<namespace>.<table>",
    ),
    "unknown catalog": (
        render_source(tables="[{name: lke.a.b}]"),
        "catalog=lke is not in catalogs.yaml; did you mean lake?",
    ),
    "bigquery without staging": (
        render_source(tables="[{name: dwh.a.b}]"),
        "catalog=dwh has no staging in catalogs.yaml",
    ),
    "two tables of one name": (
        render_source(tables="[{name: lake.a.b}, {name: lake.a.B}]"),
        "tables[1].name=lake.a.B: the same",
    ),
    "table that is the namespace of another one": (
        render_source(tables="[{name: lake.a.B}, {name: lake.a.b.c}]"),
        "tables[0].name=lake.a.B: also the namespace of lake.a.b.c, whose files would lie among its own",
    ),
    "level of a namespace without a name": (
        render_source(tables="[{name: lake.a..c}]"),
        "tables[0].name=lake.a..c: not a table's full name",
    ),
    "destination is the intermediate table": (
        render_source(tables="[{name: lake.a.b}, {name: lake.a.b_orders_tmp}]"),
        "tables[1].name=lake.a.b_orders_tmp: Tidegate makes a table of this name",
    ),
    "key field outside the key schema": (
        render_source("key: {fields: [idd], schema: id BIGINT}"),
        "source.key.fields[0]=idd: not a column of key.schema (id)",
    ),
    "key field with a type in no schema": (
        render_source("key: {format: json, fields: [sku]}, value: {schema: 'id BIGINT, name STRING'}"),
        "source.key.fields[0]=sku: has no type: it is not in value.schema, and there is no key.schema",
    ),
    "field of a table's own key with a type in no schema": (
        "source: {topics: [a], key: {fields: [id]}, value: {schema: 'id BIGINT'}}\n"
        "tables: [{name: lake.a.b, key: {fields: [id, line]}}]",
        "tables[0].key.fields[1]=line: has no type",
    ),
    "string key with two fields": (
        render_source("key: {format: string, fields: [a, b]}"),
        "source.key.fields=[a, b]: a key of",
    ),
    "raw value with two columns": (
        render_source("value: {format: raw, schema: 'a BINARY, b BINARY'}"),
        "source.value.schema=a BINARY, b BINARY: a value of format raw is one value",
    ),
    "raw value that is no number": (
        render_source("value: {format: raw, schema: a DATE}"),
        "source.value.schema=a DATE: a value of format raw is bytes or a number; declare a as one of BINARY, BOOLEAN",
    ),
    "lenient numbers of a column that is none": (
        render_source(
            "value: {format: json, schema: 'a INT, b STRING', json: {numbers: {a: lenient, b: lenient, c: strict}}}"
        ),
        "source.value.json.numbers.b=lenient: no column of the schema that holds a number",
    ),
    "numbers read in a way that there is not": (
        render_source("value: {format: json, schema: a INT, json: {numbers: loose}}"),
        "source.value.json.numbers=loose",
    ),
    "keys of a map that JSON has not": (
        render_source("value: {format: json, schema: 'a INT, m MAP<INT, STRING>'}"),
        "m is MAP<INT, STRING>, and names in JSON are texts; declare a MAP with STRING keys",
    ),
    "keys of a map inside of a struct in an event": (
        render_source("value: {format: debezium-json, schema: 's STRUCT<l: ARRAY<MAP<DATE, INT>>>'}"),
        "s is STRUCT<l: ARRAY<MAP<DATE, INT>>>, and names in JSON are texts; declare a MAP with STRING keys",
    ),
    "bytes of a column that has none": (
        render_source(
            "value: {format: debezium-json, schema: 'a ARRAY<BINARY>, b INT', json: {binary: {a: hex, b: hex}}}"
        ),
        "source.value.json.binary.b=hex: no column of the schema that holds bytes; name one",
    ),
    "bytes of csv in a column that is none": (
        render_source("value: {format: csv, schema: a BINARY, csv: {binary: {c: hex}}}"),
        "source.value.csv.binary.c=hex: no column of the schema that holds bytes; name one",
    ),
    "bytes in a way that there is not": (
        render_source("value: {format: json, schema: a BINARY, json: {binary: octal}}"),
        "source.value.json.binary=octal",
    ),
    "bytes of extended JSON": (
        render_source("value: {format: json, schema: a BINARY, json: {binary: hex, extended: true}}"),
        "source.value.json.binary=hex: extended JSON says itself that its bytes are base64; leave it out",
    ),
    "bytes of canal": (
        render_source("value: {format: canal-json, schema: a BINARY, json: {binary: hex}}"),
        "source.value.json: options of another format than canal-json",
    ),
    "nanoseconds of a column that is none": (
        render_source("value: {schema: a TIMESTAMP, nanoseconds: {a: truncate, b: truncate}}"),
        "source.value.nanoseconds.b=truncate: no column of value.schema; name one that holds a time",
    ),
    "nanoseconds of a key": (
        render_source(
            "key: {fields: [at], schema: at TIMESTAMP}, "
            "value: {schema: 'at TIMESTAMP, b TIMESTAMP', nanoseconds: {AT: truncate, b: truncate}}"
        ),
        "source.value.nanoseconds.AT=truncate: a field of the key, where two keys would become one; leave it out",
    ),
    "nanoseconds in a way that there is not": (
        render_source("value: {schema: a TIMESTAMP, nanoseconds: round}"),
        "source.value.nanoseconds=round",
    ),
    "options of json in another format of JSON": (
        render_source("value: {format: debezium-json, schema: a INT, json: {numbers: lenient, envelope: true}}"),
        "source.value.json: options of another format than debezium-json",
    ),
    "record types of a topic's subject": (
        render_source("value: {format: avro, avro: {records: [shop.Order]}}"),
        "source.value.avro.records=[shop.Order]: record types are subjects only with RecordNameStrategy",
    ),
    "record strategy without record types": (
        render_source("value: {format: avro, avro: {subject_name_strategy: RecordNameStrategy}}"),
        "source.value.avro.records: missing; name the record types that are read",
    ),
    "record strategy beside a subject": (
        render_source(
            "value: {format: avro, avro: {subject_name_strategy: RecordNameStrategy, records: [a.B], subject: x}}"
        ),
        "source.value.avro.subject=x: the subjects are those of records",
    ),
    "record type that is read and ignored": (
        render_source(
            "value: {format: avro, avro: {records: [a.B], ignored_records: [a.B], "
            "subject_name_strategy: RecordNameStrategy}}"
        ),
        "source.value.avro.ignored_records=[a.B]: a.B is read too",
    ),
    "several record types in a format that reads one": (
        render_source(
            "value: {format: protobuf, protobuf: {subject_name_strategy: RecordNameStrategy, records: [a.B, a.C]}}"
        ),
        "source.value.protobuf.records=[a.B, a.C]: format protobuf reads one record type",
    ),
    "wire format of a schema without a registry": (
        render_source("value: {format: avro, avro: {schema: 'long', wire_format: apicurio}}"),
        "source.value.avro.wire_format=apicurio: of records whose schema comes from no registry",
    ),
    "wire format of JSON without a registry": (
        render_source("value: {format: json, schema: a INT, json: {wire_format: confluent-header}}"),
        "source.value.json.wire_format=confluent-header: of records whose schema comes from no registry",
    ),
    "Apicurio's Protobuf": (
        render_source("value: {format: protobuf, protobuf: {wire_format: apicurio}}"),
        "source.value.protobuf.wire_format=apicurio: Apicurio's Protobuf has a form of its own",
    ),
    "wire format that there is not": (
        render_source("value: {format: avro, avro: {wire_format: karapace}}"),
        "source.value.avro.wire_format=karapace",
    ),
    "byte order of a format without one": (
        render_source("value: {format: string, raw: {endianness: little}}"),
        "source.value.raw: options of another format than string",
    ),
    "byte order that is none": (
        render_source("value: {format: raw, raw: {endianness: middle}, schema: a INT}"),
        "source.value.raw.endianness=middle",
    ),
    "csv without columns": (
        render_source("value: {format: csv}"),
        "source.value.format=csv: columns of csv are known by",
    ),
    "csv with a column of parts": (
        render_source("value: {format: csv, schema: 'a ARRAY<INT>'}"),
        "a is ARRAY<INT>, and format csv has no parts inside a column; use STRING",
    ),
    "delimiter of two characters": (
        render_source("value: {format: csv, schema: a INT, csv: {delimiter: '::'}}"),
        "source.value.csv.delimiter=::: String should have at most 1 character",
    ),
    "options of a format that is not used": (
        render_source("value: {csv: {delimiter: ';'}}"),
        "source.value.csv: options of another format than json; leave them out",
    ),
    "nothing to except": (render_source("value: {fields_include: EXCEPT_KEY}"), "there is no key to leave out"),
    "nothing beside the key": (
        render_source("key: {fields: [id], schema: id INT}, value: {schema: id INT, fields_include: EXCEPT_KEY}"),
        "source.value.fields_include=EXCEPT_KEY: leaves no column of the value, and a staged row needs one; name",
    ),
    "one column with two types": (
        render_source("key: {fields: [id], schema: id INT}, value: {schema: id BIGINT}"),
        "source.key.schema=id INT: id is INT here and BIGINT in value.schema",
    ),
    "prefixed key collides": (
        render_source("key: {fields: [id], prefix: k_}, value: {schema: k_id BIGINT}"),
        "source.key.prefix=k_: k_id is a column of the value too",
    ),
    "key into a column of the value": (
        render_source("key: {fields: [id], into: k}, value: {schema: k INT}"),
        "source.key.into=k: k is a column of the value too",
    ),
    "key into a metadata column": (
        render_source("key: {fields: [id], into: k}, value: {schema: a INT}, metadata: {K: topic}"),
        "source.metadata.K=topic: lake.shop.orders has a column of this name",
    ),
    "key into one column with a prefix": (
        render_source("key: {fields: [id], into: k, prefix: p_}"),
        "source.key.into=k: key.prefix has no meaning",
    ),
    "no key to put into a column": (render_source("key: {into: k}"), "source.key.into=k: nothing to put into it"),
    "key from the value without fields": (
        render_source("key: {from: value}"),
        "source.key.from=value: no field to take",
    ),
    "format of a key that is not read": (
        render_source("key: {from: value, fields: [id], format: avro}, value: {schema: id INT}"),
        "source.key.format=avro: the record's key is not read with key.from: value; leave it out",
    ),
    "key from a value without fields": (
        render_source("key: {from: value, fields: [id], schema: id STRING}, value: {format: string}"),
        "source.key.from=value: a value of format string has no fields",
    ),
    "key from a value that lacks it": (
        render_source("key: {from: value, fields: [id]}, value: {schema: id INT, fields_include: EXCEPT_KEY}"),
        "source.key.from=value: value.fields_include: EXCEPT_KEY says that the value lacks the key",
    ),
    "key from a line without its column": (
        render_source("key: {from: value, fields: [id], schema: id INT}, value: {format: csv, schema: a INT}"),
        "source.key.fields[0]=id: not a column of value.schema, where key.from looks for it",
    ),
    "key from the record of several rows": (
        render_source("key: {from: record, fields: [id]}, value: {format: canal-json, schema: id INT}"),
        "source.key.from=record: messages of format canal-json hold rows, and the key is taken from each",
    ),
    "key from elsewhere": (render_source("key: {from: header, fields: [id]}"), "source.key.from=header"),
    "integrity of a key from the value": (
        render_source("verify_integrity: true, key: {from: value, fields: [id]}, value: {schema: id INT}"),
        "source.verify_integrity=true: key.from: value takes the key from the value, so nothing can differ",
    ),
    "integrity without a key": (
        render_source("verify_integrity: true"),
        "source.verify_integrity=true: there is no key",
    ),
    "integrity of what the value lacks": (
        render_source("verify_integrity: true, key: {fields: [id]}, value: {fields_include: EXCEPT_KEY}"),
        "source.value.fields_include=EXCEPT_KEY: EXCEPT_KEY says that the value lacks",
    ),
    "integrity without a field in common": (
        render_source("verify_integrity: true, key: {fields: [id], schema: id INT}, value: {schema: a INT}"),
        "source.verify_integrity=true: no field of the key is in value.schema",
    ),
    "integrity of two types": (
        render_source(
            "verify_integrity: true, key: {fields: [id], into: k, schema: id INT}, value: {schema: ID BIGINT}"
        ),
        "source.key.schema=id INT: verify_integrity cannot compare id: INT here, BIGINT in value.schema",
    ),
    "when_false without a condition": (
        render_keyed_source("when_false: delete"),
        "tables[0].when_false=delete: says what a record does for which when does not hold, and there is no when",
    ),
    "when_false without deletes": (
        render_keyed_source("when_false: delete, when: n > 0, delete: false"),
        "tables[0].when_false=delete: deletes rows by their key; give key.fields and delete: true",
    ),
    "another when_false": (
        render_keyed_source("when_false: keep, when: n > 0"),
        "tables[0].when_false=keep: not a known word",
    ),
    "a condition with a subquery": (
        render_keyed_source("when: 'n IN (SELECT n FROM lake.a.c)'"),
        "tables[0].when=n IN (SELECT n FROM lake.a.c): not a condition on the record; write one condition",
    ),
    "a condition that asks whether there are rows": (
        render_keyed_source("delete_when: 'EXISTS (SELECT 1 FROM lake.a.c)'"),
        "tables[0].delete_when=EXISTS (SELECT 1 FROM lake.a.c): not a condition on the record; write one condition",
    ),
    "a group of no column": (
        render_keyed_source("partial_updates: {sequence_groups: {lsn: [m]}}"),
        "tables[0].partial_updates.sequence_groups.lsn[0]=m: not a column of the table; allowed: lsn, n, tags",
    ),
    "a sequence of a group that is no column": (
        render_keyed_source("partial_updates: {sequence_groups: {lns: [n]}}"),
        "tables[0].partial_updates.sequence_groups.lns=[n]: not a column of the table; did you mean lsn?",
    ),
    "a key column in a group": (
        render_keyed_source("partial_updates: {sequence_groups: {lsn: [n, ID]}}"),
        "tables[0].partial_updates.sequence_groups.lsn[1]=ID: a key column",
    ),
    "a column of two groups": (
        render_keyed_source("partial_updates: {sequence_groups: {lsn: [n], m: [N]}}", "n INT, m INT"),
        "tables[0].partial_updates.sequence_groups.m[0]=N: listed twice in the groups; a column follows one sequence",
    ),
    "a group's sequence in another group": (
        render_keyed_source("partial_updates: {sequence_groups: {lsn: [n], n: [m]}}", "n INT, m INT"),
        "tables[0].partial_updates.sequence_groups.lsn[0]=n: the sequence of a group, which is written with it",
    ),
    "a group without columns": (
        render_keyed_source("partial_updates: {sequence_groups: {lsn: []}}"),
        "tables[0].partial_updates.sequence_groups.lsn=[]: no column follows it; write e.g. {version: [name, city]}",
    ),
    "groups without any": (
        render_keyed_source("partial_updates: {sequence_groups: {}}"),
        "tables[0].partial_updates.sequence_groups: no group; write e.g. {version: [name, city]}",
    ),
    "a group without an order": (
        render_keyed_source("partial_updates: {sequence_groups: {x: [n]}}", "n INT, x DOUBLE"),
        "tables[0].partial_updates.sequence_groups.x=[n]: DOUBLE has no order to go by; choose a whole number",
    ),
    "groups out of order": (
        render_keyed_source("sequence_by: [lsn], partial_updates: {sequence_groups: {lsn: [n]}}"),
        "sequence_by knows one order for a whole row",
    ),
    "a word for partial updates": (
        render_keyed_source("partial_updates: some"),
        "tables[0].partial_updates=some: must be true or",
    ),
    "partial updates without upsert": (
        render_source("key: {fields: [id]}", tables="[{name: lake.a.b, upsert: false, partial_updates: true}]"),
        "tables[0].partial_updates=true: changes rows that are there; set upsert: true",
    ),
    "partial updates out of order": (
        render_source(
            "key: {fields: [id]}, value: {schema: 'id INT, v INT'}",
            tables="[{name: lake.a.b, sequence_by: [v], partial_updates: true}]",
        ),
        "tables[0].partial_updates=true: sequence_by knows one order for a whole row",
    ),
    "update of no column": (
        render_keyed_source("update_columns: []"),
        "tables[0].update_columns=[]: no column in it; list those that an update changes, or leave it out for all",
    ),
    "update of an unknown column": (
        render_keyed_source("update_columns: [n, lns]"),
        "tables[0].update_columns[1]=lns: not a column of the table; did you mean lsn?",
    ),
    "update of a column that select leaves out": (
        render_keyed_source("update_columns: [n], select: 'SELECT id, lsn AS m FROM record'"),
        "tables[0].update_columns[0]=n: not a column of the table; allowed: m",
    ),
    "update of a key column": (
        render_keyed_source("update_columns: [ID, n]"),
        "tables[0].update_columns[0]=ID: a key column, which is the same in all records of a key; leave it out",
    ),
    "update of one column twice": (
        render_keyed_source("update_columns: [n, N]"),
        "tables[0].update_columns[1]=N: listed twice; keep one",
    ),
    "update without upsert": (
        render_keyed_source("update_columns: [n], upsert: false"),
        "tables[0].update_columns=[n]: says what an update of a row changes; set upsert: true, or leave it out",
    ),
    "update of columns in another order": (
        render_keyed_source("update_columns: [n], sequence_by: [lsn]"),
        "tables[0].update_columns=[n]: not with sequence_by, which decides otherwise what stays of a row; keep one",
    ),
    "update of columns with history": (
        render_keyed_source("update_columns: [n], history: scd2"),
        "tables[0].update_columns=[n]: not with history, which decides otherwise what stays of a row; keep one",
    ),
    "update of columns in partial updates": (
        render_keyed_source("update_columns: [n], partial_updates: true"),
        "tables[0].update_columns=[n]: not with partial_updates, which decides otherwise what stays of a row; keep one",
    ),
    "update of columns where rows are looked for by their partition": (
        render_keyed_source("update_columns: [n], create: {properties: {partition_column: immutable}}"),
        "tables[0].update_columns=[n]: not with partition_column: immutable, which looks for a row where its newest "
        "record would lie",
    ),
    "metadata column collides": (
        render_source("value: {schema: a INT}, metadata: {A: topic}"),
        "source.metadata.A=topic: lake.shop.orders has a column of this name",
    ),
    "metadata of another format": (
        render_source("metadata: {a: value.pk-names}"),
        "source.metadata.a=value.pk-names: not a metadata key of value.format=json; use one of topic",
    ),
    "metadata of a type that loses": (
        render_source("metadata: {a: {from: timestamp, type: date}}"),
        "source.metadata.a: timestamp of value.format=json may lose a part as DATE; write TIMESTAMP or BIGINT or "
        "TIMESTAMP_NTZ, and cast it in select",
    ),
    "metadata that has one type": (
        render_source("metadata: {a: {from: headers, type: 'MAP<STRING, STRING>'}}"),
        "source.metadata.a: headers of value.format=json may lose a part as MAP<STRING, STRING>; write "
        "MAP<STRING, BINARY>, and cast it in select",
    ),
    "metadata that is finer in another format": (
        render_source("value: {format: ogg-json}, metadata: {a: {from: value.ingestion-timestamp, type: BIGINT}}"),
        "value.ingestion-timestamp of value.format=ogg-json may lose a part as BIGINT; write TIMESTAMP, and",
    ),
    "metadata that is cast as text": (
        render_source("metadata: {a: timestamp AS BIGINT}"),
        "not a metadata key; write e.g. timestamp, or {from: timestamp, type: BIGINT}",
    ),
    "metadata without a type": (
        render_source("metadata: {a: {from: timestamp}}"),
        "neither a metadata key nor one with its type; write e.g. timestamp, or {from: timestamp, type: BIGINT}",
    ),
    "unknown metadata with a type": (
        render_source("metadata: {a: {from: ofset, type: INT}}"),
        "not a metadata key of value.format=json; use one of topic",
    ),
    "truncate of a format without it": (render_source("value: {truncate: ignore}"), "format json knows no truncate"),
    "columns made of a format without names": (
        render_source("value: {format: csv, unknown_fields: add, schema: n INT}"),
        "format csv has no fields that name themselves in each record; leave it out",
    ),
    "columns made of JSON whose schema is registered": (
        render_source("value: {unknown_fields: add, json: {registry: 'http://registry'}}"),
        "the registry's schema says which columns there are; leave json.registry out, or use warn",
    ),
    "types of columns that no record makes": (
        render_source("value: {infer: {objects: string}}"),
        "source.value.infer: of columns that records make; set unknown_fields: add, or leave it out",
    ),
    "columns made where none may be added": (
        render_source("value: {unknown_fields: add}", tables="[{name: lake.a.b, evolve: {add_columns: false}}]"),
        "evolve.add_columns is false; allow it, or choose warn, refuse or ignore",
    ),
    "columns made beside a select": (
        render_source("value: {unknown_fields: add}", tables="[{name: lake.a.b, select: 'SELECT * FROM record'}]"),
        "select says which columns there are",
    ),
    "columns made of tables that records name": (
        render_source("value: {unknown_fields: add, schema: k STRING}", tables="[{name: 'lake.a.{k}'}]"),
        "tables that records name get no columns of them",
    ),
    "order by a column that no record has made": (
        render_source(
            "key: {fields: [id], schema: id BIGINT}, value: {unknown_fields: add}",
            tables="[{name: lake.a.b, sequence_by: [at]}]",
        ),
        "tables[0].sequence_by=[at]: no record may have made at yet; declare it in value.schema",
    ),
    "update of a column that no record has made": (
        render_source(
            "key: {fields: [id], schema: id BIGINT}, value: {unknown_fields: add}, metadata: {seen: timestamp}",
            tables="[{name: lake.a.b, update_columns: [Seen, status]}]",
        ),
        "tables[0].update_columns=[Seen, status]: no record may have made status yet; declare it in value.schema",
    ),
    "group of a column that no record has made": (
        render_source(
            "key: {fields: [id], schema: id BIGINT}, value: {unknown_fields: add}, metadata: {version: offset}",
            tables="[{name: lake.a.b, partial_updates: {sequence_groups: {version: [name]}}}]",
        ),
        "no record may have made name yet; declare it in value.schema",
    ),
    "condition on a column that no record has made": (
        render_source("value: {unknown_fields: add}", tables="[{name: lake.a.b, when: kind = 'x'}]"),
        "kind is not a column of the record",
    ),
    "partition by a column that no record has made": (
        render_source("value: {unknown_fields: add}", tables="[{name: lake.a.b, create: {partition_by: [b]}}]"),
        "partition_by[0]=b: b is not a column",
    ),
    "integrity of undeclared columns": (
        render_source("verify_integrity: true, key: {fields: [id], schema: id BIGINT}, value: {unknown_fields: add}"),
        "verify_integrity compares declared columns; name the fields of the key in value.schema",
    ),
    "envelope of a format with its own": (
        render_source("value: {format: debezium-json, json: {envelope: true}}"),
        "source.value.json: options of another format than debezium-json",
    ),
    "avro schema and registry": (
        render_source("value: {format: avro, avro: {schema: '\"long\"', subject: s}}"),
        "a registry is given too; keep the schema or the registry",
    ),
    "avro schema that is none": (
        render_source('value: {format: avro, avro: {schema: \'{"type": "recrd"}\'}}'),
        "not an Avro schema (Avro type=recrd is not known",
    ),
    "unknown metadata": (render_source("metadata: {a: ofset}"), "source.metadata.a=ofset: not a metadata key"),
    "unknown partition column": (
        render_source("value: {schema: a INT}", tables="[{name: lake.a.b, create: {partition_by: [days(b)]}}]"),
        "partition_by[0]=days(b): b is not a column",
    ),
    "route pattern that does not compile": (
        render_table("route: {field: topic, pattern: '('}"),
        "tables[0].route.pattern=(: not a regular expression",
    ),
    "join without a condition": (
        render_table("select: 'SELECT r.id FROM record r LEFT JOIN lake.a.c d ON'"),
        "tables[0].select=SELECT r.id FROM record r LEFT JOIN lake.a.c d ON: not a statement that can be taken apart",
    ),
    "group of a column that select does not make, beside one of the key": (
        render_source(
            "key: {fields: [id], schema: id BIGINT}, value: {schema: 'lsn BIGINT, n INT'}",
            tables="[{name: lake.a.b, select: 'SELECT id, n FROM record', delete: false, "
            "partial_updates: {sequence_groups: {lsn: [n]}}}]",
        ),
        "sequence_groups.lsn=[n]: not a column of the table; allowed: n",
    ),
    "when by a column that is not there": (
        render_source("value: {schema: 'id BIGINT, kind STRING'}", tables="[{name: lake.a.b, when: knd = 'x'}]"),
        "tables[0].when=knd = 'x': knd is not a column of the record; did you mean kind?",
    ),
    "delete_when by a column that is not there": (
        render_source(
            "key: {fields: [num], schema: num BIGINT, prefix: k_}, metadata: {src: topic}, value: {schema: id BIGINT}",
            tables="[{name: lake.a.b, delete_when: k_num > 1 AND src <> topic AND num = 5 AND ID > 1}]",
        ),
        "tables[0].delete_when=k_num > 1 AND src <> topic AND num = 5 AND ID > 1: num is not a column of the record; "
        "did you mean k_num?",
    ),
    "route by a column that is not there": (
        render_source("value: {schema: 'id BIGINT, kind STRING'}", tables="[{name: lake.a.b, route: {field: knd}}]"),
        "tables[0].route.field=knd: not a column of the value; did you mean kind?",
    ),
    "route by a field that is not there": (
        render_source(
            "value: {schema: 'id BIGINT, meta STRUCT<kind: STRING>'}",
            tables="[{name: lake.a.b, route: {field: meta.knd}}]",
        ),
        "tables[0].route.field=meta.knd: knd is no field of a struct; name a column, or a field of one",
    ),
    "route by a field of a column that is not there": (
        render_source(
            "value: {schema: 'id BIGINT, meta STRUCT<kind: STRING>'}",
            tables="[{name: lake.a.b, route: {field: mta.kind}}]",
        ),
        "tables[0].route.field=mta.kind: not a column of the value; did you mean meta?",
    ),
    "topic in the key without a column": (
        render_table("disjoint_keys: by-topic"),
        "tables[0].disjoint_keys=by-topic: the topic needs a column to be a part of the key; add source.metadata: "
        "{topic: topic}",
    ),
    "topic in the key beside a field of its name": (
        render_source(
            "key: {fields: [topic], prefix: k_}, value: {schema: 'topic STRING'}, metadata: {Topic: topic}",
            tables="[{name: lake.a.b, disjoint_keys: by-topic}]",
        ),
        "tables[0].disjoint_keys=by-topic: key.fields has a Topic of its own; give the topic another column",
    ),
    "topic in a key that is one column": (
        render_source(
            "key: {fields: [id], into: k}, value: {schema: 'id INT'}, metadata: {src: topic}",
            tables="[{name: lake.a.b, disjoint_keys: by-topic}]",
        ),
        "tables[0].disjoint_keys=by-topic: the topic is no part of the struct that key.into makes; use key.prefix",
    ),
    "topic in no key": (
        render_source(
            "value: {schema: 'id INT'}, metadata: {src: topic}", tables="[{name: lake.a.b, disjoint_keys: by-topic}]"
        ),
        "tables[0].disjoint_keys=by-topic: there is no key that the topic could be a part of; give key.fields",
    ),
    "topic in the key that select leaves out": (
        render_source(
            "key: {fields: [id]}, value: {schema: 'id INT'}, metadata: {src: topic}",
            tables="[{name: lake.a.b, disjoint_keys: by-topic, select: SELECT id FROM record}]",
        ),
        "tables[0].select=SELECT id FROM record: leaves out or changes src of key.fields",
    ),
    "topic in the key that an update is to change": (
        render_source(
            "key: {fields: [id]}, value: {schema: 'id INT, v INT'}, metadata: {topic: topic}",
            tables="[{name: lake.a.b, disjoint_keys: by-topic, update_columns: [topic, v]}]",
        ),
        "tables[0].update_columns",
    ),
    "keys that are disjoint by something else": (
        render_table("disjoint_keys: topic"),
        "tables[0].disjoint_keys=topic: not a known word; did you mean by-topic?",
    ),
    "condition that is no SQL": (render_table("when: 'a ='"), "tables[0].when=a =: not SQL"),
    "condition that is a statement": (render_table("when: a = 1; drop table x"), "2 statements found"),
    "condition over many records": (render_table("when: count(*) > 1"), "aggregates and windows have no meaning"),
    "time without a zone": (
        render_source("start: {timestamp: 2026-01-01T00:00:00}"),
        "means another moment on every machine",
    ),
    "time that is none": (
        render_source("start: {timestamp: 2026-13-01T00:00:00Z}"),
        "not a value that YAML knows (timestamp)",
    ),
    "offset of an unread topic": (render_source("start: {offsets: {u: {0: 1}}}"), "source.start.offsets.u: not one of"),
    "snapshots for ever": (
        render_source() + "maintenance: {keep_snapshots_for: 999999d}",
        "999999d: longer than 100 years",
    ),
    "seconds without end": (
        render_source() + "merge: {interval: 99999999999999}",
        "99999999999999: longer than 100 years",
    ),
    "young orphans": (render_source() + "maintenance: {orphans_older_than: 1h}", "must be at least 1d"),
    "no snapshot left": (render_source() + "maintenance: {keep_snapshots: 0}", "must be at least 1"),
    "odd compaction": (render_source() + "maintenance: {compact: often}", "auto"),
    "negative offset": (render_source("start: {offsets: {t: {0: -1}}}"), "must be at least 0"),
    "inline group.id": (
        render_source("kafka: {bootstrap.servers: 'b:1', group.id: g}"),
        "source.kafka.group.id=g: Tidegate sets it",
    ),
    "broker without a port": (
        render_source("kafka: {bootstrap.servers: 'b:9092, c'}"),
        "source.kafka.bootstrap.servers=b:9092, c: host=c: it has no port; write host:port",
    ),
    "broker whose port is no number": (
        render_source("kafka: {metadata.broker.list: 'SASL_SSL://b:kafka'}"),
        "source.kafka.metadata.broker.list=SASL_SSL://b:kafka: host=b: its port must be a number, 1 to 65535, and is",
    ),
    "Spark's port is no number": (
        render_source() + "spark: {remote: 'sc://h:spark/;use_ssl=true'}",
        "spark.remote=sc://h:spark/;use_ssl=true: host=h: its port must be a number, 1 to 65535, and is not",
    ),
    "master without a port": (
        render_source() + "spark: {master: 'spark://h:7077,i'}",
        "spark.master=spark://h:7077,i: host=i: it has no port; write host:port",
    ),
    "registry's port is no number": (
        render_source("value: {format: avro, avro: {registry: 'http://h:99999'}}"),
        "source.value.avro.registry=http://h:99999: host=h: its port must be a number, 1 to 65535, and is not",
    ),
    "inline without brokers": (render_source("kafka: {client.id: b}"), "bootstrap.servers is missing"),
    "remote and master": (render_source() + "spark: {remote: 'sc://h:1', master: local}", "remote is given too"),
    "remote of another protocol": (render_source() + "spark: {remote: 'spark://h:1'}", "write sc://host:port"),
    "unknown word": (
        render_source() + "on_rollback: explode",
        "on_rollback=explode: not a known word; allowed: fail, keep, rewind",
    ),
    "misspelt word": (
        render_source() + "on_rollback: rewnd",
        "on_rollback=rewnd: not a known word; did you mean rewind?",
    ),
    "a topic that feeds nothing": (
        "source: {topics: [t, u]}\ntables: [{name: lake.a.b, topics: [t]}]",
        "source.topics[1]=u: feeds no table",
    ),
    "old name of another tool": (render_table("upsertEnabled: true"), "unknown key; did you mean upsert?"),
    "the same key twice": (render_source() + "tables: []", "3: tables: given twice, first on line 2"),
    "aliases without end": ("a: &a [*a]", ":1: not YAML: aliases nest without end"),
    "an object of Python": ("source: !!python/object:os.system {}", ":1: not YAML: could not determine a constructor"),
    "a tab": (render_source() + "\tx: 1", ":3: not YAML: a tab before the first word of a line"),
    "sequence without upsert": (
        render_source("value: {schema: lsn BIGINT}", tables="[{name: lake.a.b, sequence_by: [lsn]}]"),
        "tables[0].sequence_by=[lsn]: orders records that replace one another; set upsert: true",
    ),
    "sequence of an unknown column": (
        render_keyed_source("sequence_by: [lns]"),
        "tables[0].sequence_by[0]=lns: not a column of the value or of metadata; did you mean lsn?",
    ),
    "sequence of a key column": (render_keyed_source("sequence_by: [id]"), "tables[0].sequence_by[0]=id: a key column"),
    "sequence named twice": (
        render_keyed_source("sequence_by: [lsn, LSN]"),
        "tables[0].sequence_by[1]=LSN: listed twice",
    ),
    "sequence without an order": (
        render_keyed_source("sequence_by: [tags]"),
        "tables[0].sequence_by[0]=tags: holds a map",
    ),
    "sequence of a transaction's id": (
        render_source(
            "key: {fields: [id], schema: id BIGINT}, value: {format: debezium-json, schema: n INT}, "
            "metadata: {tx: value.source.txId}",
            tables="[{name: lake.a.b, sequence_by: [TX]}]",
        ),
        "tables[0].sequence_by[0]=TX: is text, by which transaction 100 comes before 99",
    ),
    "sequence of a transaction's id under another name": (
        render_source(
            "key: {fields: [id], schema: id BIGINT}, value: {format: debezium-json, schema: n INT}, "
            "metadata: {tx: value.source.txId}",
            tables="[{name: lake.a.b, select: 'SELECT *, TX AS place FROM record', sequence_by: [place]}]",
        ),
        "tables[0].sequence_by[0]=place: is text, by which transaction 100 comes before 99",
    ),
    "sequence of the offset": (
        render_source(
            "key: {fields: [id], schema: id BIGINT}, value: {format: json, schema: n INT}, "
            "metadata: {place: offset, at: timestamp}",
            tables="[{name: lake.a.b, sequence_by: [Place, at]}, {name: lake.a.c, sequence_by: [at, place]}]",
        ),
        "tables[0].sequence_by[0]=Place: is the offset of a record, so records of another partition, or of a topic "
        "that is created again, would count as late, and be left out",
    ),
    "sequence of a snapshot's mark": (
        render_source(
            "key: {fields: [id], schema: id BIGINT}, value: {format: debezium-json, schema: n INT}, "
            "metadata: {first: value.source.snapshot, lsn: value.source.lsn}",
            tables="[{name: lake.a.b, sequence_by: [lsn, first]}]",
        ),
        "tables[0].sequence_by[1]=first: says how a record was read and not when",
    ),
    "sequence of a binlog's place without the row in its event": (
        render_source(
            "key: {fields: [id], schema: id BIGINT}, value: {format: debezium-json, schema: n INT}, "
            "metadata: {File: value.source.file, Place: value.source.pos, N: value.source.row}",
            tables="[{name: lake.a.b, sequence_by: [file, PLACE]}, {name: lake.a.c, sequence_by: [file, place, n]}]",
        ),
        "tables[0].sequence_by=[file, PLACE]: rows of one binlog event share file and pos; "
        "add a column of value.source.row behind them",
    ),
    "sequence of a computed binlog's place without the row in its event": (
        render_source(
            "key: {fields: [id], schema: id BIGINT}, value: {format: debezium-json, schema: n INT}, "
            "metadata: {f: value.source.file, p: value.source.pos}",
            tables="[{name: lake.a.b, sequence_by: [place, P], "
            "select: \"SELECT *, CAST(substring_index(F, '.', -1) AS BIGINT) AS place FROM record\"}]",
        ),
        "tables[0].sequence_by=[place, P]: rows of one binlog event share file and pos",
    ),
    "key column of the deletes' table": (
        render_source(
            "key: {fields: [offset], schema: offset BIGINT}, value: {schema: lsn BIGINT}",
            tables="[{name: lake.a.b, sequence_by: [lsn]}]",
        ),
        "source.key.fields[0]=offset: lake.a.b_deletes has a column offset of its own; use key.prefix",
    ),
    "struct of the key that is a column of the deletes' table": (
        render_source(
            "key: {fields: [id], schema: id BIGINT, into: Sequence}, value: {schema: lsn BIGINT}",
            tables="[{name: lake.a.b, sequence_by: [lsn]}]",
        ),
        "source.key.into=Sequence: lake.a.b_deletes has a column sequence of its own",
    ),
    "struct of the key that is the column of soft deletes": (
        render_source(
            "key: {fields: [id], schema: id BIGINT, into: gone}, value: {schema: lsn BIGINT}",
            tables="[{name: lake.a.b, deletes: soft, deleted_column: gone}]",
        ),
        "tables[0].deletes=soft: adds the column gone, and the record has one too",
    ),
    "select that makes a column of history": (
        render_keyed_source("history: scd2, select: 'SELECT *, CAST(lsn AS BIGINT) AS Valid_To FROM record'"),
        "makes the column valid_to, which history adds; name another with AS, or in history_columns",
    ),
    "soft deletes without deletes": (
        render_keyed_source("deletes: soft, delete: false"),
        "tables[0].deletes=soft: keeps rows",
    ),
    "soft deletes of a table that only appends": (render_table("deletes: soft"), "tables[0].deletes=soft: keeps rows"),
    "soft deletes beside a column of their name": (
        render_keyed_source("deletes: soft", "_deleted STRING"),
        "tables[0].deletes=soft: adds the column _deleted, and the record has one too; name another in deleted_column",
    ),
    "key that no row can be found by": (
        render_source("key: {fields: [k], schema: 'k STRUCT<a: ARRAY<INT>>'}"),
        "source.key.fields[0]=k: holds an array or a map, and rows cannot be found by it",
    ),
    "key and value column that differ in case": (
        render_source("key: {fields: [ID], schema: ID BIGINT}, value: {schema: id BIGINT}"),
        "source.key.fields=[ID]: ID and the value's id differ only in case",
    ),
    "value columns that differ in case": (
        render_source("value: {schema: 'id INT, ID INT'}"),
        "column ID is given twice",
    ),
    "nested fields that differ in case": (
        render_source("value: {schema: 's STRUCT<a: INT, A: INT>'}"),
        "field A is given",
    ),
    "metadata columns that differ in case": (
        render_source("value: {schema: n INT}, metadata: {at: timestamp, At: offset}"),
        "source.metadata.At=offset: differs from another one only in case",
    ),
    "a table whose folder's name would be cut short": (
        render_source(tables="[{name: 'lake.shop.orders#1'}]"),
        "tables[0].name=lake.shop.orders#1: names a folder, and PyIceberg takes # and ? for the end of a path",
    ),
    "an empty file": ("", ":1: no pipeline in it"),
}


@pytest.mark.parametrize("hazard", REFUSED)
def test_refused_with_value_and_way_out(include: Path, hazard: str) -> None:
    text, expected = REFUSED[hazard]
    problems = find_problems(include, text)
    assert any(expected in line for line in problems), problems
    assert all(re.match(r"pipelines/orders\.yaml:\d+: ", line) for line in problems), problems


def test_key_in_one_struct_leaves_the_names_of_its_fields_to_the_value(include: Path) -> None:
    key = "key: {fields: [offset, lsn], schema: 'offset BIGINT, lsn BIGINT', into: k}"
    options = "[{name: lake.a.b, sequence_by: [lsn], deletes: soft, deleted_column: offset}]"
    (table,) = load(include, render_source(f"{key}, value: {{schema: lsn BIGINT}}", tables=options)).tables
    assert (table.key_columns, table.sequence_by) == (("k",), ("lsn",))


def render_named_source(name: str, options: str = "", of_source: str = "") -> str:
    value = "value: {schema: 'id BIGINT, type STRING'}"
    return render_source(value + of_source, tables=f"[{{name: '{name}'{options}}}]")


LONG_NAME = "x" * 250
INLINE = "topics: [orders], kafka: {bootstrap.servers: 'b:9092'"
WRONG_NAMES = {
    "source.kafka: enable.ssl.certificate.verification=false: the Java client always verifies; give ssl.ca.location": (
        f"{INLINE}, enable.ssl.certificate.verification: false}}"
    ),
    "source.kafka: enable.ssl.certificate.verification=0: the Java client always verifies": (
        f"{INLINE}, enable.ssl.certificate.verification: 0}}"
    ),
    "source.kafka: ssl.key.location: the Java client wants key and certificates in one PEM file; name that one file": (
        f"{INLINE}, ssl.key.location: /k.pem, ssl.certificate.location: /c.pem}}"
    ),
    "source.topics[0]=.: not a topic name: Kafka refuses . and ..; write": "topics: [., orders]",
    "source.topics[1]=..: not a topic name: Kafka refuses . and ..; write": "topics: [orders, ..]",
    "…: not a topic name: it has letters=250; Kafka takes at most 249": f"topics: [orders, {LONG_NAME}]",
    "source.topics[0]='': not a topic name; letters, digits, dot": "topics: ['']",
    "source.errors.topic=..: not a topic name: Kafka refuses": "topics: [orders], errors: {tolerance: all, topic: ..}",
    "source.group=' ': empty; write it out, or leave the key out": "topics: [orders], group: ' '",
    "source.group='': empty; write it out, or leave the key out": "topics: [orders], group: ''",
    "source.kafka.client.id=' ': nothing but blanks; write a value, or leave it out": (
        "topics: [orders], kafka: {bootstrap.servers: 'b:9092', client.id: ' '}"
    ),
    "source.kafka: bootstrap.servers is missing; write": "topics: [orders], kafka: {bootstrap.servers: ' , '}",
    "source.topic_pattern=' ': empty, so it matches no topic; write e.g.": "topic_pattern: ' '",
    "source.start.offsets.other: source.topic_pattern=shop.* does not match it; correct one of the two": (
        "topic_pattern: shop.*, start: {offsets: {other: {0: 1}, shop.orders: {0: 1}}}"
    ),
    "source.start.offsets..: not a topic name: Kafka refuses": "topic_pattern: .*, start: {offsets: {.: {0: 1}}}",
}


@pytest.mark.parametrize("expected", WRONG_NAMES)
def test_name_that_kafka_refuses_or_that_nothing_has_is_refused_with_one_problem(include: Path, expected: str) -> None:
    text = f"source: {{{WRONG_NAMES[expected]}}}\ntables: [{{name: lake.a.b, disjoint_keys: true}}]\n"
    (problem,) = find_problems(include, text)
    assert expected in problem


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("heartbeat: {topic: ..}", "heartbeat.topic=..: not a topic name: Kafka refuses"),
        (f"heartbeat: {{topic: {LONG_NAME}}}", "…: not a topic name: it has letters=250"),
        ("heartbeat: {ignore_topics: [a, '']}", "heartbeat.ignore_topics[1]='': empty, so it matches no topic"),
        ("spark: {connection: ' '}", "spark.connection=' ': empty; write it out"),
        ("spark: {master: ''}", "spark.master='': empty; write it out"),
    ],
)
def test_blank_or_impossible_name_beside_the_source_is_refused_too(include: Path, more: str, expected: str) -> None:
    (problem,) = find_problems(include, render_source() + more)
    assert expected in problem


@pytest.mark.parametrize(
    ("heartbeat", "is_refused"),
    [
        ("{produce: true, topic: shop.beats, kafka: other}", True),
        ("{produce: true, topic: shop.beats, kafka: other, ignore_topics: ['shop\\.b.*']}", False),
        ("{produce: true, topic: beats, kafka: other}", False),
        ("{topic: shop.beats, kafka: other}", False),
        ("{produce: true, topic: shop.beats}", False),
    ],
)
def test_heartbeats_of_other_brokers_into_a_topic_that_the_pattern_matches_are_refused(
    include: Path, heartbeat: str, is_refused: bool
) -> None:
    """The other connection may lead to the source's brokers, where they would be rows."""
    source = "{topic_pattern: shop.*, key: {fields: [id]}, value: {schema: id BIGINT}}"
    text = f"source: {source}\ntables: [{{name: lake.a.b, disjoint_keys: true}}]\nheartbeat: {heartbeat}"
    if not is_refused:
        assert load(include, text).source.topic_pattern == "shop.*"
        return
    (problem,) = find_problems(include, text)
    assert "heartbeat.topic=shop.beats: source.topic_pattern matches it" in problem


def test_topic_that_feeds_a_table_twice_is_no_second_topic(include: Path) -> None:
    tables = "[{name: lake.a.b, topics: [t, t]}, {name: lake.a.c, topics: [t]}]"
    assert find_problems(include, render_source("key: {fields: [id]}, value: {schema: id BIGINT}", tables=tables)) == [
        "pipelines/orders.yaml:2: tables[0].topics[1]=t: listed twice; keep one"
    ]


def test_table_may_name_only_topics_that_the_pattern_matches(include: Path) -> None:
    text = """\
source: {topic_pattern: 'shop\\..*'}
tables:
  - {name: lake.a.b, topics: [shop.orders]}
  - {name: lake.a.c, topics: [shop_orders]}
"""
    assert find_problems(include, text) == [
        "pipelines/orders.yaml:4: tables[1].topics[0]=shop_orders: source.topic_pattern=shop\\..* does not match it; "
        "correct one of the two"
    ]


WRONG_TEMPLATES = {
    "the catalog must be a fixed name": render_named_source("{type}.shop.a"),
    "namespaces: missing": render_named_source("lake.{type}.a"),
    "the name has the namespace shop in it": render_named_source("lake.shop.{type}", ", namespaces: [other]"),
    "not a namespace; lower-case": render_named_source("lake.{type}.a", ", namespaces: ['A b']"),
    "needs value.schema": render_source(tables="[{name: 'lake.shop.{type}'}]"),
    "{tipe} is not a column": render_named_source("lake.shop.{tipe}"),
    "only for a name with a {field}": render_named_source("lake.shop.a", ", namespaces: [shop]"),
    "all is not available beside a name template": render_named_source(
        "lake.shop.{type}", "", ", errors: {tolerance: all}"
    ),
    "complete=hour: not for tables that records name": render_named_source("lake.shop.{type}") + "complete: hour\n",
    "verify does not know tables that records name": render_named_source("lake.shop.{type}")
    + "verify: {interval: 1d}\n",
    "not a table's full name": render_named_source("lake.shop.{type"),
}


@pytest.mark.parametrize("expected", WRONG_TEMPLATES)
def test_name_template_that_could_surprise_is_refused(include: Path, expected: str) -> None:
    problems = find_problems(include, WRONG_TEMPLATES[expected])
    assert any(expected in line for line in problems), problems


def test_name_template_is_read_with_its_own_namespace(include: Path) -> None:
    template = load(include, render_named_source("lake.shop.{type}")).template
    assert template is not None
    assert (template.name, template.namespaces, template.max_tables) == ("lake.shop.{type}", ("shop",), 1000)


@pytest.mark.parametrize(
    "text",
    [
        render_source("kafka: {bootstrap.servers: 'b:1', sasl.password: geheim}"),
        render_source(
            "kafka: {bootstrap.servers: 'b:1', sasl.oauthbearer.client.secret: geheim, ssl.key.password: geheim}"
        ),
        render_source() + "spark: {remote: 'sc://h:1/;token=geheim'}",
        render_source() + "spark: {conf: {spark.hadoop.fs.s3a.secret.key: geheim}}",
        render_source("kafka: {sasl.password: [geheim]}"),
        render_source("kafka: {bootstrap.servers: 'b:1', https.proxy: 'http://u:geheim@h'}"),
        render_source("kafka: 'kafka://u:geheim@h:9092'"),
        render_source("kafka: {bootstrap.servers: 'SSL://u:geheim@h:x'}"),
        render_source("value: {format: avro, avro: {registry: 'http://u:gehe/geheim@h:x'}}"),
        render_source() + "spark: {remote: 'sc://u:geheim@h:x/;token=geheim'}",
        render_source("value: {format: avro, avro: {registry: 'http://u:geheim@h'}}"),
        render_source("value: {json: {registry: 'http://u:geheim@h'}}"),
        render_source("key: {fields: [id], format: protobuf, protobuf: {registry: 'http://u:geheim@h'}}"),
        render_table("create: {properties: {s3.secret-access-key: geheim}}"),
        render_table("create: {properties: {write.data.path: 's3://k:geheim@b/p'}}"),
        render_source() + "on_failure: [{notifier: a.b.N, kwargs: {auth: {password: geheim}}}]",
        render_source() + "on_recovery: [{notifier: a.b.N, kwargs: {hooks: ['http://u:geheim@h']}}]",
        render_source() + "spark: {master: 'k8s://u:geheim@h'}",
        render_source("kafka_password: geheim"),
        render_source(tables="[{name: secretive.a.b}]"),
    ],
)
def test_a_secret_in_a_file_is_refused_and_never_repeated(include: Path, text: str) -> None:
    problems = find_problems(include, text)
    assert problems
    assert "geheim" not in "".join(problems)


def test_number_that_is_a_secret_is_not_repeated_either(include: Path) -> None:
    messages = "".join(find_problems(include, render_source("kafka: {bootstrap.servers: 'b:1', sasl.password: 0123}")))
    assert "sasl.password: would be read as another number" in messages
    assert "0123" not in messages
    assert "83" not in messages


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


@settings(
    max_examples=choose_number(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=ALMOST)
def test_no_file_however_broken_ends_in_another_error(include: Path, data: object) -> None:
    with suppress(ConfigurationError):
        load(include, yaml.safe_dump(data, allow_unicode=True))


@pytest.mark.parametrize(
    ("version", "reason"),
    [("3", "write create.format_version: 3 instead"), ("two", "not a value that Iceberg takes for it; use 1 or 2")],
)
def test_format_of_tables_that_cannot_be_written_is_refused_before_one_is_made(
    include: Path, version: str, reason: str
) -> None:
    (problem,) = find_problems(include, render_table(f"create: {{properties: {{format-version: '{version}'}}}}"))
    assert f"tables[0].create.properties.format-version={version}: {reason}" in problem
    assert load(include, render_table("create: {properties: {format-version: 2}}")).tables[0].create.properties


APPLIED = "key: {fields: [id]}, value: {format: debezium-json, truncate: apply, schema: 'id BIGINT, n INT'}"
WITHOUT_ORDER = {
    "upsert: false": "upsert: false",
    "delete: false": "delete: false",
    "deletes: soft": "deletes: soft",
    "history: scd2": "history: scd2",
    "partial_updates": "partial_updates: true",
    "sequence_by": "sequence_by: [n]",
    "when": "when: n > 1",
    "route": "route: {field: n, pattern: '1'}",
}


@pytest.mark.parametrize("word", WITHOUT_ORDER)
def test_truncate_is_applied_only_where_one_order_of_all_records_fills_the_table(include: Path, word: str) -> None:
    problems = find_problems(include, render_source(APPLIED, tables=f"[{{name: lake.a.b, {WITHOUT_ORDER[word]}}}]"))
    (problem,) = [problem for problem in problems if "truncate" in problem]
    assert problem == (
        "pipelines/orders.yaml:1: source.value.truncate=apply: apply empties lake.a.b, whose rows must all come from "
        f"one topic, in the order of its offsets: not with {word}; leave it out, or use refuse or ignore"
    )


def test_truncate_is_applied_to_tables_of_one_topic_each(include: Path) -> None:
    assert load(include, render_source(APPLIED)).source.value.applies_truncates
    two = f"source: {{topics: [t, u], {APPLIED}}}\ntables: [{{name: lake.a.b, topics: [t]}}, {{name: lake.a.c}}]"
    (problem,) = [problem for problem in find_problems(include, two) if "truncate" in problem]
    assert re.search("empties lake.a.c, .*: not with topics=2;", problem)
    pattern = f"source: {{topic_pattern: 't.*', {APPLIED}}}\ntables: [{{name: lake.a.b}}]"
    assert any("not with source.topic_pattern" in problem for problem in find_problems(include, pattern))
    source = render_source(APPLIED, tables="[{name: 'lake.shop.{n}'}]")
    assert any("not with a name that records fill in" in problem for problem in find_problems(include, source))


TAKEN = {
    "when": (
        "exists(map_keys(tags), k -> k LIKE ANY ('a', 'b')) AND (n IN (1, 2) OR lake.system.bucket(4, id) = 1)",
        "try_cast(n AS DECIMAL(10, 2)) > 1 AND timestampadd(DAY, 1, now()) > current_timestamp AND `abs`(n) = 1",
        "aggregate(map_values(tags), 0, (p, q) -> p + q) > 1 AND tags.a = 1 AND NOT (n IS NULL) AND a.x[0] = 1",
    ),
    "select": (
        "SELECT id, CAST(tags AS STRING) AS t, CAST(map_keys(tags) AS ARRAY<INT>) AS k, a.x FROM record",
        "SELECT id, CAST(n AS TIMESTAMP) AS t, CAST(a.x AS ARRAY<STRING>) AS x FROM record",
        "SELECT id, CAST(tags AS MAP<BINARY, DOUBLE>) AS t FROM record",
        "SELECT id, CAST(tags.k AS INT) AS k, CAST(r.l.y AS ARRAY<INT>) AS y FROM record r",
    ),
    "audits": (
        "SELECT count(*) > 0 FROM (SELECT explode(map_keys(tags)) AS k FROM {table}) AS t(k) WHERE k <> ''",
        "WITH x(n) AS (SELECT id FROM {table}) SELECT count_if(n > 0) > 1 FROM x LATERAL VIEW explode(array(1)) y",
        "SELECT max(r) < 2 FROM (SELECT row_number() OVER (PARTITION BY id ORDER BY n) AS r FROM {table}, range(3))",
        "SELECT count(*) FILTER (WHERE n > 0) >= 0 FROM {table} WHERE id IN (SELECT id FROM {table})",
    ),
}


@pytest.mark.parametrize(("word", "sql"), [(word, sql) for word, texts in TAKEN.items() for sql in texts])
def test_sql_of_spark_s_own_functions_is_taken(include: Path, word: str, sql: str) -> None:
    column = "n INT, a STRUCT<x: ARRAY<INT>>, l ARRAY<STRUCT<y: INT>>"
    value = json.dumps([sql] if word == "audits" else sql)
    assert load(include, render_keyed_source(f"{word}: {value}", column).replace("\\u0027", "''")).tables


def test_audits_of_bigquery_know_its_own_functions(include: Path) -> None:
    (include / "catalogs.yaml").write_text("dwh: {type: bigquery, project: p, staging: 'gs://b/s'}\n")
    audits = ["regexp_contains(name, 'x')", "SELECT LOGICAL_AND(n > 0) FROM {table}"]
    text = render_source("value: {schema: 'n INT, name STRING'}", f"[{{name: dwh.a.b, audits: {json.dumps(audits)}}}]")
    assert load(include, text).tables[0].audits == tuple(audits)


@pytest.mark.parametrize("place", ["file", "defaults"])
def test_format_that_a_reader_cannot_read_is_refused_and_another_one_is_not(include: Path, place: str) -> None:
    def render(reader: str, version: int) -> str:
        (include / "defaults.yaml").write_text(f"readers: [spark, {reader}]\n" if place == "defaults" else "{}\n")
        own = "" if place == "defaults" else f"readers: [spark, {reader}]\n"
        return render_table(f"create: {{format_version: {version}}}") + own

    (problem,) = find_problems(include, render("athena", 3))
    assert "tables[0].create.format_version=3: readers names athena, which reads no vectors of deletes" in problem
    assert load(include, render("athena", 2)).readers == ("spark", "athena")
    assert load(include, render("trino", 3)).tables[0].create.format_version == 3
    (problem,) = find_problems(include, render("hive", 2))
    assert "readers" in problem
    assert "athena" in problem


def test_format_is_said_once_and_for_iceberg_alone(include: Path) -> None:
    both = render_table("create: {format_version: 3, properties: {format-version: 2}}")
    (problem,) = find_problems(include, both)
    assert "create.properties.format-version=2: create.format_version says it already" in problem
    assert load(include, render_table("create: {format_version: 3}")).tables[0].create.format_version == 3
    assert load(include, render_table("create: {properties: {format-version: 1}}")).tables[0].create.format_version == 2
    (problem,) = find_problems(include, render_table("create: {format_version: 4}"))
    assert "format_version" in problem


def test_each_reader_is_one_that_a_file_may_name() -> None:
    assert set(READERS) == set(get_args(Reader))
