"""Checks what decides between records of one key: sequences, soft deletes, columns of updates, keys to find rows by."""

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.config.models.formats import KeyModel
from tidegate.config.models.pipeline import HistoryModel, PipelineModel, TableModel
from tidegate.config.models.sequence_groups import check_groups, find_name_problem, resolve_table_types
from tidegate.config.parsing.ddl import parse_columns
from tidegate.config.parsing.problems import Problems, suggest_closest
from tidegate.config.parsing.select_statement import parse_select
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.schema.data_types import Array, DataType, Map, Struct, parse_type
from tidegate.spec.projection import Select, find_derived_columns
from tidegate.spec.source import METADATA_TYPES
from tidegate.spec.table_template import is_template

# words of metadata whose texts have another order than what they tell
UNORDERED_METADATA = {
    "value.source.txId": "is text, by which transaction 100 comes before 99; order by another column, or by a number "
    "that select makes of it",
    "value.source.snapshot": "says how a record was read and not when, and a snapshot would stay ahead of later "
    "changes; leave it out",
}
# Words of metadata that order a source's changes only together, and why: each counts within those ahead of it.
TOTAL_ORDERS = {
    ("value.source.file", "value.source.pos", "value.source.row"): "rows of one binlog event share file and pos",
    ("value.source.commit_lsn", "value.source.change_lsn", "value.source.event_serial_no"): (
        "changes of SQL Server may share commit_lsn and change_lsn"
    ),
}
DELETES_TABLE_COLUMNS = ("sequence", "topic", "partition", "offset", "timestamp")


@dataclass(frozen=True)
class _CheckedTable:
    """One table with the key and the columns that feed it.

    `types`: by names without case, None without a schema; `words`: those of the metadata columns.
    """

    table: TableModel
    path: KeyPath
    key: KeyModel
    key_path: KeyPath
    types: dict[str, str] | None
    words: dict[str, str]

    @property
    def metadata(self) -> dict[str, str]:
        return {name: METADATA_TYPES.get(word, "STRING") for name, word in self.words.items()}

    @property
    def upsert(self) -> bool:
        return bool(self.key.fields) if self.table.upsert is None else self.table.upsert

    @property
    def delete(self) -> bool:
        return bool(self.key.fields) if self.table.delete is None else self.table.delete

    @property
    def key_names(self) -> list[str]:
        if self.key.into is not None:
            return [self.key.into.casefold()]
        topic_column = self.table.find_topic_in_key(self.words)
        names = [self.key.prefix + field for field in self.key.fields]
        return [name.casefold() for name in (*names, *([topic_column] if topic_column else []))]


def check_sequences(model: PipelineModel, findings: Problems) -> None:
    """Problems of `sequence_by`, `deletes: soft` and the key columns of each table."""
    words = {name.casefold(): word for name, word in model.source.metadata.items()}
    for index, table in enumerate(model.tables):
        path: KeyPath = ("tables", index)
        key, key_path = (table.key, (*path, "key")) if table.key else (model.source.key, ("source", "key"))
        types = _try_parse_types((table.value or model.source.value).schema_)
        checked_table = _CheckedTable(table=table, path=path, key=key, key_path=key_path, types=types, words=words)
        _check_key_types(checked_table, findings)
        _check_soft(checked_table, findings)
        _check_partial(checked_table, findings)
        _check_update_columns(checked_table, findings)
        _check_history(checked_table, findings)
        _check_truncates(checked_table, model, findings)
        if table.sequence_by:
            _check_sequence_by(checked_table, findings)


def _try_parse_types(ddl: str | None) -> dict[str, str] | None:
    try:
        return None if ddl is None else {c.name.casefold(): c.type for c in parse_columns(ddl)}
    # it is reported where the source is checked
    except ValueError:
        return None


def _check_key_types(checked_table: _CheckedTable, findings: Problems) -> None:
    if not (checked_table.upsert or checked_table.delete):
        return
    types = {**(checked_table.types or {}), **(_try_parse_types(checked_table.key.schema_) or {})}
    for index, name in enumerate(checked_table.key.fields):
        if _has_type(parse_type(types.get(name.casefold(), "STRING")), Array, Map):
            message = "holds an array or a map, and rows cannot be found by it; choose other fields"
            findings.add((*checked_table.key_path, "fields", index), message)


def _check_soft(checked_table: _CheckedTable, findings: Problems) -> None:
    deletes_path = (*checked_table.path, "deletes")
    if checked_table.table.deletes != "soft":
        return
    if not (checked_table.upsert and checked_table.delete):
        findings.add(deletes_path, "keeps rows that upserts write and deletes mark; set upsert and delete, or use hard")
    flag = checked_table.table.deleted_column
    if flag.casefold() in {*(checked_table.types or ()), *checked_table.metadata, *checked_table.key_names}:
        findings.add(
            deletes_path, f"adds the column {flag}, and the record has one too; name another in deleted_column"
        )


def _check_partial(checked_table: _CheckedTable, findings: Problems) -> None:
    partial_path = (*checked_table.path, "partial_updates")
    if not checked_table.table.partial_updates:
        return
    if not checked_table.upsert:
        findings.add(partial_path, "changes rows that are there; set upsert: true, or leave it out")
    types = None if checked_table.types is None else {**checked_table.types, **checked_table.metadata}
    check_groups(checked_table.table, types, checked_table.key_names, checked_table.path, findings)
    if checked_table.table.sequence_by:
        late = "sequence_by knows one order for a whole row, and a late record may be newer for some columns only"
        findings.add(partial_path, f"{late}; keep one of the two")


def _check_update_columns(checked_table: _CheckedTable, findings: Problems) -> None:
    table = checked_table.table
    update_path = (*checked_table.path, "update_columns")
    if "update_columns" not in table.model_fields_set:
        return
    if not table.update_columns:
        findings.add(update_path, "no column in it; list those that an update changes, or leave it out for all")
    if not checked_table.upsert:
        findings.add(update_path, "says what an update of a row changes; set upsert: true, or leave it out")
    rules = {
        "sequence_by": bool(table.sequence_by),
        "history": table.history != "none",
        "partial_updates": bool(table.partial_updates),
    }
    for rule in (rule for rule, is_set in rules.items() if is_set):
        findings.add(update_path, f"not with {rule}, which decides otherwise what stays of a row; keep one of the two")
    if table.create.properties.get("partition_column") == "immutable":
        findings.add(
            update_path,
            "not with partition_column: immutable, which looks for a row where its newest record would lie; "
            "keep one of the two",
        )
    types = None if checked_table.types is None else {**checked_table.types, **checked_table.metadata}
    table_types = None if types is None else resolve_table_types(table, types)
    findings.add_repeats(update_path, [name.casefold() for name in table.update_columns])
    for index, name in enumerate(table.update_columns):
        problem = find_name_problem(name, table_types, checked_table.key_names)
        if problem:
            findings.add((*update_path, index), problem)


def _check_history(checked_table: _CheckedTable, findings: Problems) -> None:
    table = checked_table.table
    history_path = (*checked_table.path, "history")
    names = list(table.history_columns.model_dump().values())
    if table.history == "none":
        if table.history_columns != HistoryModel():
            findings.add((*checked_table.path, "history_columns"), "only for history: scd2; set that, or leave it out")
        return
    if not checked_table.upsert:
        findings.add(
            history_path, "keeps the versions that upserts make; give key.fields and upsert: true, or leave it out"
        )
    for word, is_set in (("deletes", table.deletes == "soft"), ("partial_updates", table.partial_updates)):
        if is_set:
            findings.add(
                (*checked_table.path, word),
                "not with history: scd2, which keeps rows as they were; keep one of the two",
            )
    folded = [name.casefold() for name in names]
    record_names = {*(checked_table.types or ()), *checked_table.metadata, *checked_table.key_names}
    for name in names:
        if name.casefold() in record_names and table.select is None:
            findings.add(
                history_path, f"adds the column {name}, and the record has one too; name another in history_columns"
            )
        if folded.count(name.casefold()) > 1:
            findings.add((*checked_table.path, "history_columns"), f"{name} is given twice; name three columns")


def _check_truncates(checked_table: _CheckedTable, model: PipelineModel, findings: Problems) -> None:
    table = checked_table.table
    value = checked_table.table.value or model.source.value
    if value.truncate != "apply":
        return
    topics = table.topics if table.topics is not None else model.source.topics
    words = {
        "source.topic_pattern": model.source.topic_pattern is not None,
        f"topics={len(topics)}": len(topics) > 1,
        "upsert: false": not checked_table.upsert,
        "delete: false": not checked_table.delete,
        "deletes: soft": table.deletes == "soft",
        "history: scd2": table.history != "none",
        "partial_updates": bool(table.partial_updates),
        "sequence_by": bool(table.sequence_by),
        "when": table.when is not None,
        "route": table.route is not None,
        "a name that records fill in": is_template(table.name),
    }
    path = (*checked_table.path, "value") if table.value else ("source", "value")
    for word in (word for word, is_set in words.items() if is_set):
        findings.add(
            (*path, "truncate"),
            f"apply empties {table.name}, whose rows must all come from one topic, in the order of its offsets: "
            f"not with {word}; leave it out, or use refuse or ignore",
        )


def _check_sequence_by(checked_table: _CheckedTable, findings: Problems) -> None:
    sequence_path = (*checked_table.path, "sequence_by")
    if not checked_table.upsert:
        findings.add(sequence_path, "orders records that replace one another; set upsert: true, or leave it out")
    folded = [name.casefold() for name in checked_table.table.sequence_by]
    findings.add_repeats(sequence_path, folded)
    for index, name in enumerate(folded):
        problem = None if name in folded[:index] else _find_column_problem(checked_table, name)
        if problem:
            findings.add((*sequence_path, index), problem)
    for problem in _list_order_problems(checked_table):
        findings.add(sequence_path, problem)
    remembers = checked_table.delete and checked_table.table.history == "none"
    for index, name in enumerate(checked_table.key_names if remembers else ()):
        if name in DELETES_TABLE_COLUMNS:
            key_word = ("fields", index) if checked_table.key.into is None else ("into",)
            message = (
                f"{checked_table.table.name}_deletes has a column {name} of its own; use key.prefix, or another name"
            )
            findings.add((*checked_table.key_path, *key_word), message)


def _list_order_problems(checked_table: _CheckedTable) -> Iterable[str]:
    select = _select(checked_table.table)
    derived_columns = {} if select is None else find_derived_columns(select)
    words = list[str]()
    for name in map(str.casefold, checked_table.table.sequence_by):
        item = derived_columns.get(name)
        columns = (name,) if item is None else (*item.reads, *item.path[:1])
        words += [checked_table.words.get(column.casefold(), "") for column in columns]
    # equal sequences are left to the offset, which says nothing between partitions: an order must be whole
    for order, reason in TOTAL_ORDERS.items():
        used_words = list(dict.fromkeys(word for word in words if word in order))
        if used_words and (used_words[-1] != order[-1] or used_words != sorted(used_words, key=order.index)):
            yield f"{reason}; add a column of {order[-1]} behind them, in the order {', '.join(order)}"


def _find_column_problem(checked_table: _CheckedTable, name: str) -> str | None:
    select = _select(checked_table.table)
    derived_columns = {} if select is None else find_derived_columns(select)
    types = {
        **(checked_table.types or {}),
        **checked_table.metadata,
        **{n: item.type or "STRING" for n, item in derived_columns.items()},
    }
    if name in checked_table.key_names:
        return "a key column, which is the same in all records of a key; choose another"
    if name not in types:
        if select is not None and any(item.is_joined and (item.name or "").casefold() == name for item in select.items):
            return "made of a joined table, of which a delete shows nothing; make it of the record alone"
        known_for_sure = checked_table.types is not None
        return f"not a column of the value or of metadata; {suggest_closest(name, types)}" if known_for_sure else None
    column = (
        derived_columns[name].path[0].casefold()
        if name in derived_columns and len(derived_columns[name].path) == 1
        else name
    )
    if not (name in derived_columns and derived_columns[name].sql) and (
        problem := UNORDERED_METADATA.get(checked_table.words.get(column, ""))
    ):
        return problem
    return "holds a map, which has no order; choose another column" if _has_type(parse_type(types[name]), Map) else None


def _select(table: TableModel) -> Select | None:
    try:
        return None if table.select is None else parse_select(table.select)
    # it is reported by its own check
    except ValueError:
        return None


def _has_type(data_type: DataType, *kinds: type) -> bool:
    if isinstance(data_type, kinds):
        return True
    match data_type:
        case Array(element):
            return _has_type(element, *kinds)
        case Map(key, value):
            return _has_type(key, *kinds) or _has_type(value, *kinds)
        case Struct(fields):
            return any(_has_type(inner, *kinds) for _, inner in fields)
    return False
