"""Reads a publication file, or says all that is wrong with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.checks.formats import OPTION_KEYS, check_avro, check_csv, check_registries
from tidegate.config.checks.schedule import check_spark, find_pipeline_with_dag
from tidegate.config.checks.source import check_kafka
from tidegate.config.checks.tables import check_table_name
from tidegate.config.destinations.registry import get_destination, list_titles
from tidegate.config.models.formats import AvroModel, ProtobufModel, StrictModel
from tidegate.config.models.pipeline import StartTimestamp
from tidegate.config.models.publication import KeyOutModel, PublicationModel, StartSnapshot, ValueOutModel
from tidegate.config.models.settings import NAME_PATTERN, check_topic_name
from tidegate.config.parsing.problems import Problems, read_model, refuse_secrets, to_unexpected_problem
from tidegate.config.parsing.publication_sql import find_joined_tables, has_groups, parse_publication_sql
from tidegate.config.parsing.yaml_document import read_document
from tidegate.config.pipeline_spec import to_noun, to_spark_target
from tidegate.errors import ConfigurationError
from tidegate.formats.registry import SchemaKind, get_format
from tidegate.settings import find_folder_around, format_path, list_written_files
from tidegate.spec.pipeline import Catalog
from tidegate.spec.publication import EVERYTHING, Begin, KeyOut, Publication, ValueOut
from tidegate.spec.table_template import is_template

REGISTRY_MODELS: dict[SchemaKind, type[StrictModel]] = {
    SchemaKind.AVRO: AvroModel,
    SchemaKind.PROTOBUF: ProtobufModel,
}


def load_publication(path: Path, catalogs: Mapping[str, Catalog | str] | None = None) -> Publication:
    """Checked against the catalogs beside its folder. `ConfigurationError` with every problem."""
    document = read_document(path)
    findings = Problems(document)
    if path.suffix != ".yaml" or not NAME_PATTERN.fullmatch(path.stem):
        findings.add((), f"name={path.name}: a publication's file is [a-z][a-z0-9_-]*.yaml, at most 60 letters")
    pipeline_name = find_pipeline_with_dag(path.parent.with_name("pipelines"), f"publish_{path.stem}")
    if pipeline_name is not None:
        findings.add((), f"pipeline={pipeline_name} has a DAG tidegate_publish_{path.stem}; rename one of the files")
    if not isinstance(document.data, dict):
        findings.add((), "no publication in it; start with table:, topic: and key:, see docs/publications.md")
        findings.raise_if_any()
    model = read_model(PublicationModel, document.data, findings)
    _check_model(model, read_catalogs(find_folder_around(path)) if catalogs is None else catalogs, findings)
    _check_side_topics(path.stem, model, findings)
    findings.raise_if_any()
    key = model.key
    return to_noun(
        Publication,
        model,
        name=path.stem,
        topics=(model.topic,) if model.topic is not None else tuple(model.topics),
        key=to_noun(KeyOut, key, prefix=key.fields_prefix, options=_to_options(key)),
        value=to_noun(ValueOut, model.value, options=_to_options(model.value)),
        sql=model.sql or EVERYTHING,
        joined_tables=find_joined_tables(model.sql or ""),
        grouped=parse_publication_sql(model.sql or EVERYTHING, tuple(key.fields)),
        start=_to_begin(model.start),
        state_topic=_get_state_topic(path.stem, model),
        heartbeat_topic=model.heartbeat.topic if model.heartbeat.produce else None,
        spark=to_spark_target(model.spark),
    )


def load_publications(include: Path, only: str | None = None) -> list[tuple[str, Publication | ConfigurationError]]:
    """Every file under ``publications/`` by name, or one; a broken file does not affect the others."""
    answer: list[tuple[str, Publication | ConfigurationError]] = []
    owners = dict[str, str]()
    heartbeats = dict[str, str]()
    for file in list_written_files(include / "publications"):
        if only not in (None, file.stem):
            continue
        try:
            publication = load_publication(file)
            for topic in (*publication.topics, publication.state_topic):
                # two publications of one topic would write over each other's keys: the later name is refused
                owner = owners.setdefault(topic, publication.name)
                if owner != publication.name:
                    problem = f"publication {owner} has topic={topic} too; choose another"
                    raise ConfigurationError(f"{format_path(file)}: {problem}")
            _refuse_heartbeats_among_rows(publication, file, owners, heartbeats)
            answer.append((file.stem, publication))
        except ConfigurationError as fault:
            answer.append((file.stem, fault))
        except Exception as error:
            answer.append((file.stem, to_unexpected_problem(file, error)))
    return answer


def check_topics_of_others(include: Path, name: str) -> None:
    """`ConfigurationError` where an earlier publication has one of its topics."""
    publication = dict(load_publications(include)).get(name)
    if isinstance(publication, ConfigurationError):
        raise publication


def _refuse_heartbeats_among_rows(
    publication: Publication, file: Path, owners: Mapping[str, str], heartbeats: dict[str, str]
) -> None:
    # readers of a publication's topic would take another one's heartbeats for rows
    heartbeat_topic = publication.heartbeat_topic
    place = format_path(file)
    owner = owners.get(heartbeat_topic or "")
    if owner is not None:
        raise ConfigurationError(
            f"{place}: heartbeat.topic={heartbeat_topic}: publication {owner} has this topic; choose another"
        )
    for topic in (*publication.topics, publication.state_topic):
        if topic in heartbeats:
            raise ConfigurationError(
                f"{place}: publication {heartbeats[topic]} sends heartbeats to topic={topic}; choose another"
            )
    if heartbeat_topic is not None:
        heartbeats.setdefault(heartbeat_topic, publication.name)


def _check_model(model: PublicationModel, catalogs: Mapping[str, Catalog | str], findings: Problems) -> None:
    check_table_name(model.table, ("table",), catalogs, findings)
    if is_template(model.table):
        findings.add(("table",), "one table is published; name it without {field}")
    # Spark compares two states of a table, and cannot read every destination
    destination = get_destination(catalogs.get(model.table.split(".", 1)[0]))
    if not destination.is_publishable:
        destination_titles = list_titles(lambda destination: destination.is_publishable)
        advice = f"let the pipeline write an {destination_titles} table beside it"
        problem = f"a {destination.title} table cannot be published; {advice}"
        findings.add(("table",), f"{problem}, and publish that")
    refuse_secrets(model.description, ("description",), findings, "an Airflow connection")
    check_kafka(model.kafka, ("kafka",), findings)
    check_spark(model.spark, findings)
    _check_topics(model, findings)
    _check_format("key", model.key, findings)
    _check_format("value", model.value, findings)
    if get_format(model.key.format).only_column is not None and len(model.key.fields) > 1:
        findings.add(("key", "fields"), f"a key of format {model.key.format} is one value; use format json")
    findings.add_repeats(("key", "fields"), [name.casefold() for name in model.key.fields])
    for index, name in enumerate(model.key.fields):
        if not name.startswith(model.key.fields_prefix) or name == model.key.fields_prefix:
            findings.add(("key", "fields", index), f"does not begin with fields_prefix={model.key.fields_prefix}")
    if model.key.fields_prefix and model.value.fields_include != "EXCEPT_KEY":
        findings.add(("key", "fields_prefix"), "needs value.fields_include: EXCEPT_KEY, as the value would repeat them")
    findings.run_check(("sql",), parse_publication_sql, model.sql or EVERYTHING, tuple(model.key.fields))
    _check_joined(model, catalogs, findings)
    _check_append(model, findings)
    if model.interval == 0:
        findings.add(("interval",), "out of range; must be at least 1s, or -1 to disable")
    for word in ("partitions", "replication_factor"):
        if getattr(model.create, word) == 0:
            findings.add(("create", word), "out of range; must be at least 1, or -1 for the brokers' default")


def _check_append(model: PublicationModel, findings: Problems) -> None:
    """What needs a key, and inserted rows have none."""
    if model.key.fields:
        if model.on_delete != "fail":
            findings.add(("on_delete",), "a row that is gone deletes its key; leave it out, or set key.fields: []")
        return
    path = ("key", "fields")
    if set(model.key.model_fields_set) != {"fields"}:
        findings.add(path, "records of inserted rows have no key; leave the other words of key out")
    if get_format(model.value.format).is_change_event:
        findings.add(path, f"value.format={model.value.format} shows changes of a key's row; use another format")
    if model.value.fields_include != "ALL":
        findings.add(path, "there is no key whose columns the value could leave out; set value.fields_include: ALL")
    if model.on_expired != "fail":
        findings.add(path, "table and topic can be compared by keys alone; leave on_expired out")
    if find_joined_tables(model.sql or "") or has_groups(model.sql or EVERYTHING):
        findings.add(
            path, "groups and joined rows change without being inserted; give the key's columns, or join elsewhere"
        )


def _check_joined(model: PublicationModel, catalogs: Mapping[str, Catalog | str], findings: Problems) -> None:
    joined_tables = find_joined_tables(model.sql or "")
    for name in joined_tables:
        check_table_name(name, ("sql",), catalogs, findings)
        if name.split(".", 1)[0] != model.table.split(".", 1)[0]:
            findings.add(("sql",), f"{{{name}}} lies in another catalog than table; join tables of one catalog")
        if name == model.table:
            findings.add(("sql",), f"{{{name}}} is the table itself, of which each row must be seen alone")
    if joined_tables and model.start != "full":
        findings.add(("start",), "the state of the joined tables at that time is not known; leave it out")


def _check_topics(model: PublicationModel, findings: Problems) -> None:
    if model.topic is not None and model.topics:
        findings.add(("topic",), "topics are given too; keep topic, or topics with metadata.topic")
    elif model.topic is None and not model.topics:
        findings.add((), "no topic to produce to; write topic: <name>")
    if model.topics and model.metadata.topic is None:
        findings.add(
            ("topics",),
            "several topics, and no column that says to which a row goes; name it in metadata.topic, or write "
            "topic: <name>",
        )
    if model.topic is not None and model.metadata.topic is not None:
        findings.add(("metadata", "topic"), "the column's values must be listed; write topics: [...] in place of topic")
    topic_settings: list[tuple[tuple[str | int, ...], str | None]] = [(("topic",), model.topic)]
    topic_settings += [(("topics", index), name) for index, name in enumerate(model.topics)]
    for path, name in (*topic_settings, (("state_topic",), model.state_topic)):
        if name is not None:
            findings.run_check(path, check_topic_name, name)
    findings.add_repeats(("topics",), model.topics)


def _check_side_topics(name: str, model: PublicationModel, findings: Problems) -> None:
    topics = {model.topic, *model.topics}
    # readers of the topic see the table's rows alone
    state_topic = _get_state_topic(name, model)
    if state_topic in topics:
        findings.add(("state_topic",), f"its records go to {state_topic}; its progress needs a topic of its own")
    if model.heartbeat.produce and model.heartbeat.topic in topics | {state_topic}:
        findings.add(("heartbeat", "topic"), "the publication has this topic; heartbeats need another one")


def _get_state_topic(name: str, model: PublicationModel) -> str:
    return model.state_topic or f"tidegate-publication-{name}"


def _check_format(part_name: str, part: KeyOutModel | ValueOutModel, findings: Problems) -> None:
    for word in sorted(part.model_fields_set.intersection(OPTION_KEYS)):
        if getattr(part, word) is not None and get_format(part.format).options != word:
            findings.add((part_name, word), f"options of another format than {part.format}; leave them out")
    check_registries(part, (part_name,), findings)
    check_csv(part, (part_name,), findings)
    if part.avro is not None and part.avro.schema_ is not None:
        check_avro(part.avro, (part_name, "avro"), findings)
    if part.protobuf is not None and part.protobuf.descriptor is not None:
        problem = "a publication makes its message from the columns; give registry and subject"
        findings.add((part_name, "protobuf", "descriptor"), problem)


def _to_options(part: KeyOutModel | ValueOutModel) -> dict[str, Any]:
    format_spec = get_format(part.format)
    has_options = format_spec.options in type(part).model_fields  # pydantic has a method `json` of its own
    options_model: StrictModel | None = getattr(part, format_spec.options or "") if has_options else None
    if options_model is None and format_spec.schema is not None:
        options_model = REGISTRY_MODELS[format_spec.schema]()
    return {} if options_model is None else options_model.model_dump(by_alias=True)


def _to_begin(start: str | StartSnapshot | StartTimestamp) -> Begin:
    if isinstance(start, StartSnapshot):
        return Begin("snapshot", snapshot_id=start.snapshot)
    if isinstance(start, StartTimestamp):
        return Begin("timestamp", timestamp_ms=start.timestamp_ms)
    return Begin()
