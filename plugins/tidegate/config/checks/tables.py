"""Checks the destination side of a pipeline file: names, topics, keys, conditions, and what destinations can do."""

import re
from collections.abc import Mapping

from tidegate.config.checks.sequence import needs_no_offsets
from tidegate.config.checks.source import check_java_pattern, explain_unread_topic, match_topic
from tidegate.config.destinations.registry import DESTINATIONS, SPARK_DESTINATION, get_destination, list_titles
from tidegate.config.models.pipeline import BY_TOPIC, PipelineModel
from tidegate.config.models.table_entry import TableEntry
from tidegate.config.parsing.ddl import check_audit, check_condition, find_condition_paths
from tidegate.config.parsing.problems import Problems, refuse_secrets, suggest_closest
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.merge.hold import DIFF_COUNTS, UNREADABLE_COLUMNS
from tidegate.model.backfill import ID_DIGITS
from tidegate.model.resource_names import get_branch_suffix
from tidegate.spec.pipeline import Catalog
from tidegate.spec.table_template import FIELD_PATTERN, MAX_NAME_CHARACTERS, is_template, split_template

Catalogs = Mapping[str, Catalog | str]
NAMESPACE_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_][A-Za-z0-9_-]*)*")
NAME_PART_PATTERN = re.compile(r"[^.`'\"/\\\s\x00-\x1f]+")
MIN_NAME_PARTS = 3
SHOWN_NAME_CHARACTERS = 60


def check_tables(
    pipeline: str, model: PipelineModel, entries: list[TableEntry], catalogs: Catalogs, findings: Problems
) -> None:
    """A catalog given as text is one whose declaration is broken."""
    if not entries:
        findings.add(("tables",), "no table to write; add e.g. - name: lake.shop.orders")
    for entry in entries:
        table = entry.table
        check_table_name(table.name, (*entry.path, "name"), catalogs, findings)
        properties = (*entry.path, "create", "properties")
        refuse_secrets(table.create.properties, properties, findings, "the catalog's connection")
        _check_modes(entry)
        _check_branch(entry)
        _check_feeding_topics(entry)
        _check_topic_in_key(entry)
        if table.route is not None and table.route.pattern is not None:
            path = (*entry.path, "route", "pattern")
            findings.run_check(path, check_java_pattern, table.route.pattern)
        for word, condition in (("when", table.when), ("delete_when", table.delete_when)):
            if condition is not None:
                findings.run_check((*entry.path, word), check_condition, condition)
        _check_when_false(entry)
        _check_added_columns(entry)
        in_spark = get_destination(catalogs.get(entry.catalog_name)) is SPARK_DESTINATION
        for number, audit in enumerate(table.audits):
            findings.run_check((*entry.path, "audits", number), check_audit, audit, in_spark)
        _check_approve(entry)
    _check_templates(entries)
    _check_collisions(pipeline, entries)
    _check_every_topic_is_used(model, findings)


def _check_templates(entries: list[TableEntry]) -> None:
    templates = [entry for entry in entries if is_template(entry.table.name)]
    for entry in entries:
        if entry in templates[1:]:
            entry.add("name", "a second name template; a pipeline has at most one, make two pipelines")
        if entry in templates:
            _check_template(entry)
        elif entry.table.namespaces:
            entry.add("namespaces", "only for a name with a {field} in it; leave it out")


def _check_template(entry: TableEntry) -> None:
    table = entry.table
    source = entry.model.source
    namespace, _ = split_template(table.name.partition(".")[2])
    if is_template(entry.catalog_name):
        entry.add("name", "the catalog must be a fixed name; write e.g. lake.shop.{type}")
    if is_template(namespace) and not table.namespaces:
        entry.add("namespaces", f"missing: name={table.name} may lead anywhere; list those it may lead to")
    for place, name in enumerate(table.namespaces):
        if name.lower() != name or not NAMESPACE_PATTERN.fullmatch(name):
            problem = "not a namespace; lower-case letters, digits, underscore, dash and dots"
            entry.add(("namespaces", place), problem)
    if not is_template(namespace) and table.namespaces and table.namespaces != [namespace]:
        wrong = f"the name has the namespace {namespace} in it; put a {{field}} there, or leave this out"
        entry.add("namespaces", wrong)
    if source.errors.tolerance != "none":
        problem = "all is not available beside a name template"
        reason = "a record that names no table has nowhere to be set aside; write none"
        entry.findings.add(("source", "errors", "tolerance"), f"{problem}: {reason}")
    if entry.value_columns is None:
        entry.add("name", "needs value.schema: there is no table yet to take the columns from")
        return
    names = {column.name for column in entry.value_columns} | set(source.metadata) | {"topic"}
    for field in FIELD_PATTERN.findall(table.name):
        if field.casefold() not in {name.casefold() for name in names}:
            entry.add("name", f"{{{field}}} is not a column of the value; {suggest_closest(field, names)}")


def _check_added_columns(entry: TableEntry) -> None:
    """A table to which no record can add a column."""
    table = entry.table
    value = entry.value
    findings = entry.findings
    if value.unknown_fields != "add":
        if "infer" in value.model_fields_set:
            problem = "of columns that records make; set unknown_fields: add, or leave it out"
            findings.add((*entry.value_path, "infer"), problem)
        return
    path = (*entry.value_path, "unknown_fields")
    if value.json_ is not None and value.json_.registry is not None:
        findings.add(path, "the registry's schema says which columns there are; leave json.registry out, or use warn")
    if is_template(table.name):
        findings.add(path, "tables that records name get no columns of them; declare value.schema")
    if table.select is not None:
        findings.add(path, "select says which columns there are; declare value.schema, or leave select out")
    if not table.evolve.add_columns:
        findings.add(path, "evolve.add_columns is false; allow it, or choose warn, refuse or ignore")
    if entry.model.source.verify_integrity and value.schema_ is None:
        findings.add(path, "verify_integrity compares declared columns; name the fields of the key in value.schema")
    if value.schema_ is None:
        _check_names_of_made_columns(entry)


def _check_names_of_made_columns(entry: TableEntry) -> None:
    # the merge of a batch without such a column would fail, and nothing is staged behind it that could make one
    table = entry.table
    settings: dict[KeyPath, list[str]] = {
        ("sequence_by",): table.sequence_by,
        ("update_columns",): table.update_columns,
        ("partial_updates", "sequence_groups"): [n for name, members in table.groups for n in (name, *members)],
    }
    own_names = {*entry.metadata_words, *entry.key_names}
    for setting, names in settings.items():
        made_names = [name for name in names if name.casefold() not in own_names]
        if made_names:
            entry.add(setting, f"no record may have made {made_names[0]} yet; declare it in value.schema")


def check_table_name(name: str, path: KeyPath, catalogs: Catalogs, findings: Problems) -> None:
    """A name that is no table's, or whose catalog cannot be used."""
    plain_name = FIELD_PATTERN.sub("x", name)
    parts = plain_name.split(".")
    is_plain = not is_template(plain_name) and all(NAME_PART_PATTERN.fullmatch(part) for part in parts)
    if not is_plain or len(parts) < MIN_NAME_PARTS:
        findings.add(path, "not a table's full name; write <catalog>.<namespace>.<table>, e.g. lake.shop.orders")
        return
    catalog = catalogs.get(parts[0])
    if catalog is None:
        suggestion = suggest_closest(parts[0], catalogs) if catalogs else "it declares none"
        findings.add(path, f"catalog={parts[0]} is not in catalogs.yaml; {suggestion}")
    elif isinstance(catalog, str):
        findings.add(path, f"catalog={parts[0]} is declared wrongly: {catalog}")


def _check_branch(entry: TableEntry) -> None:
    if entry.table.branch != "main" and is_template(entry.table.name):
        entry.add("branch", "not for a name that records fill in; give such tables' branches one by one")
    if entry.table.branch.startswith("tidegate_"):
        entry.add("branch", "branches of this beginning are Tidegate's own; choose another name")


def _check_modes(entry: TableEntry) -> None:
    table = entry.table
    fields_set = entry.key.model_fields_set
    if entry.key.fields:
        return
    if fields_set and "fields" not in fields_set and table.upsert is None and table.delete is None:
        entry.findings.warn(
            entry.key_path,
            f"no key.fields, so every record is appended to {table.name} and no row is ever found by its key; give "
            "key.fields, or key.fields: [] if that is meant",
        )
    for word, is_enabled in (("upsert", table.upsert), ("delete", table.delete)):
        if is_enabled:
            entry.add(word, "needs a key to find the row by; give source.key.fields, or set it to false")
    if table.delete_when is not None:
        entry.add("delete_when", "needs a key to find the row by; give source.key.fields, or leave it out")


def _check_approve(entry: TableEntry) -> None:
    table = entry.table
    approve = table.approve
    if approve is None:
        return
    if not any(value is not None for value in approve.model_dump().values()):
        entry.add("approve", "holds no batch; give deletes_over, rows_over, schema or when")
    if not entry.upserts and not entry.deletes:
        entry.add("approve", "counts the rows of keys, and this table is only appended to; use audits")
    elif isinstance(approve.deletes_over, str) and not entry.upserts:
        problem = "deletes are counted by key, and without upsert a key may have any number of the table's rows"
        entry.add(("approve", "deletes_over"), f"{problem}, so it has no share of them; give a number of keys")
    if is_template(table.name):
        entry.add("approve", "not for tables that records name; nobody would look at each of them")
    if table.deletes == "soft" and table.deleted_column in UNREADABLE_COLUMNS:
        problem = f"Spark reads no column {table.deleted_column}, so soft deletes would be overlooked"
        entry.add("deleted_column", f"{problem}; give another name beside approve, e.g. is_deleted")
    if approve.when is None:
        return
    path = (*entry.path, "approve", "when")
    findings = entry.findings
    findings.run_check(path, check_condition, approve.when)
    strange = [".".join(part) for part in find_condition_paths(approve.when) if part[-1].casefold() not in DIFF_COUNTS]
    if strange:
        findings.add(path, f"{strange[0]} is no count of a diff; there are: {', '.join(DIFF_COUNTS)}")


def _check_when_false(entry: TableEntry) -> None:
    if entry.table.when_false == "ignore":
        return
    if entry.table.when is None:
        problem = "says what a record does for which when does not hold, and there is no when; add it"
        entry.add("when_false", problem)
    if not entry.deletes:
        entry.add("when_false", "deletes rows by their key; give key.fields and delete: true, or leave it out")


def _check_feeding_topics(entry: TableEntry) -> None:
    table = entry.table
    source = entry.model.source
    for index, topic in enumerate(table.topics or []):
        unread = explain_unread_topic(topic, source)
        if unread:
            entry.add(("topics", index), unread)
    entry.findings.add_repeats((*entry.path, "topics"), table.topics or [])
    if table.topics == []:
        entry.add("topics", "no topic feeds this table; leave the key out for all of source.topics")
    feeding = set(source.topics if table.topics is None else table.topics)
    several = len(feeding) > 1 or (source.topic_pattern is not None and table.topics is None)
    is_ordered = bool(table.sequence_by) or table.disjoint_keys or needs_no_offsets(entry)
    if (entry.upserts or entry.deletes) and several and not is_ordered:
        entry.add(
            "topics" if table.topics else "name",
            "several topics feed it, and records of one key in two topics have no order; "
            "give each topic its own table, or set disjoint_keys: by-topic to make the topic a part of the key, or "
            "true if they never share a key"
            + (", or put all columns into sequence_groups and set delete: false" if table.partial_updates else ""),
        )


def _check_topic_in_key(entry: TableEntry) -> None:
    if entry.table.disjoint_keys != BY_TOPIC:
        return
    word = "disjoint_keys"
    key = entry.key
    column = entry.topic_column
    if column is None:
        entry.add(word, "the topic needs a column to be a part of the key; add source.metadata: {topic: topic}")
    elif column.casefold() in {name.casefold() for name in key.fields}:
        entry.add(word, f"key.fields has a {column} of its own; give the topic another column in source.metadata")
    if not key.fields:
        entry.add(word, "there is no key that the topic could be a part of; give key.fields, or leave it out")
    if key.into is not None:
        entry.add(word, "the topic is no part of the struct that key.into makes; use key.prefix in place of it")


def _check_collisions(pipeline: str, entries: list[TableEntry]) -> None:
    names = [entry.table.name.casefold() for entry in entries]
    product_tables = {name.casefold() for name in _list_product_tables(pipeline, entries)}
    for entry, name in zip(entries, names, strict=True):
        first = names.index(name)
        if name and first < entry.index:
            entry.add("name", f"the same destination as tables[{first}]; keep one of them")
        inside = next((other for other in names if other.startswith(f"{name}.")), None)
        if inside is not None:
            problem = f"also the namespace of {inside}, whose files would lie among its own; rename one of the two"
            entry.add("name", problem)
        if name in product_tables:
            entry.add("name", "Tidegate makes a table of this name for itself; rename the destination")


def _list_product_tables(pipeline: str, entries: list[TableEntry]) -> list[str]:
    """Full names of the tables that the product keeps beside the destinations."""
    names = list[str]()
    for entry in entries:
        table = entry.table
        memory = "changes" if table.history == "scd2" else "deletes"
        suffixes = {f"{pipeline}{entry.model.merge.intermediate_suffix}", "deletes", "tidegate_position", memory}
        suffixes.add(f"{get_branch_suffix(table.branch)}{memory}")
        names += [f"{table.name}_{suffix}" for suffix in suffixes]
    if entries and "." in entries[0].table.name:
        namespace = entries[0].table.name.rsplit(".", 1)[0]
        names += [f"{namespace}.tidegate_{pipeline}_{kind}" for kind in ("batches", "dead_letters")]
    return names


def _check_every_topic_is_used(model: PipelineModel, findings: Problems) -> None:
    if not model.tables or any(table.topics is None for table in model.tables):
        return
    used_topics = {topic for table in model.tables for topic in table.topics or []}
    for index, topic in enumerate(model.source.topics):
        may_be_ignored = any(match_topic(pattern, topic) is not False for pattern in model.heartbeat.ignore_topics)
        if topic not in used_topics and not may_be_ignored:
            findings.add(
                ("source", "topics", index),
                "feeds no table; name it in tables[].topics, or take it out of source.topics",
            )


def check_destinations(
    pipeline: str, model: PipelineModel, entries: list[TableEntry], catalogs: Catalogs, findings: Problems
) -> None:
    """What the tables of a pipeline file ask for and their destinations cannot do."""
    declared = [catalogs.get(entry.catalog_name) for entry in entries]
    known_catalogs = [catalog for catalog in declared if isinstance(catalog, Catalog)]
    for entry, catalog in zip(entries, declared, strict=True):
        destination = get_destination(catalog)
        destination.check_table(entry, catalog if isinstance(catalog, Catalog) else None)
        if isinstance(catalog, Catalog) and entry.table.branch != "main" and not destination.has_named_branches:
            titles = list_titles(lambda destination: destination.has_named_branches)
            entry.add("branch", f"not available for a {catalog.type} catalog; write to an {titles} table")
        if isinstance(catalog, Catalog) and entry.table.approve and not destination.has_named_branches:
            titles = list_titles(lambda destination: destination.has_named_branches)
            problem = f"no batch can wait on a branch in a {catalog.type} catalog"
            entry.add("approve", f"{problem}; write to an {titles} table")
        for other in DESTINATIONS.values():
            for index, text in enumerate(entry.table.create.partition_by if other is not destination else ()):
                if any(column in text.upper() for column in other.partition_columns):
                    problem = f"{other.title}'s own column; name one of the table's"
                    entry.add(("create", "partition_by", index), problem)
        _check_name_lengths(entry, f"_{pipeline}{model.merge.intermediate_suffix}", destination.max_name_bytes)
    destinations = {catalog.type: get_destination(catalog) for catalog in known_catalogs}
    for kind, destination in destinations.items():
        own = [catalog for catalog in known_catalogs if catalog.type == kind]
        destination.check_pipeline(model, own, findings)
    is_mixed = len(destinations) + (len(known_catalogs) < len(declared)) > 1
    keeps_letters = all(destination.keeps_letters_of_others for destination in destinations.values())
    if is_mixed and not keeps_letters and model.source.errors.tolerance != "none":
        problem = "all needs every table in catalogs of one type: dead letters are written in the commit of their batch"
        findings.add(("source", "errors", "tolerance"), f"{problem}; write none, or make two pipelines")


def _check_name_lengths(entry: TableEntry, suffix: str, limit: int) -> None:
    table = entry.table
    if len(table.name.split(".")) < MIN_NAME_PARTS:
        return  # no table's full name, which is told
    is_named_by_records = is_template(table.name)
    bare_name = "x" * MAX_NAME_CHARACTERS if is_named_by_records else table.name.rpartition(".")[2]
    memory = get_branch_suffix(table.branch) + ("changes" if table.history == "scd2" else "deletes")
    longest = max((f"{bare_name}{end}" for end in ("", suffix, f"_{memory}", "_tidegate_position")), key=_count_bytes)
    way = "shorten the table's name, the pipeline's, or merge.intermediate_suffix"
    backfill = _count_bytes(f"{bare_name}{suffix}_backfill_{'0' * ID_DIGITS}")
    if _count_bytes(longest) > limit:
        is_short = len(longest) <= SHOWN_NAME_CHARACTERS
        shortened_name = longest if is_short else f"{longest[: SHOWN_NAME_CHARACTERS - 1]}…"
        entry.add("name", f"bytes={_count_bytes(longest)} in the name {shortened_name}, limit={limit}; {way}")
    elif backfill > limit and not is_named_by_records:
        entry.findings.warn(
            (*entry.path, "name"),
            f"a backfill or a replay of {table.name} would fail: bytes={backfill} in the name of the table that it "
            f"makes, limit={limit}; {way}",
        )


def _count_bytes(name: str) -> int:
    return len(name.encode())
