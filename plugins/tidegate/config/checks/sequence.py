"""Checks what decides between records of one key: sequences, soft deletes, columns of updates, keys to find rows by."""

from collections.abc import Iterator, Mapping

from tidegate.config.models.pipeline import GroupsModel, HistoryModel
from tidegate.config.models.table_entry import TableEntry
from tidegate.config.parsing.problems import suggest_closest
from tidegate.schema.data_types import Array, Map, Primitive, iterate_types, parse_type
from tidegate.spec.projection import find_derived_columns, list_passed_columns
from tidegate.spec.source import split_cast
from tidegate.spec.table_template import is_template

# words of metadata whose texts have another order than what they tell
UNORDERED_METADATA = {
    "value.source.txId": "is text, by which transaction 100 comes before 99; order by another column, or by a number "
    "that select makes of it",
    "value.source.snapshot": "says how a record was read and not when, and a snapshot would stay ahead of later "
    "changes; leave it out",
}
# what places a record in the log; behind a column that orders it only decides between equals
PLACES = ("topic", "partition", "leader-epoch", "offset")
# Words of metadata that order a source's changes only together, and why: each counts within those ahead of it.
TOTAL_ORDERS = {
    ("value.source.file", "value.source.pos", "value.source.row"): "rows of one binlog event share file and pos",
    ("value.source.commit_lsn", "value.source.change_lsn", "value.source.event_serial_no"): (
        "changes of SQL Server may share commit_lsn and change_lsn"
    ),
}
DELETES_TABLE_COLUMNS = ("sequence", "topic", "partition", "offset", "timestamp")
# of one total order, the same in Spark and in BigQuery: NaN, among others, has another place in each
ORDERED = ("TINYINT", "SMALLINT", "INT", "BIGINT", "STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
GROUPS_EXAMPLE = "write e.g. {version: [name, city]}"
Types = Mapping[str, str]  # of columns by names without case


def check_sequences(entries: list[TableEntry]) -> None:
    """Problems of `sequence_by`, `deletes: soft` and the key columns of each table."""
    for entry in entries:
        _check_key_types(entry)
        _check_soft(entry)
        _check_partial(entry)
        _check_update_columns(entry)
        _check_history(entry)
        _check_truncates(entry)
        if entry.table.sequence_by:
            _check_sequence_by(entry)


def _check_key_types(entry: TableEntry) -> None:
    if not (entry.upserts or entry.deletes):
        return
    types = {**(entry.value_types or {}), **{c.name.casefold(): c.type for c in entry.key_columns or ()}}
    for index, name in enumerate(entry.key.fields):
        if _has_type(types.get(name.casefold(), "STRING"), Array, Map):
            problem = "holds an array or a map, and rows cannot be found by it; choose other fields"
            entry.findings.add((*entry.key_path, "fields", index), problem)


def _has_type(text: str, *kinds: type) -> bool:
    return any(isinstance(data_type, kinds) for data_type in iterate_types(parse_type(text)))


def _list_record_names(entry: TableEntry) -> set[str]:
    return {*(entry.value_types or ()), *entry.metadata_words, *entry.key_names}


def _check_soft(entry: TableEntry) -> None:
    if entry.table.deletes != "soft":
        return
    if not (entry.upserts and entry.deletes):
        problem = "keeps rows that upserts write and deletes mark; set upsert and delete, or use hard"
        entry.add("deletes", problem)
    flag = entry.table.deleted_column
    if flag.casefold() in _list_record_names(entry):
        problem = f"adds the column {flag}, and the record has one too; name another in deleted_column"
        entry.add("deletes", problem)


def _check_partial(entry: TableEntry) -> None:
    if not entry.table.partial_updates:
        return
    if not entry.upserts:
        entry.add("partial_updates", "changes rows that are there; set upsert: true, or leave it out")
    groups = entry.table.groups
    if isinstance(entry.table.partial_updates, GroupsModel) and not groups:
        missing = f"no group; {GROUPS_EXAMPLE}, or partial_updates: true"
        entry.add(("partial_updates", "sequence_groups"), missing)
    table_types = _find_table_types(entry)
    sequences = {sequence.casefold() for sequence, _ in groups}
    grouped_names = set[str]()
    for sequence, members in groups:
        path = ("partial_updates", "sequence_groups", sequence)
        problem = _find_name_problem(entry, sequence, table_types) or _find_disorder(sequence, table_types)
        if sequence.casefold() in grouped_names:
            problem = "listed twice in the groups; a column follows one sequence"
        elif not members:
            problem = f"no column follows it; {GROUPS_EXAMPLE}"
        if problem:
            entry.add(path, problem)
        grouped_names.add(sequence.casefold())
        for index, name in enumerate(members):
            problem = _find_name_problem(entry, name, table_types)
            if name.casefold() in sequences:
                problem = "the sequence of a group, which is written with it; leave it out here"
            elif name.casefold() in grouped_names:
                problem = "listed twice in the groups; a column follows one sequence"
            if problem:
                entry.add((*path, index), problem)
            grouped_names.add(name.casefold())
    if entry.table.sequence_by:
        late = "sequence_by knows one order for a whole row, and a late record may be newer for some columns only"
        entry.add("partial_updates", f"{late}; keep one of the two")


def _find_table_types(entry: TableEntry) -> Types | None:
    """Types of the columns that `select` makes, else of the record's; None where the file does not tell them."""
    return None if entry.value_types is None else _select_types(entry, entry.value_types | entry.metadata_types)


def _select_types(entry: TableEntry, types: Types) -> Types:
    select = entry.select
    if select is None:
        return types
    as_they_are = list_passed_columns(select, types)
    derived_types = {item.name.casefold(): item.type or "STRING" for item in select.items if item.name}
    return {**derived_types, **{name: types[name] for name in as_they_are if name in types}}


def needs_no_offsets(entry: TableEntry) -> bool:
    """Whether all columns are in groups and nothing is deleted.

    No offset, which several topics do not share, decides then.
    """
    groups = entry.table.groups
    if not groups or entry.table.delete is not False or entry.value_types is None:
        return False
    keys = {(entry.key.prefix + field).casefold() for field in entry.key.fields}
    grouped_columns = {name.casefold() for sequence, members in groups for name in (sequence, *members)}
    types = entry.value_types | entry.metadata_types
    return set(_select_types(entry, types)) - keys <= grouped_columns


def _find_name_problem(entry: TableEntry, name: str, table_types: Types | None) -> str | None:
    """Why a key cannot list this column, or None. Without `table_types` the columns are unknown."""
    keys = entry.key_names
    if name.casefold() in keys:
        return "a key column, which is the same in all records of a key; leave it out"
    if table_types is None or name.casefold() in table_types:
        return None
    other_columns = [column for column in table_types if column not in keys]
    return f"not a column of the table; {suggest_closest(name, other_columns)}"


def _find_disorder(name: str, table_types: Types | None) -> str | None:
    kind = None if table_types is None else table_types.get(name.casefold())
    data_type = None if kind is None else parse_type(kind)
    if data_type is None or (isinstance(data_type, Primitive) and (data_type.decimal or data_type.name in ORDERED)):
        return None
    return f"{kind} has no order to go by; choose a whole number, DECIMAL, STRING, DATE or TIMESTAMP"


def _check_update_columns(entry: TableEntry) -> None:
    table = entry.table
    key = "update_columns"
    if key not in table.model_fields_set:
        return
    if not table.update_columns:
        entry.add(key, "no column in it; list those that an update changes, or leave it out for all")
    if not entry.upserts:
        entry.add(key, "says what an update of a row changes; set upsert: true, or leave it out")
    rules = {
        "sequence_by": bool(table.sequence_by),
        "history": table.history != "none",
        "partial_updates": bool(table.partial_updates),
    }
    for rule in (rule for rule, is_set in rules.items() if is_set):
        entry.add(key, f"not with {rule}, which decides otherwise what stays of a row; keep one of the two")
    if table.create.properties.get("partition_column") == "immutable":
        reason = "which looks for a row where its newest record would lie; keep one of the two"
        entry.add(key, f"not with partition_column: immutable, {reason}")
    table_types = _find_table_types(entry)
    entry.findings.add_repeats((*entry.path, key), [name.casefold() for name in table.update_columns])
    for index, name in enumerate(table.update_columns):
        problem = _find_name_problem(entry, name, table_types)
        if problem:
            entry.add((key, index), problem)


def _check_history(entry: TableEntry) -> None:
    table = entry.table
    if table.history == "none":
        if table.history_columns != HistoryModel():
            entry.add("history_columns", "only for history: scd2; set that, or leave it out")
        return
    if not entry.upserts:
        problem = "keeps the versions that upserts make; give key.fields and upsert: true, or leave it out"
        entry.add("history", problem)
    for word, is_set in (("deletes", table.deletes == "soft"), ("partial_updates", table.partial_updates)):
        if is_set:
            entry.add(word, "not with history: scd2, which keeps rows as they were; keep one of the two")
    folded = [name.casefold() for name in entry.history_names]
    record_names = _list_record_names(entry)
    for name in entry.history_names:
        if name.casefold() in record_names and table.select is None:
            problem = f"adds the column {name}, and the record has one too; name another in history_columns"
            entry.add("history", problem)
        if folded.count(name.casefold()) > 1:
            entry.add("history_columns", f"{name} is given twice; name three columns")


def _check_truncates(entry: TableEntry) -> None:
    table = entry.table
    source = entry.model.source
    if entry.value.truncate != "apply":
        return
    topics = table.topics if table.topics is not None else source.topics
    words = {
        "source.topic_pattern": source.topic_pattern is not None,
        f"topics={len(topics)}": len(topics) > 1,
        "upsert: false": not entry.upserts,
        "delete: false": not entry.deletes,
        "deletes: soft": table.deletes == "soft",
        "history: scd2": table.history != "none",
        "partial_updates": bool(table.partial_updates),
        "sequence_by": bool(table.sequence_by),
        "when": table.when is not None,
        "route": table.route is not None,
        "a name that records fill in": is_template(table.name),
    }
    for word in (word for word, is_set in words.items() if is_set):
        entry.findings.add(
            (*entry.value_path, "truncate"),
            f"apply empties {table.name}, whose rows must all come from one topic, in the order of its offsets: "
            f"not with {word}; leave it out, or use refuse or ignore",
        )


def _check_sequence_by(entry: TableEntry) -> None:
    if not entry.upserts:
        entry.add("sequence_by", "orders records that replace one another; set upsert: true, or leave it out")
    folded = [name.casefold() for name in entry.table.sequence_by]
    entry.findings.add_repeats((*entry.path, "sequence_by"), folded)
    for index, name in enumerate(folded):
        problem = None if name in folded[:index] else _find_column_problem(entry, name, is_first=index == 0)
        if problem:
            entry.add(("sequence_by", index), problem)
    for problem in _list_order_problems(entry):
        entry.add("sequence_by", problem)
    remembers = entry.deletes and entry.table.history == "none"
    for index, name in enumerate(entry.key_names if remembers else ()):
        if name in DELETES_TABLE_COLUMNS:
            key_word = ("fields", index) if entry.key.into is None else ("into",)
            problem = f"{entry.table.name}_deletes has a column {name} of its own; use key.prefix, or another name"
            entry.findings.add((*entry.key_path, *key_word), problem)


def _list_order_problems(entry: TableEntry) -> Iterator[str]:
    derived_columns = {} if entry.select is None else find_derived_columns(entry.select)
    words = list[str]()
    for name in map(str.casefold, entry.table.sequence_by):
        item = derived_columns.get(name)
        columns = (name,) if item is None else (*item.reads, *item.path[:1])
        words += [entry.metadata_words.get(column.casefold(), "") for column in columns]
    # equal sequences are left to the offset, which says nothing between partitions: an order must be whole
    for order, reason in TOTAL_ORDERS.items():
        used_words = list(dict.fromkeys(word for word in words if word in order))
        if used_words and (used_words[-1] != order[-1] or used_words != sorted(used_words, key=order.index)):
            yield f"{reason}; add a column of {order[-1]} behind them, in the order {', '.join(order)}"


def _find_column_problem(entry: TableEntry, name: str, *, is_first: bool) -> str | None:
    items = () if entry.select is None else entry.select.items
    derived_columns = {} if entry.select is None else find_derived_columns(entry.select)
    types = {**(entry.value_types or {}), **entry.metadata_types}
    types |= {n: item.type or "STRING" for n, item in derived_columns.items()}
    if name in entry.key_names:
        return "a key column, which is the same in all records of a key; choose another"
    if name not in types:
        if any(item.is_joined and (item.name or "").casefold() == name for item in items):
            return "made of a joined table, of which a delete shows nothing; make it of the record alone"
        known_for_sure = entry.value_types is not None
        return f"not a column of the value or of metadata; {suggest_closest(name, types)}" if known_for_sure else None
    item = derived_columns.get(name)
    column = item.path[0].casefold() if item is not None and len(item.path) == 1 else name
    word = split_cast(entry.metadata_words.get(column, ""))[0]
    problem = UNORDERED_METADATA.get(word)
    if is_first and word in PLACES:
        problem = (
            f"is the {word} of a record, so records of another partition, or of a topic that is created again, would "
            "count as late, and be left out; put a column before it that orders them, or leave it out: the higher "
            "offset wins by itself"
        )
    if problem and not (item is not None and item.sql):
        return problem
    return "holds a map, which has no order; choose another column" if _has_type(types[name], Map) else None
