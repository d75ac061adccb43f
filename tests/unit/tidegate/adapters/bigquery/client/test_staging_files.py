"""Staging in Cloud Storage: what is written, loaded by one job from one address, found and removed below a prefix."""

from functools import cached_property
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.bucket import bucket_server
from google.auth.credentials import AnonymousCredentials
from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.client.load_jobs import LoadRequest, run_load_job
from tidegate.adapters.bigquery.client.staging_files import Folder, open_folder
from tidegate.spec.catalog import Catalog

ATTEMPT = "shop/orders_shop_tmp/batch=7/attempt=a1"


@pytest.fixture
def bucket_objects(monkeypatch: pytest.MonkeyPatch) -> Any:
    with bucket_server() as (address, objects):
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
    listed = list(folder._bucket.list_blobs())
    bucket_objects.clear()
    monkeypatch.setattr(folder._bucket, "list_blobs", lambda prefix: listed)
    folder.delete("shop")


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

    def _load(self, uri: str, into: str, job_id: str, job_config: Any, timeout: float) -> Any:
        self.asked.append((uri, into, job_config.to_api_repr()))
        ended = {"state": "DONE", "error_result": None, "output_rows": 3, "reload": lambda **_: None}
        return SimpleNamespace(job_id=job_id, project="p", location="EU", **ended)


def test_an_attempt_in_a_bucket_is_one_load_job_over_all_its_files(folder: Folder) -> None:
    warehouse = Loading()
    source = folder.get_load_source(f"{ATTEMPT}/rows")
    assert isinstance(source, str)
    asked = LoadRequest("w", "dwh.shop.orders_shop_tmp", {"tidegate_batch": "7"})
    assert run_load_job(warehouse, asked, "load_1", source) == 3
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
