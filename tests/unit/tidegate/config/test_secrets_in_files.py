"""A secret at each text of a pipeline's and a publication's file: no message has it, and it is refused as one wherever
the product would use or show the text.
"""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from tidegate.config.pipeline_file import load_pipeline
from tidegate.config.publication_file import load_publication
from tidegate.errors import ConfigurationError

SECRET = "http://u:geheim@h/x?token=geheim"
PIPELINE: dict[str, Any] = {
    "description": "Orders", "tags": ["sales", "gold"], "fleet": None,
    "source": {
        "kafka": {"bootstrap.servers": "b:1", "client.id": "x"}, "topics": ["t", "u"], "group": "g",
        "key": {"format": "json", "fields": ["id"], "schema": "id BIGINT", "prefix": "", "into": None},
        "value": {"format": "json", "schema": "id BIGINT, name STRING"},
        "metadata": {"ts": "timestamp"}, "errors": {"tolerance": "all", "topic": "dlq"},
    },
    "tables": [
        {"name": "lake.a.b", "topics": ["t"], "when": "id > 1", "delete_when": "id < 0", "audits": ["id > 0"],
         "create": {"partition_by": ["id"], "cluster_by": ["id"], "properties": {"a": "b"}}},
        {"name": "lake.a.c", "topics": ["u"], "upsert": False, "delete": False,
         "select": "SELECT id, name FROM record"},
    ],
    "merge": {"interval": "60s", "intermediate_suffix": "_tmp"},
    "heartbeat": {"topic": "hb", "hook": "a:b", "ignore_topics": ["x"]},
    "spark": {"connection": "c", "conf": {"spark.a": "b"}},
    "on_failure": [{"notifier": "a.B", "kwargs": {"text": "x", "headers": {"a": ["b"]}}}],
}  # fmt: skip
PUBLICATION: dict[str, Any] = {
    "description": "Orders", "table": "lake.a.b", "topic": "t", "key": {"fields": ["id"], "format": "json"},
    "value": {"format": "json"}, "sql": "SELECT id, name FROM {table}", "kafka": "k", "state_topic": "s",
    "spark": {"connection": "c", "conf": {"spark.a": "b"}},
}  # fmt: skip
FILES = {"pipelines": (PIPELINE, load_pipeline), "publications": (PUBLICATION, load_publication)}
REFUSED_AS_SECRETS = {
    "pipelines": {
        "description", "tags.0", "tags.1", "source.kafka.bootstrap.servers", "source.kafka.client.id",
        "tables.0.create.properties.a", "spark.connection", "spark.conf.spark.a", "on_failure.0.kwargs.text",
        "on_failure.0.kwargs.headers.a.0",
    },
    "publications": {"description", "kafka", "spark.connection", "spark.conf.spark.a"},
}  # fmt: skip


def list_leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(data, dict | list):
        for part, item in data.items() if isinstance(data, dict) else enumerate(data):
            yield from list_leaves(item, (*path, part))
    else:
        yield path


@pytest.mark.parametrize("kind", FILES)
def test_secret_is_shown_nowhere_and_refused_where_the_text_is_used_or_shown(kind: str, tmp_path: Path) -> None:
    data, load = FILES[kind]
    (tmp_path / kind).mkdir()
    (tmp_path / "catalogs.yaml").write_text("lake: {type: iceberg, properties: {type: rest, uri: 'http://h'}}\n")
    file, problems = tmp_path / kind / "orders.yaml", dict[str, str]()
    file.write_text(yaml.safe_dump(data))
    assert load(file).name == "orders"
    for *around, last in list_leaves(data):
        changed = deepcopy(data)
        part = changed
        for word in around:
            part = part[word]
        part[last] = SECRET
        file.write_text(yaml.safe_dump(changed))
        try:
            load(file)
        except ConfigurationError as error:
            problems[".".join(map(str, (*around, last)))] = str(error)
    assert [path for path, text in problems.items() if "geheim" in text] == []
    assert {path for path, text in problems.items() if "a secret in a file" in text} == REFUSED_AS_SECRETS[kind]
