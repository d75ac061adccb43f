"""The folder from which load jobs read what Spark wrote: on a shared disk, or in a bucket of Cloud Storage."""

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from tidegate.adapters.bigquery.errors import Service, pass_over_missing, translate_client_errors
from tidegate.errors import ConfigurationError


class Folder(Protocol):
    """Files by their path below the folder, with slashes."""

    def to_uri(self, path: str) -> str:
        """Spark writes to this URI."""

    def get_load_source(self, path: str) -> list[Path] | str:
        """Where a load job reads the Parquet files below `path`: files to upload, or one URI for all."""

    def read(self, path: str) -> bytes | None:
        """None without such a file."""

    def write(self, path: str, content: bytes) -> None:
        """Atomic: no reader sees a part of the file."""

    def list_paths(self, path: str) -> list[str]:
        """Paths of all files below `path`."""

    def delete(self, path: str) -> None:
        """Remove everything below `path`."""


def open_folder(address: str, credentials: Callable[[], Any], project: str) -> Folder:
    """The folder of ``file:///path`` or ``gs://bucket/prefix``."""
    parts = urlsplit(address)
    if parts.scheme == "file":
        return LocalFolder(Path(unquote(parts.path)))
    if parts.scheme == "gs" and parts.netloc:
        return Bucket(parts.netloc, parts.path.strip("/"), credentials, project)
    raise ConfigurationError(f"staging={address}: neither gs://bucket/prefix nor file:///folder; write one of them")


class LocalFolder:
    """A folder that Spark and the workers share; load jobs upload from it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def to_uri(self, path: str) -> str:
        return f"file://{self._root / path}"  # Hadoop takes a path as it stands, and decodes nothing

    def get_load_source(self, path: str) -> list[Path] | str:
        place = self._root / path
        names = list[str]()
        with suppress(FileNotFoundError):
            names = sorted(os.listdir(place))
        return [place / name for name in names if name.endswith(".parquet") and not name.startswith((".", "_"))]

    def read(self, path: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return (self._root / path).read_bytes()
        return None

    def write(self, path: str, content: bytes) -> None:
        file = self._root / path
        try:
            _write_whole(file, content)
        except FileNotFoundError:  # another run has removed the folder since it was made
            _write_whole(file, content)

    def list_paths(self, path: str) -> list[str]:
        folders = os.walk(self._root / path)  # which leaves out what another run removes meanwhile
        return sorted(
            (Path(place) / name).relative_to(self._root).as_posix() for place, _, names in folders for name in names
        )

    def delete(self, path: str) -> None:
        shutil.rmtree(self._root / path, ignore_errors=True)


def _write_whole(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(file)


CLOUD_STORAGE = Service(
    "Cloud Storage",
    if_forbidden="give the identity of the catalog's connection the role roles/storage.objectAdmin on the bucket",
    if_missing="create the bucket in the catalog's location, or correct staging in catalogs.yaml",
)


class Bucket:
    """A prefix of a bucket; load jobs read it themselves."""

    def __init__(self, bucket: str, prefix: str, credentials: Callable[[], Any], project: str) -> None:
        self._name = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._credentials = credentials
        self._project = project

    @cached_property
    def _bucket(self) -> Any:
        from google.cloud import storage

        return storage.Client(project=self._project, credentials=self._credentials()).bucket(self._name)

    def _translate_errors(self, path: str) -> AbstractContextManager[None]:
        return translate_client_errors(f"bucket={self._name} file={self.to_uri(path)}", service=CLOUD_STORAGE)

    def to_uri(self, path: str) -> str:
        return f"gs://{self._name}/{self._prefix}{path}"

    def get_load_source(self, path: str) -> list[Path] | str:
        return f"{self.to_uri(path)}/*.parquet"

    def read(self, path: str) -> bytes | None:
        with self._translate_errors(path), pass_over_missing():
            return bytes(self._bucket.blob(self._prefix + path).download_as_bytes())
        return None

    def write(self, path: str, content: bytes) -> None:
        with self._translate_errors(path):
            self._bucket.blob(self._prefix + path).upload_from_string(content)

    def list_paths(self, path: str) -> list[str]:
        with self._translate_errors(path):
            blobs = self._bucket.list_blobs(prefix=f"{self._prefix}{path}/")
            return sorted(blob.name.removeprefix(self._prefix) for blob in blobs)

    def delete(self, path: str) -> None:
        with self._translate_errors(path):
            for blob in list(self._bucket.list_blobs(prefix=f"{self._prefix}{path}/")):
                with pass_over_missing():  # another run cleans up, too
                    blob.delete()
