"""Checks the destination side of a pipeline file as a whole: names, topics, keys and conditions of its tables."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tidegate.config.checks.source import check_java_pattern, explain_unread_topic, match_topic, read_schema
from tidegate.config.destinations.registry import DESTINATIONS, SPARK_DESTINATION, get_destination
from tidegate.config.models.pipeline import BY_TOPIC, PipelineModel, TableModel
from tidegate.config.models.sequence_groups import needs_no_offsets
from tidegate.config.parsing.ddl import check_audit, check_condition
from tidegate.config.parsing.problems import Problems, format_key_path, refuse_secrets, suggest_closest
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.model.resource_names import get_branch_suffix
from tidegate.spec.pipeline import Catalog
from tidegate.spec.table_template import FIELD_PATTERN, is_template, split_template

# Key -> the values that work today. Delete a line, or add a value to it, and the feature is on.
SUPPORTED_VALUES: dict[str, tuple[Any, ...]] = {"tables.strategy": ("merge",)}


def refuse_unsupported(data: Any, findings: Problems, path: KeyPath = ()) -> None:
    """Note every value that only a later version can honour."""
    words = [part for part in path if isinstance(part, str)]
    for length in (1, 2, 3):
        allowed = SUPPORTED_VALUES.get(".".join(words[-length:]))
        if allowed is not None and len(words) > 1 and data not in allowed:
            findings.add(path, format_unsupported(*allowed))
            return
    for step, value in _list_children(data, format_key_path(path)):
        refuse_unsupported(value, findings, (*path, step))


def format_unsupported(*alternatives: Any) -> str:
    """With the values that work today."""
    words = [str(word) for word in alternatives if word not in (None, [])]
    words = [{"True": "true", "False": "false"}.get(word, word) for word in words]
    return f"not available in this version; {'use ' + ' or '.join(words) if words else 'leave it out'}"


def _list_children(data: Any, path: str) -> list[tuple[Any, Any]]:
    if path.endswith(("kafka", "metadata", "properties", "conf", "offsets")):
        return []  # the user's own names stand there, not the contract's
    if isinstance(data, dict):
        return list(data.items())
    return list(enumerate(data)) if isinstance(data, list) else []


NAMESPACE_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_][A-Za-z0-9_-]*)*")


def check_templates(model: PipelineModel, findings: Problems) -> None:
    """Problems of name templates, and of their keys where there is none."""
    template_count = 0
    for index, table in enumerate(model.tables):
        path: KeyPath = ("tables", index)
        if is_template(table.name):
            template_count += 1
            if template_count > 1:
                findings.add((*path, "name"), "a second name template; a pipeline has at most one, make two pipelines")
            _check_template(model, table, path, findings)
        elif table.namespaces:
            findings.add((*path, "namespaces"), "only for a name with a {field} in it; leave it out")


def _check_template(model: PipelineModel, table: TableModel, path: KeyPath, findings: Problems) -> None:
    catalog, _, identifier = table.name.partition(".")
    namespace, _ = split_template(identifier)
    if is_template(catalog):
        findings.add((*path, "name"), "the catalog must be a fixed name; write e.g. lake.shop.{type}")
    if is_template(namespace) and not table.namespaces:
        findings.add((*path, "namespaces"), f"missing: name={table.name} may lead anywhere; list those it may lead to")
    for place, name in enumerate(table.namespaces):
        if name.lower() != name or not NAMESPACE_PATTERN.fullmatch(name):
            findings.add(
                (*path, "namespaces", place), "not a namespace; lower-case letters, digits, underscore, dash and dots"
            )
    if not is_template(namespace) and table.namespaces and table.namespaces != [namespace]:
        wrong = f"the name has the namespace {namespace} in it; put a {{field}} there, or leave this out"
        findings.add((*path, "namespaces"), wrong)
    if model.source.errors.tolerance != "none":
        problem = (
            "all is not available beside a name template: a record that names no table has nowhere to be set aside"
        )
        findings.add(("source", "errors", "tolerance"), f"{problem}; write none")
    value = table.value or model.source.value
    columns = read_schema(value.schema_, (*path, "value", "schema"), findings)
    if columns is None:
        findings.add((*path, "name"), "needs value.schema: there is no table yet to take the columns from")
        return
    names = {column.name for column in columns} | set(model.source.metadata) | {"topic"}
    for field in FIELD_PATTERN.findall(table.name):
        if field.casefold() not in {name.casefold() for name in names}:
            findings.add((*path, "name"), f"{{{field}}} is not a column of the value; {suggest_closest(field, names)}")


NAME_PART_PATTERN = re.compile(r"[^.`'\"/\\\s\x00-\x1f]+")


def check_tables(
    pipeline: str, model: PipelineModel, catalogs: Mapping[str, Catalog | str], findings: Problems
) -> None:
    """A catalog given as text is one whose declaration is broken."""
    if not model.tables:
        findings.add(("tables",), "no table to write; add e.g. - name: lake.shop.orders")
    for index, table in enumerate(model.tables):
        path: KeyPath = ("tables", index)
        check_table_name(table.name, (*path, "name"), catalogs, findings)
        properties = (*path, "create", "properties")
        refuse_secrets(table.create.properties, properties, findings, "the catalog's connection")
        _check_modes(table, model, path, findings)
        _check_branch(table, path, findings)
        _check_feeding_topics(table, model, path, findings)
        _check_topic_in_key(table, model, path, findings)
        if table.route is not None and table.route.pattern is not None:
            _note_fault(check_java_pattern, table.route.pattern, (*path, "route", "pattern"), findings)
        for word, condition in (("when", table.when), ("delete_when", table.delete_when)):
            if condition is not None:
                _note_fault(check_condition, condition, (*path, word), findings)
        _check_when_false(table, model, path, findings)
        _check_added_columns(table, model, path, findings)
        in_spark = get_destination(catalogs.get(table.name.partition(".")[0])) is SPARK_DESTINATION
        for number, audit in enumerate(table.audits):
            _note_fault(partial(check_audit, in_spark=in_spark), audit, (*path, "audits", number), findings)
    check_templates(model, findings)
    _check_collisions(pipeline, model, findings)
    _check_every_topic_is_used(model, findings)


def _check_added_columns(table: TableModel, model: PipelineModel, path: KeyPath, findings: Problems) -> None:
    """A table to which no record can add a column."""
    value = table.value or model.source.value
    at: KeyPath = (*path, "value") if table.value is not None else ("source", "value")
    if value.unknown_fields != "add":
        if "infer" in value.model_fields_set:
            findings.add((*at, "infer"), "of columns that records make; set unknown_fields: add, or leave it out")
        return
    word = (*at, "unknown_fields")
    if value.json_ is not None and value.json_.registry is not None:
        findings.add(word, "the registry's schema says which columns there are; leave json.registry out, or use warn")
    if is_template(table.name):
        findings.add(word, "tables that records name get no columns of them; declare value.schema")
    if table.select is not None:
        findings.add(word, "select says which columns there are; declare value.schema, or leave select out")
    if not table.evolve.add_columns:
        findings.add(word, "evolve.add_columns is false; allow it, or choose warn, refuse or ignore")
    if model.source.verify_integrity and value.schema_ is None:
        findings.add(word, "verify_integrity compares declared columns; name the fields of the key in value.schema")
    made_names = [name for name in table.sequence_by if name not in model.source.metadata]
    if made_names and value.schema_ is None:
        findings.add((*path, "sequence_by"), f"no record may have made {made_names[0]} yet; declare it in value.schema")


def check_table_name(name: str, path: KeyPath, catalogs: Mapping[str, Catalog | str], findings: Problems) -> None:
    """A name that is no table's, or whose catalog cannot be used."""
    plain_name = FIELD_PATTERN.sub("x", name)
    parts = plain_name.split(".")
    if is_template(plain_name) or len(parts) < 3 or not all(NAME_PART_PATTERN.fullmatch(part) for part in parts):
        findings.add(path, "not a table's full name; write <catalog>.<namespace>.<table>, e.g. lake.shop.orders")
        return
    catalog = catalogs.get(parts[0])
    if catalog is None:
        suggestion = suggest_closest(parts[0], catalogs) if catalogs else "it declares none"
        findings.add(path, f"catalog={parts[0]} is not in catalogs.yaml; {suggestion}")
    elif isinstance(catalog, str):
        findings.add(path, f"catalog={parts[0]} is declared wrongly: {catalog}")
    elif catalog.type not in DESTINATIONS:
        findings.add(path, f"catalog={parts[0]} type={catalog.type}: {format_unsupported(*DESTINATIONS)}")


def _check_branch(table: TableModel, path: KeyPath, findings: Problems) -> None:
    if table.branch != "main" and is_template(table.name):
        findings.add((*path, "branch"), "not for a name that records fill in; give such tables' branches one by one")
    if table.branch.startswith("tidegate_"):
        findings.add((*path, "branch"), "branches of this beginning are the product's own; choose another name")


def _check_modes(table: TableModel, model: PipelineModel, path: KeyPath, findings: Problems) -> None:
    key = table.key or model.source.key
    if key.fields:
        return
    fields_set = key.model_fields_set
    if fields_set and "fields" not in fields_set and table.upsert is None and table.delete is None:
        findings.warn(
            (*path, "key") if table.key else ("source", "key"),
            f"no key.fields, so every record is appended to {table.name} and no row is ever found by its key; give "
            "key.fields, or key.fields: [] if that is meant",
        )
    for word, is_enabled in (("upsert", table.upsert), ("delete", table.delete)):
        if is_enabled:
            findings.add((*path, word), "needs a key to find the row by; give source.key.fields, or set it to false")
    if table.delete_when is not None:
        findings.add((*path, "delete_when"), "needs a key to find the row by; give source.key.fields, or leave it out")


def _check_when_false(table: TableModel, model: PipelineModel, path: KeyPath, findings: Problems) -> None:
    when_path = (*path, "when_false")
    if table.when_false == "ignore":
        return
    if table.when is None:
        findings.add(when_path, "says what a record does for which when does not hold, and there is no when; add it")
    if not (bool((table.key or model.source.key).fields) if table.delete is None else table.delete):
        findings.add(when_path, "deletes rows by their key; give key.fields and delete: true, or leave it out")


def _check_feeding_topics(table: TableModel, model: PipelineModel, path: KeyPath, findings: Problems) -> None:
    source = model.source
    for index, topic in enumerate(table.topics or []):
        unread = explain_unread_topic(topic, source)
        if unread:
            findings.add((*path, "topics", index), unread)
    findings.add_repeats((*path, "topics"), table.topics or [])
    if table.topics == []:
        findings.add((*path, "topics"), "no topic feeds this table; leave the key out for all of source.topics")
    keyed = bool((table.key or source.key).fields)
    changes = any(keyed if word is None else word for word in (table.upsert, table.delete))
    feeding = set(source.topics if table.topics is None else table.topics)
    several = len(feeding) > 1 or (source.topic_pattern is not None and table.topics is None)
    is_ordered = bool(table.sequence_by) or table.disjoint_keys or needs_no_offsets(table, model)
    if changes and several and not is_ordered:
        findings.add(
            (*path, "topics") if table.topics else (*path, "name"),
            "several topics feed it, and records of one key in two topics have no order; "
            "give each topic its own table, or set disjoint_keys: by-topic to make the topic a part of the key, or "
            "true if they never share a key"
            + (", or put all columns into sequence_groups and set delete: false" if table.partial_updates else ""),
        )


def _check_topic_in_key(table: TableModel, model: PipelineModel, path: KeyPath, findings: Problems) -> None:
    if table.disjoint_keys != BY_TOPIC:
        return
    path = (*path, "disjoint_keys")
    key = table.key or model.source.key
    column = table.find_topic_in_key(model.source.metadata)
    if column is None:
        findings.add(path, "the topic needs a column to be a part of the key; add source.metadata: {topic: topic}")
    elif column.casefold() in {name.casefold() for name in key.fields}:
        findings.add(path, f"key.fields has a {column} of its own; give the topic another column in source.metadata")
    if not key.fields:
        findings.add(path, "there is no key that the topic could be a part of; give key.fields, or leave it out")
    if key.into is not None:
        findings.add(path, "the topic is no part of the struct that key.into makes; use key.prefix in place of it")


def _check_every_topic_is_used(model: PipelineModel, findings: Problems) -> None:
    if not model.tables or any(table.topics is None for table in model.tables):
        return
    used_topics = {topic for table in model.tables for topic in table.topics or []}
    for index, topic in enumerate(model.source.topics):
        may_be_ignored = any(match_topic(pattern, topic) is not False for pattern in model.heartbeat.ignore_topics)
        if topic not in used_topics and not may_be_ignored:
            findings.add(("source", "topics", index), "feeds no table; name it in tables[].topics or drop it")


def _note_fault(check: Callable[[str], object], text: str, path: KeyPath, findings: Problems) -> None:
    try:
        check(text)
    except ValueError as fault:
        findings.add(path, str(fault))


def _check_collisions(pipeline: str, model: PipelineModel, findings: Problems) -> None:
    names = [table.name.casefold() for table in model.tables]
    product_tables = {
        name.casefold()
        for name in list_side_tables(pipeline, [t.name for t in model.tables], model.merge.intermediate_suffix)
    }
    product_tables |= {f"{table.name}_changes".casefold() for table in model.tables if table.history == "scd2"}
    branched = [
        (f"{table.name}_{get_branch_suffix(table.branch)}", table) for table in model.tables if table.branch != "main"
    ]
    product_tables |= {f"{name}{'changes' if t.history == 'scd2' else 'deletes'}".casefold() for name, t in branched}
    for index, name in enumerate(names):
        if name and name in names[:index]:
            findings.add(
                ("tables", index, "name"), f"the same destination as tables[{names.index(name)}]; keep one of them"
            )
        inside = next((other for other in names if other.startswith(f"{name}.")), None)
        if inside is not None:
            problem = f"also the namespace of {inside}, whose files would lie among its own; rename one of the two"
            findings.add(("tables", index, "name"), problem)
        if name in product_tables:
            findings.add(
                ("tables", index, "name"), "the product makes a table of this name for itself; rename the destination"
            )


def list_side_tables(pipeline: str, destinations: list[str], suffix: str) -> list[str]:
    """Full names of the tables that the product keeps beside `destinations`."""
    names = [f"{name}_{pipeline}{suffix}" for name in destinations] + [f"{name}_deletes" for name in destinations]
    names += [f"{name}_tidegate_position" for name in destinations]
    if destinations and "." in destinations[0]:
        namespace = destinations[0].rsplit(".", 1)[0]
        names += [f"{namespace}.tidegate_{pipeline}_{kind}" for kind in ("batches", "dead_letters")]
    return names
