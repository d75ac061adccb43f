"""Restores what `make.py` saved of an older version in a workbench: files into this folder, records into this broker.

Files keep what that version wrote, but for what cannot be the same here: the path of the warehouse, which stands in
metadata, manifests and files of deletes, and the ids of cluster and topics, which positions have.
"""

import base64
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog

FOLDER = Path(__file__).parent
PATH_COLUMN = "file_path"


def read_kept(version: str) -> dict[str, Any]:
    """The facts that were saved with the tables' files."""
    with tarfile.open(FOLDER / f"written_by_{version}.tar.xz") as archive:
        file = archive.extractfile("kept.json")
        assert file is not None
        content: dict[str, Any] = json.load(file)
        return content


def restore(workbench: Any, version: str, compacted: tuple[str, ...]) -> dict[str, Any]:
    """Topics with their records at their offsets, committed offsets, and tables; what is kept, as it is named here."""
    content = read_kept(version)
    for topic, partitions in content["partitions"].items():
        _create_topic(workbench, topic, partitions, compact=topic in compacted)
    log = workbench.build_ports("shop").broker.read_log(tuple(content["topic_ids"]), "read_committed")
    names = {content["root"].removeprefix("file://"): str(workbench.warehouse), content["cluster"]: log.cluster_id}
    names |= {old: log.topic_ids[topic] for topic, old in content["topic_ids"].items()}
    for topic, records in content["records"].items():
        _restore_records(workbench, topic, records, names)
    with tarfile.open(FOLDER / f"written_by_{version}.tar.xz") as archive:
        archive.extractall(workbench.folder, filter="data")
    relocate(workbench.warehouse, names)
    content = json.loads(replace_text(json.dumps(content), names))
    catalog = load_catalog("lake", **workbench.properties)
    catalog.create_namespace("shop")
    for table, location in content["tables"].items():
        catalog.register_table(f"shop.{table}", location)
    workbench.build_ports("shop").broker.commit("tidegate-shop", to_offsets(content["committed"]))
    return content


def to_offsets(data: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    """Offsets out of JSON, whose keys are texts."""
    return {topic: {int(partition): offset for partition, offset in parts.items()} for topic, parts in data.items()}


def _create_topic(workbench: Any, topic: str, partitions: int, *, compact: bool) -> None:
    config = {"retention.ms": "-1", **({"cleanup.policy": "compact"} if compact else {})}
    if workbench.exists_topic(topic):  # on servers that are kept up between runs
        workbench.recreate(topic, partitions, **config)
    else:
        workbench.topic(partitions, topic, **config)


def _restore_records(workbench: Any, topic: str, records: list[Any], names: Mapping[str, str]) -> None:
    ordered_records = sorted(records, key=lambda record: (record["partition"], record["offset"]))
    for number in {record["partition"] for record in ordered_records}:
        offsets = [record["offset"] for record in ordered_records if record["partition"] == number]
        assert offsets == list(range(len(offsets))), "offsets without a gap"
    workbench.produce(topic, *(_to_record(record, names) for record in ordered_records))


def _to_record(record: dict[str, Any], names: Mapping[str, str]) -> tuple[Any, Any, dict[str, Any]]:
    parts = (None if record[part] is None else base64.b64decode(record[part]) for part in ("key", "value"))
    key, value = (_replace_values(part, names) for part in parts)
    headers = [(name, base64.b64decode(part)) for name, part in record["headers"]]
    return key, value, {"partition": record["partition"], "timestamp": record["timestamp"], "headers": headers}


def relocate(warehouse: Path, names: Mapping[str, str]) -> None:
    """Replace the names in the files: in files of deletes first, then in those with their sizes, up to the metadata."""
    lengths: dict[str, int] = {}
    for file in warehouse.rglob("*.parquet"):
        if PATH_COLUMN in pq.read_schema(file).names:
            _rewrite_deletes(file, names)
            lengths[str(file)] = file.stat().st_size
    manifests = sorted(warehouse.rglob("*.avro"), key=lambda file: file.name.startswith("snap-"))
    for file in manifests:
        _rewrite_avro(file, names, lengths)
        lengths[str(file)] = file.stat().st_size
    for file in warehouse.rglob("*.metadata.json"):
        file.write_text(replace_text(file.read_text(), names))


def replace_text(text: str, names: Mapping[str, str]) -> str:
    """The text with each old name replaced."""
    for old, new in names.items():
        text = text.replace(old, new)
    return text


def _rewrite_deletes(file: Path, names: Mapping[str, str]) -> None:
    table = pq.read_table(file)
    at = table.schema.get_field_index(PATH_COLUMN)
    paths = [replace_text(path, names) for path in table.column(at).to_pylist()]
    field = table.schema.field(at)
    pq.write_table(table.set_column(at, field, [paths]).cast(table.schema), file, compression="zstd")


def _rewrite_avro(file: Path, names: Mapping[str, str], lengths: Mapping[str, int]) -> None:
    with file.open("rb") as stream:
        reader = fastavro.reader(stream)
        header, records = dict(reader.metadata), list(reader)
    schema = json.loads(header.pop("avro.schema"))
    header.pop("avro.codec", None)
    records = [_replace_values(record, names) for record in records]
    for record in records:
        _correct_length(record, lengths)
    header = {key: replace_text(text, names) for key, text in header.items()}
    with file.open("wb") as stream:
        fastavro.writer(stream, schema, records, codec="deflate", metadata=header)


def _correct_length(record: dict[str, Any], lengths: Mapping[str, int]) -> None:
    for place, path, length in (
        (record, "manifest_path", "manifest_length"),
        (record.get("data_file", {}), PATH_COLUMN, "file_size_in_bytes"),
    ):
        name = str(place.get(path)).removeprefix("file:").replace("///", "/")
        if name in lengths:
            place[length] = lengths[name]


def _replace_values(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replace_values(element, names) for key, element in value.items()}
    if isinstance(value, list):
        return [_replace_values(element, names) for element in value]
    if isinstance(value, bytes):
        for old, new in names.items():
            value = value.replace(old.encode(), new.encode())
        return value
    return replace_text(value, names) if isinstance(value, str) else value
