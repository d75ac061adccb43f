"""What `init` needs to know: from flags, or from answers at a terminal."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.models.settings import KafkaPlace
from tidegate.config.pipeline_file import PIPELINE_NAME_PATTERN
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError
from tidegate.settings import format_path
from tidegate.spec.pipeline import Catalog
from tidegate.wiring.sampling import list_topics

DEFAULT_KAFKA = "kafka_default"
DEFAULT_REGISTRY = "schema_registry_default"
MAX_SHOWN_TOPICS = 30
NAME_LENGTH = 60


@dataclass(frozen=True)
class Answers:
    """`tables` are the destinations of `topics`, in their order."""

    kafka: str | dict[str, str]
    topics: tuple[str, ...]
    tables: tuple[str, ...]
    registry: str | None
    name: str
    path: Path


def read_answers(words: argparse.Namespace, include: Path, resolve: Resolve) -> Answers:
    """`ConfigurationError` for what cannot be, before any topic is read."""
    asks = sys.stdin.isatty() and not words.yes
    kafka = read_kafka(words.kafka or (ask("Kafka connection, or host:port", DEFAULT_KAFKA) if asks else DEFAULT_KAFKA))
    topics = tuple(words.topic) or (ask_topics(kafka, resolve) if asks else ())
    if not topics:
        raise ConfigurationError("--topic is missing; name the topic, e.g. --topic shop.orders")
    twice = sorted({topic for topic in topics if topics.count(topic) > 1})
    if twice:
        raise ConfigurationError(f"--topic={twice[0]}: given twice; keep one")
    catalogs = read_catalogs(include)
    usual = f"{next(iter(catalogs), 'lake')}.{suggest_namespace(topics[0])}.{to_word(topics[0])}"
    target = words.to or (ask("Table, <catalog>.<namespace>.<table>", usual) if asks else "")
    tables = find_tables(target, topics, catalogs)
    name = words.name or suggest_name(tables[0] if len(tables) == 1 else target.rpartition(".")[2])
    path = find_free_path(include, name, is_free=words.force or words.print or words.dry_run)
    return Answers(
        kafka=kafka,
        topics=topics,
        tables=tables,
        registry=find_registry(words.registry, resolve),
        name=name,
        path=path,
    )


def ask(question: str, default: str, check: Callable[[str], bool] = bool) -> str:
    """The default for an empty answer, or at the end of the input."""
    while True:
        print(f"{question} [{default}]: ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline().strip() or default
        if check(answer):
            return answer


def ask_topics(kafka: KafkaPlace, resolve: Resolve) -> tuple[str, ...]:
    """Let a person choose from a list."""
    names = list_topics(kafka, resolve)
    more = f" and {len(names) - MAX_SHOWN_TOPICS} more" if len(names) > MAX_SHOWN_TOPICS else ""
    print(f"topics: {', '.join(names[:MAX_SHOWN_TOPICS])}{more}", file=sys.stderr)
    answer = ask("Topic, or several with blanks between", names[0] if names else "")
    return tuple(answer.replace(",", " ").split())


def read_kafka(text: str) -> str | dict[str, str]:
    """A connection id, or brokers as host:port."""
    if "@" in text:
        raise ConfigurationError("--kafka has a login in it, which would stand in the file; put it into a connection")
    return {"bootstrap.servers": text} if ":" in text else text


def find_registry(registry: str | None, resolve: Resolve) -> str | None:
    """The named one, else the usual connection if it exists."""
    if registry is None:
        return DEFAULT_REGISTRY if resolve(DEFAULT_REGISTRY) is not None else None
    if "@" in registry:
        raise ConfigurationError(
            "--registry has a login in it, which would stand in the file; put it into a connection"
        )
    return registry


def find_tables(target: str, topics: tuple[str, ...], catalogs: Mapping[str, Catalog | str]) -> tuple[str, ...]:
    """One table for each topic: the named one, or in the named namespace one by each topic's name."""
    parts = target.split(".")
    if len(parts) < 2 or not all(parts):
        raise ConfigurationError(
            f"--to={target}: not a table; write <catalog>.<namespace>.<table>, or <catalog>.<namespace>"
        )
    if parts[0] not in catalogs:
        catalog_names = ", ".join(sorted(catalogs)) or "none"
        raise ConfigurationError(
            f"--to={target}: catalog={parts[0]} is not in catalogs.yaml; there are: {catalog_names}; declare it there "
            "first"
        )
    if isinstance(catalogs[parts[0]], str):
        raise ConfigurationError(f"--to={target}: catalog={parts[0]} is declared wrongly: {catalogs[parts[0]]}")
    if len(parts) > 2 and len(topics) == 1:
        return (target,)
    if len(parts) > 2:
        raise ConfigurationError(
            f"--to={target}: one table for {len(topics)} topics, and records of two topics have no order; give "
            f"--to {'.'.join(parts[:2])}, and each topic gets its own table"
        )
    tables = tuple(f"{target}.{to_word(topic)}" for topic in topics)
    if len({*tables}) < len(tables):
        raise ConfigurationError(
            f"--to={target}: two topics would get one table: {', '.join(tables)}; run init for each"
        )
    return tables


def to_word(topic: str) -> str:
    """A table's name from the last part of a topic's."""
    return re.sub(r"[^a-z0-9_]", "_", topic.rpartition(".")[2].lower()) or "records"


def suggest_namespace(topic: str) -> str:
    """The first part of a topic's name."""
    return re.sub(r"[^a-z0-9_]", "_", topic.partition(".")[0].lower()) if "." in topic else "main"


def suggest_name(table: str) -> str:
    """From its table."""
    word = re.sub(r"[^a-z0-9_-]", "_", table.rpartition(".")[2].lower()).lstrip("0123456789_-")
    return word[:NAME_LENGTH] or "pipeline"


def find_free_path(include: Path, name: str, *, is_free: bool) -> Path:
    """`ConfigurationError` for a bad name, or where a file already exists."""
    if not PIPELINE_NAME_PATTERN.fullmatch(name):
        raise ConfigurationError(f"--name={name}: not a pipeline's name; write [a-z][a-z0-9_-]*, at most 60 letters")
    path = include / "pipelines" / f"{name}.yaml"
    if path.exists() and not is_free:
        raise ConfigurationError(
            f"{format_path(path)}: exists already; choose another --name, or overwrite with --force"
        )
    return path
