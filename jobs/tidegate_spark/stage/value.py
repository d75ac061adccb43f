"""The record value decoded: what kind of change it is, and one struct of the value's columns."""

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tidegate.jobs.stage_job import StageTable
from tidegate.spec.source import METADATA_TYPES, name_cast, split_cast
from tidegate.spec.table import Route
from tidegate.spec.table_template import FIELD_PATTERN, MAX_NAME_CHARACTERS, VALUE_PATTERN, TableNaming
from tidegate.sql.conditions import render_without
from tidegate.sql.spark import quote, render_columns, render_literal

from tidegate_spark.fields.conditions import NO_REASON, render_first_reason
from tidegate_spark.fields.written_values import render_year_range
from tidegate_spark.formats.change_events.unavailable_values import WAY_OUT, render_lacks_value_of
from tidegate_spark.formats.decoded import DELETE, NO_CHANGE, ROW, DecodedValue, render_cast_type
from tidegate_spark.formats.wire_format import RECORD_PARTS, render_schema_id, render_schema_place

FAILURE_TEXT = "fails for this record"
LACK_TEXT = f"reads a value that the event leaves out, as it did not change; {WAY_OUT}"
PLACES = ("topic", "partition", "offset")
SHOWS_NO_ROW = f"(_tidegate.change = '{DELETE}' AND NOT _tidegate.is_tombstone)"
KAFKA_METADATA = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestamp-type": (
        "CASE timestampType WHEN 0 THEN 'CreateTime' WHEN 1 THEN 'LogAppendTime' ELSE 'NoTimestampType' END"
    ),
    # none are empty, not NULL, as in Flink
    "headers": "coalesce(map_from_entries(headers), CAST(map() AS MAP<STRING, BINARY>))",
    "header-list": "coalesce(headers, CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>))",
}
# MySQL fills the number of a binlog with zeros up to six digits: as texts, files of more come before mysql-bin.999999
LONG_FILE_NUMBER_PATTERN = "[.][0-9]{7,}$"
BINLOG_FILE = "value.source.file"
# Kafka counts milliseconds: microseconds that a producer gives for them are of a year that no reader of tables knows
IS_FAR_TIME = f"timestamp NOT BETWEEN {render_year_range('TIMESTAMP')}"
KAFKA_UNKEPT = {"timestamp": IS_FAR_TIME, name_cast("timestamp", "TIMESTAMP_NTZ"): IS_FAR_TIME}
FAR_VERSION_REASON = (
    "the record's timestamp is outside of the years 1 to 9999, and with history it says from when on a row holds"
)


def render_metadata(decoded_value: DecodedValue, table: StageTable) -> dict[str, str]:
    value_metadata = {f"value.{name}": sql for name, sql in decoded_value.metadata.items()}
    schemas = {f"{part}.schema-id": render_schema_id(part, table) for part in RECORD_PARTS}
    for index, word in enumerate(("subject", "version")):
        schemas |= {f"{part}.schema-{word}": render_schema_place(part, table, index) for part in RECORD_PARTS}
    metadata = {**KAFKA_METADATA, "leader-epoch": _render_leader_epoch(table), **schemas, **value_metadata}
    return metadata | {word: _render_cast(metadata, word) for word in table.metadata.values() if word not in metadata}


def _render_cast(metadata: dict[str, str], word: str) -> str:
    source, kind = split_cast(word)
    is_count = METADATA_TYPES[source] == "TIMESTAMP" and kind == "BIGINT"
    return f"unix_millis({metadata[source]})" if is_count else f"CAST({metadata[source]} AS {kind})"


def _render_leader_epoch(table: StageTable) -> str:
    cases = [
        f"WHEN topic = {render_literal(topic)} AND partition = {partition} AND offset >= {offset} THEN {epoch}"
        for topic, partitions in table.epochs.items()
        for partition, boundaries in partitions.items()
        for offset, epoch in reversed(boundaries)
    ]
    return f"CAST(CASE {' '.join(cases)} END AS INT)" if cases else "CAST(NULL AS INT)"


def add_value(records: DataFrame, decoded_value: DecodedValue, table: StageTable) -> DataFrame:
    """Add `op` (c, r, u or d), `value_struct` (NULL for a delete) and `value_reason` (NULL if the value is good).

    `records` are those of `decoded_value`, with the key beside them.
    """
    metadata = render_metadata(decoded_value, table)
    unkept = render_unkept_reason(decoded_value, table)
    reason = f"coalesce({decoded_value.reason}, {unkept})" if unkept else decoded_value.reason
    located = f"coalesce(located_reason, {unkept})" if unkept else "located_reason"
    columns = {**decoded_value.columns, **{name: metadata[key] for name, key in table.metadata.items()}}
    tombstone = f"(change = '{DELETE}' AND {decoded_value.is_tombstone}) AS is_tombstone"
    decoded = records.selectExpr(
        "*",
        f"CASE WHEN change <> '{DELETE}' THEN struct({render_columns(columns)}) END AS {ROW}",
        f"{decoded_value.row_number} AS row_number",
        *([tombstone] if _has_conditions(table) else []),
    ).selectExpr(
        "*",
        f"CASE WHEN change <> '{DELETE}' AND located_reason IS NULL THEN {reason} ELSE {located} END AS value_reason",
        f"CASE WHEN change <> '{DELETE}' AND located_reason IS NULL THEN {decoded_value.null_reason} END "
        "AS lack_reason",
    )
    if table.names_of:
        decoded = decoded.withColumn(ROW, F.expr(_render_joined_row(table)))
    if decoded_value.previous_key:
        decoded = _judge_old_keys(decoded, table, metadata)
    return _apply_conditions(decoded, decoded_value, table, metadata)


def _render_joined_row(table: StageTable) -> str:
    # conditions read one of the names, whichever the record has
    types = {column.name: column.type for column in table.value_columns}
    values = {name: f"{ROW}.{quote(name)}" for name in (*types, *table.metadata)}
    # names that are declared, or have grown, with other types stay apart; an explanation decodes some columns alone
    joined_values = {
        name: f"coalesce({', '.join(values[other] for other in names if types.get(other) == types[name])})"
        for name, names in table.names_of.items()
        if name in types
    }
    return f"CASE WHEN {ROW} IS NOT NULL THEN struct({render_columns(values | joined_values)}) END"


def render_unkept_reason(decoded_value: DecodedValue, table: StageTable) -> str:
    """Return which metadata columns cannot hold what the record shows, else NULL; empty if each always can.

    A delete has no row, so only columns that order it count.
    """
    cases = list(_list_unkept_cases(decoded_value, table))
    return f"CASE {' '.join(cases)} END" if cases else ""


def _list_unkept_cases(decoded_value: DecodedValue, table: StageTable) -> Iterable[str]:
    as_they_are, ordering = _find_ordering_columns(table)
    unkept = {f"value.{name}": condition for name, condition in decoded_value.lossy_metadata.items()}
    if table.has_history and not table.sequence:
        yield f"WHEN change <> '{NO_CHANGE}' AND {IS_FAR_TIME} THEN {render_literal(FAR_VERSION_REASON)}"
    for name, word in table.metadata.items():
        if word == BINLOG_FILE and name.casefold() in as_they_are:
            file = decoded_value.metadata[BINLOG_FILE.removeprefix("value.")]
            text = (
                f"the number in the metadata {word} has more than six digits, and as text it comes before 999999; "
                f"order by a number that select makes of it: CAST(substring_index({name}, '.', -1) AS BIGINT)"
            )
            is_long = f"{file} RLIKE {render_literal(LONG_FILE_NUMBER_PATTERN)}"
            yield f"WHEN change <> '{NO_CHANGE}' AND {is_long} THEN {render_literal(text)}"
        condition = KAFKA_UNKEPT.get(word) or unkept.get(split_cast(word)[0])
        if condition is not None:
            ordered_words = "" if name.casefold() in ordering else f"'{DELETE}', "
            text = f"the metadata {word} is not a {METADATA_TYPES[word]} without loss"
            yield f"WHEN change NOT IN ({ordered_words}'{NO_CHANGE}') AND {condition} THEN {render_literal(text)}"


def _find_ordering_columns(table: StageTable) -> tuple[set[str], set[str]]:
    columns = table.select.columns if table.select is not None else ()
    derived_columns = {c.name: c for c in columns if c.is_derived}
    as_they_are = set[str]()
    ordering = set[str]()
    for name in table.sequence:
        reads = {read.casefold() for read in (derived_columns[name].reads if name in derived_columns else (name,))}
        ordering |= reads
        as_they_are |= set() if name in derived_columns and derived_columns[name].is_computed else reads
    return as_they_are, ordering


def _has_conditions(table: StageTable) -> bool:
    return (table.when, table.route, table.naming, table.delete_when) != (None,) * 4


def _apply_conditions(
    decoded: DataFrame, decoded_value: DecodedValue, table: StageTable, metadata: dict[str, str]
) -> DataFrame:
    if not _has_conditions(table):
        judged = decoded.withColumn("value_reason", F.expr("coalesce(value_reason, lack_reason)"))
        return judged.selectExpr("*", "change AS op", "true AS is_wanted", "row_struct AS value_struct")
    row = _list_row_columns(table)
    beside_row = _list_columns_beside_value(table, metadata, locate_key_columns(table))
    # a delete shows no value: a condition on it lets it pass, as a delete of a missing row does nothing; a condition on
    # what its record shows beside the value counts, as the row of this key may be that of another source table. The
    # tombstone behind a delete event is left only where it shows all that the conditions read: they must hold of it
    settings = {"delete_when": table.delete_when, "when": table.when, "route": render_route(table.route)}
    conditions = {word: condition for word, condition in settings.items() if condition}
    attempts = {word: render_attempt(condition) for word, condition in conditions.items()}
    # a condition on a value that the source has left out cannot be judged, and a name of one is nobody's
    table_name = render_table_name(table.naming) if table.naming else "CAST(NULL AS STRING)"
    name_problem = render_name_reason(table.naming) if table.naming else NO_REASON
    read = {**conditions, "name": table_name}
    lacking = {word: render_lacks_value_of(sql, decoded_value, table) for word, sql in read.items()}
    lacking = {word: sql for word, sql in lacking.items() if sql}
    marks = [f"{sql} AS _tidegate_lacks_{word}" for word, sql in lacking.items()]
    rows = decoded.selectExpr("struct(*) AS _tidegate", *marks, *row, *beside_row)
    if table.when is not None:
        beside_value = render_without(table.when, [c.name for c in table.value_columns])
        of_delete = render_attempt(beside_value) if beside_value else "'null'"
        attempts["when"] = f"CASE WHEN {SHOWS_NO_ROW} THEN {of_delete} ELSE {attempts['when']} END"
    if lacking.pop("name", None):
        table_name = f"CASE WHEN NOT _tidegate_lacks_name THEN {table_name} END"
        reason = render_literal(f"the table's name {LACK_TEXT}")
        name_problem = f"CASE WHEN _tidegate_lacks_name THEN {reason} ELSE {name_problem} END"
    attempts |= {word: f"CASE WHEN NOT _tidegate_lacks_{word} THEN {attempts[word]} END" for word in lacking}
    answers = rows.selectExpr("*", *(f"{sql} AS _tidegate_{word}" for word, sql in attempts.items()))
    judged = answers.selectExpr(
        "_tidegate.*",
        f"{_render_answer('delete_when', conditions)} OR {_render_is_retracted(table)} AS is_delete",
        f"({_render_answer('when', conditions)} OR {_render_is_retracted(table)}) "
        f"AND {_render_answer('route', conditions)} AS is_chosen",
        f"{_render_condition_reason(conditions, lacking)} AS condition_reason",
        f"{table_name} AS table_name",
        f"{name_problem} AS name_problem",
    ).selectExpr(
        "*",
        f"is_chosen AND {_render_is_wanted_table(table.naming)} AS is_wanted",
        f"CASE WHEN is_chosen AND change <> '{DELETE}' AND table_name IS NULL THEN name_problem END AS name_reason",
    )
    return judged.selectExpr(
        "*",
        f"CASE WHEN is_delete THEN '{DELETE}' ELSE change END AS op",
        "CASE WHEN NOT is_delete THEN row_struct END AS value_struct",
    ).withColumn("value_reason", F.expr(f"coalesce(value_reason, {_render_lack_reason(table)}, condition_reason)"))


def _render_lack_reason(table: StageTable) -> str:
    # a row that is a delete may lack all but what orders it
    ordering = {name.casefold() for name in table.sequence}
    required_names = (c.name for c in table.value_columns if not c.nullable and c.name.casefold() in ordering)
    is_unordered = " OR ".join(f"{ROW}.{quote(name)} IS NULL" for name in required_names) or "false"
    return f"CASE WHEN NOT is_delete OR {is_unordered} THEN lack_reason END"


def _list_row_columns(table: StageTable) -> list[str]:
    # a delete shows the columns of its key that the value lacks
    keys = locate_key_columns(table)
    names = {c.name.casefold() for c in table.value_columns}
    columns = [f"{sql} AS {quote(name)}" for name, sql in keys.items() if name.casefold() not in names]
    for name in (c.name for c in table.value_columns):
        value = f"row_struct.{quote(name)}"
        if name in keys:
            value = f"CASE WHEN change <> '{DELETE}' OR is_tombstone THEN coalesce({value}, {keys[name]}) END"
        columns.append(f"{value} AS {quote(name)}")
    return columns


def locate_key_columns(table: StageTable) -> dict[str, str]:
    if table.key.into is not None and table.key_columns:
        return {table.key.into: "key_struct"}
    return {c.name: f"key_struct.{quote(c.name.removeprefix(table.key.prefix))}" for c in table.key_columns}


def _list_columns_beside_value(table: StageTable, metadata: dict[str, str], keys: Iterable[str] = ()) -> list[str]:
    metadata_columns = [
        f"CASE WHEN change = '{DELETE}' THEN {metadata[key]} ELSE row_struct.{quote(name)} END AS {quote(name)}"
        for name, key in table.metadata.items()
    ]
    names = {c.name.lower() for c in table.value_columns} | {name.lower() for name in (*table.metadata, *keys)}
    return metadata_columns + [name for name in PLACES if name not in names]


def _judge_old_keys(decoded: DataFrame, table: StageTable, metadata: dict[str, str]) -> DataFrame:
    hidden_columns = [*locate_key_columns(table), *(c.name for c in table.value_columns)]
    beside_value = None if table.retracts or table.when is None else render_without(table.when, hidden_columns)
    conditions = (beside_value, render_route(table.route))
    answers = [f"coalesce({render_attempt(sql)} <> 'false', true)" for sql in conditions if sql]
    if table.naming is not None and table.naming.name is not None:
        answers.append(f"coalesce({render_table_name(table.naming)} = {render_literal(table.naming.name)}, true)")
    nulls = [f"CAST(NULL AS {render_cast_type(c.type)}) AS {quote(c.name)}" for c in table.value_columns]
    rows = decoded.selectExpr("struct(*) AS _tidegate", *nulls, *_list_columns_beside_value(table, metadata))
    return rows.selectExpr("_tidegate.*", f"{' AND '.join(answers) or 'true'} AS is_old_key_wanted")


def render_attempt(expression: str) -> str:
    """Return what the expression gives, as text: of a condition true, false, null; NULL if it fails for the record.

    The lambda keeps Spark from computing a part of it elsewhere, where its failure would end the job.
    """
    answer = f"coalesce(CAST((\n{expression}\n) AS STRING), 'null')"
    return f"CAST(try_to_binary(get(transform(array(0), _tidegate_0 -> {answer}), 0), 'utf-8') AS STRING)"


def _render_answer(word: str, conditions: dict[str, str]) -> str:
    # an unknown answer lets a delete pass; a missing condition lets everything pass
    if word not in conditions:
        return "false" if word == "delete_when" else "true"
    if word == "delete_when":
        return f"coalesce(_tidegate_{word} = 'true', false)"
    return f"(_tidegate_{word} = 'true' OR _tidegate_{word} = 'null' AND {SHOWS_NO_ROW} OR _tidegate_{word} IS NULL)"


def _render_is_retracted(table: StageTable) -> str:
    answers = ", ".join(render_literal(answer) for answer in table.retracts)
    return f"coalesce(_tidegate_when IN ({answers}), false)" if answers else "false"


def _render_condition_reason(conditions: Iterable[str], lacking: Iterable[str]) -> str:
    # a record that cannot be judged is bad, so it counts as wanted
    return render_first_reason(
        *(f"WHEN _tidegate_lacks_{word} THEN '{word} {LACK_TEXT}'" for word in lacking),
        *(f"WHEN _tidegate_{word} IS NULL THEN '{word} {FAILURE_TEXT}'" for word in conditions),
    )


def _render_is_wanted_table(naming: TableNaming | None) -> str:
    # a delete shows no name
    if naming is None or naming.name is None:
        return "true"
    return (
        f"(coalesce(table_name = {render_literal(naming.name)}, false) "
        f"OR change = '{DELETE}' AND NOT is_tombstone AND table_name IS NULL)"
    )


def render_route(route: Route | None) -> str | None:
    """Whether the field's text is one of the names, or matches the whole pattern; NULL if there is no text."""
    if route is None:
        return None
    text = f"CAST({'.'.join(map(quote, route.steps))} AS STRING)"
    if route.pattern is None:
        return f"({text} IN ({', '.join(render_literal(name) for name in route.names)}))"
    whole = render_literal(rf"\A(?:{route.pattern})\z")
    return f"regexp_like({text}, {whole})"


def render_table_name(naming: TableNaming) -> str:
    """Return ``namespace.table`` as `TableNaming.name_of` makes it, NULL if a record's values make no such name."""
    valid = render_literal(rf"\A{VALUE_PATTERN}\z")
    fields = " AND ".join(f"regexp_like({_render_name_part(f)}, {valid})" for f in naming.fields)
    namespace = _render_template(naming.namespace)
    table = _render_template(naming.table)
    reserved = render_literal(rf"\A(?:{naming.reserved})\z")
    allowed = ", ".join(render_literal(name) for name in naming.namespaces)
    return (
        f"CASE WHEN {fields} AND {namespace} IN ({allowed}) AND length({table}) <= {MAX_NAME_CHARACTERS} "
        f"AND NOT regexp_like({table}, {reserved}) "
        f"THEN concat({namespace}, '.', {table}) END"
    )


def render_name_reason(naming: TableNaming) -> str:
    values = ", ' ', ".join(
        f"{render_literal(field + '=')}, "
        f"coalesce(to_json(struct(substr(CAST({quote(field)} AS STRING), 1, 100) AS v)), '')"
        for field in naming.fields
    )
    return f"concat('its values make no table name that the pipeline may use: ', {values})"


def _render_name_part(field: str) -> str:
    return f"lower(CAST({quote(field)} AS STRING))"


def _render_template(template: str) -> str:
    pieces = FIELD_PATTERN.split(template)
    return f"concat({', '.join(_render_name_part(p) if n % 2 else render_literal(p) for n, p in enumerate(pieces))})"
