"""Checks the source side of a pipeline file as a whole: topics, Kafka settings, key, value and metadata columns."""

import re
from collections.abc import Mapping

from tidegate.adapters.kafka.settings import ADDRESS_SETTINGS, explain_addresses, has_addresses, to_java_settings
from tidegate.config.checks.formats import check_format
from tidegate.config.models.formats import KeyModel, ValueModel
from tidegate.config.models.pipeline import PipelineModel, SourceModel, StartOffsets
from tidegate.config.models.settings import check_topic_name
from tidegate.config.parsing.ddl import parse_columns
from tidegate.config.parsing.problems import Problems, refuse_secrets, suggest_closest
from tidegate.config.parsing.yaml_document import KeyPath
from tidegate.formats.registry import get_format
from tidegate.redaction import has_secret, is_secret_name
from tidegate.schema.data_types import Column
from tidegate.spec.source import list_known_words, list_types_of_word, split_cast

EXAMPLE = "write e.g. 'shop\\.public\\..*'"
JAVA_QUOTE_PATTERN = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
# what Java reads and Python does not, each with something that both read
JAVA_FORMS = (
    (re.compile(r"\\[pP](?:\{[^}]*\}|\w)"), r"\\w"),
    (re.compile(r"\\[hHRXGzeK]"), r"\\w"),
    (re.compile(r"\\x\{[0-9A-Fa-f]+\}"), r"x"),
    (re.compile(r"\(\?<(?![=!])(\w+)>"), r"(?P<\1>"),
    (re.compile(r"\\k<(\w+)>"), r"(?P=\1)"),
)
PYTHON_FORMS = ("(?P", "(?#", "(?(", "(?a", "(?L")


def compile_pattern(text: str) -> re.Pattern[str]:
    """The regular expression that Tidegate itself applies to topics' names; `ValueError` says why it is none."""
    try:
        return re.compile(text)
    except RecursionError:
        raise ValueError(f"not a regular expression (brackets nest too deep); {EXAMPLE}") from None
    except (re.error, OverflowError) as fault:
        raise ValueError(f"not a regular expression ({fault}); {EXAMPLE}") from None


def check_java_pattern(text: str) -> None:
    """`ValueError` where Java cannot read a regular expression, as far as known without a JVM."""
    as_python = JAVA_QUOTE_PATTERN.sub(lambda quoted: re.escape(quoted[1]), text)
    foreign = next((form for form in PYTHON_FORMS if form in as_python), None)
    if foreign is not None:
        raise ValueError(f"not a regular expression of Java's, which has no {foreign}; {EXAMPLE}")
    for java, python in JAVA_FORMS:
        as_python = java.sub(python, as_python)
    compile_pattern(as_python)


ADDRESS_PATTERN = re.compile(r"\s*[^\s@/,:]+:\d+(\s*,\s*[^\s@/,:]+:\d+)*\s*")  # brokers, as bootstrap.servers has them
PRODUCT_SETTINGS = {
    "group.id": "Tidegate sets it; use source.group instead",
    "isolation.level": "Tidegate sets it; use source.isolation instead",
    "enable.auto.commit": "Tidegate sets it; leave it out",
    "enable.auto.offset.store": "Tidegate sets it; leave it out",
    "auto.offset.reset": "Tidegate sets it; leave it out",
}
JAVA_SETTINGS = {
    "sasl.jaas.config": "sasl.username, and the password in a connection",
    "ssl.truststore.location": "ssl.ca.location",
    "key.deserializer": "source.key.format",
    "value.deserializer": "source.value.format",
}


def check_source(model: PipelineModel, findings: Problems) -> None:
    _check_topics(model, findings)
    start = model.source.start
    for topic in start.offsets if isinstance(start, StartOffsets) else ():
        if unread := explain_unread_topic(topic, model.source):
            findings.add(("source", "start", "offsets", topic), unread)
    check_kafka(model.source.kafka, ("source", "kafka"), findings)
    if model.heartbeat.kafka is not None:
        check_kafka(model.heartbeat.kafka, ("heartbeat", "kafka"), findings)
    _check_metadata(model, findings)
    _check_errors(model, findings)
    for index, pattern in enumerate(model.heartbeat.ignore_topics):
        check_pattern(("heartbeat", "ignore_topics", index), pattern, findings)
    _check_matching_heartbeats(model, findings)


def _check_matching_heartbeats(model: PipelineModel, findings: Problems) -> None:
    heartbeat = model.heartbeat
    if not heartbeat.produce or heartbeat.kafka in (None, model.source.kafka) or model.source.topic_pattern is None:
        return
    ignored = any(match_topic(pattern, heartbeat.topic) for pattern in heartbeat.ignore_topics)
    if match_topic(model.source.topic_pattern, heartbeat.topic) and not ignored:
        findings.add(
            ("heartbeat", "topic"),
            "source.topic_pattern matches it, so heartbeats would be rows if heartbeat.kafka leads to the source's "
            "brokers; choose another name, or add it to heartbeat.ignore_topics",
        )


def _check_errors(model: PipelineModel, findings: Problems) -> None:
    source = model.source
    path = ("source", "errors", "topic")
    topic = source.errors.topic
    if topic is None:
        return
    if source.errors.tolerance != "all":
        findings.add(path, "with errors.tolerance: none no record is set aside; write all, or leave the topic out")
    findings.run_check(path, check_topic_name, topic)
    if topic in source.topics or (source.topic_pattern is not None and match_topic(source.topic_pattern, topic)):
        findings.add(path, "this pipeline reads that topic; choose another one for what it cannot read")


def _check_topics(model: PipelineModel, findings: Problems) -> None:
    source = model.source
    if source.topic_pattern is not None:
        check_pattern(("source", "topic_pattern"), source.topic_pattern, findings)
        if source.topics:
            findings.add(("source", "topic_pattern"), "topics are given too; keep one of topics and topic_pattern")
    elif not source.topics:
        findings.add(("source", "topics"), "no topic to read; list topics or give topic_pattern")
    sends_to_source = model.heartbeat.produce and model.heartbeat.kafka in (None, source.kafka)
    for index, topic in enumerate(source.topics):
        findings.run_check(("source", "topics", index), check_topic_name, topic)
        if sends_to_source and topic == model.heartbeat.topic:
            findings.add(("heartbeat", "topic"), "the pipeline reads this topic; heartbeats need another one")
    findings.add_repeats(("source", "topics"), source.topics)


def explain_unread_topic(topic: str, source: SourceModel) -> str:
    """Why the source does not read this topic; empty if it does, or if its own topics are wrong."""
    if source.topic_pattern is None:
        names = source.topics
        return f"not one of source.topics; {suggest_closest(topic, names)}" if names and topic not in names else ""
    try:
        check_topic_name(topic)
    except ValueError as fault:
        return str(fault)
    if match_topic(source.topic_pattern, topic) is False:
        return f"source.topic_pattern={source.topic_pattern} does not match it; correct one of the two"
    return ""


def check_pattern(path: KeyPath, pattern: str, findings: Problems) -> None:
    """Whether it compiles, and a topic's name can match."""
    if not pattern.strip():
        findings.add(path, "empty, so it matches no topic; write e.g. 'shop\\.public\\..*', or leave it out")
    findings.run_check(path, compile_pattern, pattern)


def match_topic(pattern: str, topic: str) -> bool | None:
    """Whether a topic's whole name matches; None for a pattern that does not compile, which `check_pattern` notes."""
    try:
        return compile_pattern(pattern).fullmatch(topic) is not None
    except ValueError:
        return None


def check_kafka(kafka: str | dict[str, str], path: KeyPath, findings: Problems) -> None:
    """An empty connection id, and what must not stand in inline settings."""
    if isinstance(kafka, str):
        if not kafka.strip():
            findings.add(path, "empty; name an Airflow connection such as kafka_default")
        refuse_secrets(kafka, path, findings, "an Airflow connection, and write its id here")
        if ADDRESS_PATTERN.fullmatch(kafka):
            findings.add(
                path, f"an address, and not the id of a connection; write {{bootstrap.servers: '{kafka.strip()}'}}"
            )
        return
    if not has_addresses(kafka):
        findings.add(path, "bootstrap.servers is missing; write e.g. {bootstrap.servers: 'localhost:9092'}")
    findings.run_check(path, to_java_settings, kafka)
    for name in ADDRESS_SETTINGS:
        if name in kafka and (problem := explain_addresses({name: kafka[name]})) is not None:
            findings.add((*path, name), problem)
    for name, value in kafka.items():
        if value and not value.strip() and name not in ADDRESS_SETTINGS:
            findings.add((*path, name), "nothing but blanks; write a value, or leave it out")
        elif (is_secret_name(name) or has_secret(value)) and name not in JAVA_SETTINGS:
            place = ".".join(map(str, path))
            problem = f"a secret in a file; put it into an Airflow connection and name that in {place}"
            findings.add((*path, name), problem)
        elif name in PRODUCT_SETTINGS:
            findings.add((*path, name), PRODUCT_SETTINGS[name])
        elif name in JAVA_SETTINGS:
            problem = f"a name of the Java client; librdkafka's words are used here: {JAVA_SETTINGS[name]}"
            findings.add((*path, name), problem)


def _check_metadata(model: PipelineModel, findings: Problems) -> None:
    formats = {(table.value or model.source.value).format for table in model.tables} or {model.source.value.format}
    for column, column_word in model.source.metadata.items():
        path: KeyPath = ("source", "metadata", column)
        word, kind = split_cast(column_word)
        for value_format in sorted(formats):
            if word not in list_known_words(value_format):
                problem = f"not a metadata key of value.format={value_format}"
                findings.add(path, f"{problem}; use one of {', '.join(list_known_words(value_format))}")
            elif kind and kind not in list_types_of_word(word, value_format):
                kinds = " or ".join(list_types_of_word(word, value_format))
                problem = f"{word} of value.format={value_format} may lose a part as {kind}"
                findings.add(path, f"{problem}; write {kinds}, and cast it in select")


def check_key_columns(key: KeyModel, path: KeyPath, findings: Problems) -> None:
    """Problems of the key's own schema, fields and format."""
    columns = _read_schema(key.schema_, path, findings)
    findings.add_repeats((*path, "fields"), [name.casefold() for name in key.fields])
    names = None if columns is None else {column.name for column in columns}
    for index, name in enumerate(key.fields):
        if not name:
            findings.add((*path, "fields", index), "a field without a name; name it")
        if names is not None and name not in names:
            problem = f"not a column of key.schema ({', '.join(sorted(names))}); add it there"
            findings.add((*path, "fields", index), problem)
    if get_format(key.format).only_column is not None and len(key.fields) > 1:
        findings.add((*path, "fields"), f"a key of format {key.format} is one value; give one field or use format json")
    check_format(key, columns, path, findings)


def check_value(value: ValueModel, path: KeyPath, findings: Problems, metadata: Mapping[str, str]) -> None:
    """Problems of the value's own schema and format; `metadata`: the columns beside it."""
    check_format(value, _read_schema(value.schema_, path, findings), path, findings, metadata)


def _read_schema(ddl: str | None, path: KeyPath, findings: Problems) -> tuple[Column, ...] | None:
    return None if ddl is None else findings.run_check((*path, "schema"), parse_columns, ddl)
