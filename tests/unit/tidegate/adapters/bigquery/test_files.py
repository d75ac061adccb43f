"""Staging in Cloud Storage: what is written, loaded by one job from one address, found and removed below a prefix."""

import os
import shutil
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.bucket import run_bucket_server
from google.auth.credentials import AnonymousCredentials
from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.files import Folder, open_folder
from tidegate.adapters.bigquery.staging import LoadRequest, run_load_job
from tidegate.errors import GiveUp, RetryLater
from tidegate.spec.pipeline import Catalog

ATTEMPT = "shop/orders_shop_tmp/batch=7/attempt=a1"


@pytest.fixture
def bucket_objects(monkeypatch: pytest.MonkeyPatch) -> Any:
    with run_bucket_server() as (address, objects):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        yield objects


@pytest.fixture
def folder(bucket_objects: dict[str, bytes]) -> Folder:
    return open_folder("gs://bucket/some/prefix/", AnonymousCredentials, "p")


def test_files_of_a_bucket_are_written_read_listed_and_removed_below_their_prefix(
    folder: Folder, bucket_objects: dict[str, bytes]
) -> None:
    folder.write(f"{ATTEMPT}/landed.json", b'{"rows": 3}')
    folder.write(f"{ATTEMPT}/rows/part-0.parquet", b"\x00\r\n--bytes\n")
    folder.write("shop/orders_shop_tmp/batch=70/attempt=b/landed.json", b"{}")
    assert sorted(bucket_objects)[0] == f"some/prefix/{ATTEMPT}/landed.json"
    assert folder.read(f"{ATTEMPT}/landed.json") == b'{"rows": 3}'
    assert folder.read(f"{ATTEMPT}/nothing") is None
    assert folder.list_paths("shop/orders_shop_tmp/batch=7") == [
        f"{ATTEMPT}/landed.json", f"{ATTEMPT}/rows/part-0.parquet",
    ]  # fmt: skip
    folder.delete("shop/orders_shop_tmp/batch=7")
    assert folder.list_paths("shop") == ["shop/orders_shop_tmp/batch=70/attempt=b/landed.json"]
    folder.delete("shop/orders_shop_tmp/batch=7")


def test_a_file_that_another_run_removes_meanwhile_is_no_fault(
    folder: Any, bucket_objects: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(f"{ATTEMPT}/landed.json", b"{}")
    blobs = list(folder._bucket.list_blobs())
    bucket_objects.clear()
    monkeypatch.setattr(folder._bucket, "list_blobs", lambda prefix: blobs)
    folder.delete("shop")


FORBIDDEN = (403, "a@b does not have storage.objects.get access", "roles/storage.objectAdmin on the bucket")
NO_BUCKET = (404, "The specified bucket does not exist.", "correct staging in catalogs.yaml")


@pytest.mark.parametrize(
    ("verb", "status", "message", "way_out"),
    [
        *((verb, *FORBIDDEN) for verb in ("read", "write", "list_paths", "delete")),
        *((verb, *NO_BUCKET) for verb in ("write", "list_paths", "delete")),
    ],
)
def test_refusal_of_the_bucket_is_told_as_cloud_storages_with_a_way_out(
    verb: str, status: int, message: str, way_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_bucket_server((status, message)) as (address, _):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        folder = open_folder("gs://bucket/prefix", AnonymousCredentials, "p")
        with pytest.raises(GiveUp) as error_info:
            getattr(folder, verb)("shop/f", *([b"x"] if verb == "write" else []))
    error_text = str(error_info.value)
    assert error_text.startswith("bucket=bucket file=gs://bucket/prefix/shop/f: Cloud Storage refused it: ")
    assert (message in error_text, way_out in error_text, "BigQuery" in error_text) == (True, True, False)


def make_local(root: Path) -> Folder:
    folder = open_folder(root.as_uri(), AnonymousCredentials, "p")
    for attempt in ("a1", "a2"):
        folder.write(f"shop/orders_shop_tmp/batch=7/attempt={attempt}/rows/part-0.parquet", b"rows")
    folder.write("shop/orders_shop_tmp/batch=8/attempt=a3/landed.json", b"{}")
    return folder


@pytest.mark.parametrize("lost_name", ["batch=7", "attempt=a2", "rows"])
def test_folder_that_another_run_removes_while_it_is_listed_holds_nothing(
    lost_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs on one machine: one lists what waits, the other removes what it has published."""
    folder, scan = make_local(tmp_path), os.scandir

    def scan_behind_the_other_run(place: Any) -> Any:
        if not isinstance(place, int) and Path(place).name == lost_name:
            shutil.rmtree(place, ignore_errors=True)
        return scan(place)

    monkeypatch.setattr(os, "scandir", scan_behind_the_other_run)
    paths = folder.list_paths("shop")
    assert "shop/orders_shop_tmp/batch=8/attempt=a3/landed.json" in paths
    assert not any(lost_name in path for path in paths)
    assert folder.get_load_source(f"{ATTEMPT}/rows") == ([] if lost_name != "attempt=a2" else [tmp_path / paths[0]])


def test_file_is_written_although_another_run_removes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, make, removals = make_local(tmp_path), Path.mkdir, iter([True])

    def make_before_the_other_run(place: Path, *mode: int, **options: Any) -> None:
        make(place, *mode, **options)
        if options.get("parents") and next(removals, False):
            shutil.rmtree(tmp_path / "shop")

    monkeypatch.setattr(Path, "mkdir", make_before_the_other_run)
    folder.write(f"{ATTEMPT}/landed.json", b"landed")
    assert folder.list_paths("shop") == [f"{ATTEMPT}/landed.json"]
    assert folder.read(f"{ATTEMPT}/landed.json") == b"landed"


def test_file_that_is_gone_before_it_is_loaded_has_its_batch_staged_again(tmp_path: Path) -> None:
    (file, *_) = make_local(tmp_path).get_load_source(f"{ATTEMPT}/rows")
    Path(file).unlink()
    load_request = LoadRequest("intermediate=dwh.shop.orders_shop_tmp", "dwh.shop.orders_shop_tmp", {})
    with pytest.raises(RetryLater, match=r"^intermediate=dwh\.shop\.orders_shop_tmp: file=.*part-0\.parquet is gone"):
        run_load_job(Loading(), load_request, "load_1", Path(file))


class Loading(Warehouse):
    """A project that keeps what its load jobs are asked for."""

    def __init__(self) -> None:
        super().__init__(Catalog("dwh", "bigquery", {"project": "p"}), lambda _: None)
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    @cached_property
    def client(self) -> Any:
        return SimpleNamespace(load_table_from_uri=self._load)

    def find_table(self, name: str) -> Any:
        from google.cloud.bigquery import SchemaField

        return SimpleNamespace(schema=[SchemaField("batch_number", "INT64")])

    def _load(self, uri: str, into: str, job_id: str, job_config: Any, **limits: Any) -> Any:
        self.asked.append((uri, into, job_config.to_api_repr()))
        job_fields = {"state": "DONE", "error_result": None, "output_rows": 3, "reload": lambda **_: None}
        return SimpleNamespace(job_id=job_id, project="p", location="EU", **job_fields)


def test_an_attempt_in_a_bucket_is_one_load_job_over_all_its_files(folder: Folder) -> None:
    warehouse = Loading()
    source = folder.get_load_source(f"{ATTEMPT}/rows")
    assert isinstance(source, str)
    load_request = LoadRequest("w", "dwh.shop.orders_shop_tmp", {"tidegate_batch": "7"})
    assert run_load_job(warehouse, load_request, "load_1", source) == 3
    ((uri, into, config),) = warehouse.asked
    assert uri == f"gs://bucket/some/prefix/{ATTEMPT}/rows/*.parquet"
    assert into == "p.shop.orders_shop_tmp"
    assert config["load"] == {
        "sourceFormat": "PARQUET",
        "schema": {"fields": [{"name": "batch_number", "type": "INT64", "mode": "NULLABLE"}]},
        "writeDisposition": "WRITE_APPEND",
        "createDisposition": "CREATE_NEVER",
        "parquetOptions": {"enableListInference": True},
        "decimalTargetTypes": ["NUMERIC", "BIGNUMERIC"],
    }
    assert config["labels"] == {"tidegate_batch": "7"}
