"""Puts what `make.py` kept of an older version into a workbench: its files into this folder, records into this broker.

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
    """What is kept beside the tables' files."""
    with tarfile.open(FOLDER / f"written_by_{version}.tar.xz") as archive:
        file = archive.extractfile("kept.json")
        assert file is not None
        kept: dict[str, Any] = json.load(file)
        return kept


def restore(workbench: Any, version: str, compacted: tuple[str, ...]) -> dict[str, Any]:
    """Topics with their records at their offsets, committed offsets, and tables; what is kept, as it is named here."""
    kept = read_kept(version)
    for topic, partitions in kept["partitions"].items():
        _create_topic(workbench, topic, partitions, compact=topic in compacted)
    here = workbench.build_ports("shop").broker.read_log(tuple(kept["topic_ids"]), "read_committed")
    names = {kept["root"].removeprefix("file://"): str(workbench.warehouse), kept["cluster"]: here.cluster_id}
    names |= {old: here.topic_ids[topic] for topic, old in kept["topic_ids"].items()}
    for topic, records in kept["records"].items():
        _restore_records(workbench, topic, records, names)
    with tarfile.open(FOLDER / f"written_by_{version}.tar.xz") as archive:
        archive.extractall(workbench.folder, filter="data")
    relocate(workbench.warehouse, names)
    kept = json.loads(replace_text(json.dumps(kept), names))
    catalog = load_catalog("lake", **workbench.properties)
    catalog.create_namespace("shop")
    for table, location in kept["tables"].items():
        catalog.register_table(f"shop.{table}", location)
    workbench.build_ports("shop").broker.commit("tidegate-shop", to_offsets(kept["committed"]))
    return kept


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
    ordered = sorted(records, key=lambda record: (record["partition"], record["offset"]))
    for number in {record["partition"] for record in ordered}:
        found = [record["offset"] for record in ordered if record["partition"] == number]
        assert found == list(range(len(found))), "offsets without a gap"
    workbench.produce(topic, *(_to_record(record, names) for record in ordered))


def _to_record(record: dict[str, Any], names: Mapping[str, str]) -> tuple[Any, Any, dict[str, Any]]:
    parts = (None if record[part] is None else base64.b64decode(record[part]) for part in ("key", "value"))
    key, value = (_replace_values(part, names) for part in parts)
    headers = [(name, base64.b64decode(part)) for name, part in record["headers"]]
    return key, value, {"partition": record["partition"], "timestamp": record["timestamp"], "headers": headers}


def relocate(warehouse: Path, names: Mapping[str, str]) -> None:
    """Replace what stands in the files: those of deletes first, then who tells their sizes, up to the metadata."""
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
        return {key: _replace_values(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_replace_values(one, names) for one in value]
    if isinstance(value, bytes):
        for old, new in names.items():
            value = value.replace(old.encode(), new.encode())
        return value
    return replace_text(value, names) if isinstance(value, str) else value
