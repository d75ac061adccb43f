"""Checks the log-in, the datasets and the right to run jobs, by requests and dry runs, which change nothing."""

from collections.abc import Iterator

from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.errors import translate_client_errors
from tidegate.diagnosis.finding import Finding, make_ok


class WarehouseProbe:
    """Implements `CatalogProbe`."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._place = f"BigQuery project={warehouse.project}"

    def connect(self) -> Iterator[Finding]:
        """Checks the machine's identity first, then the right to run jobs."""
        with translate_client_errors(self._place):
            self._warehouse.estimate_read_bytes("SELECT 1")
        yield make_ok("catalog.reachable", f"{self._place}: it runs our jobs")

    def check_namespace(self, namespace: str, scratch: str | None) -> Iterator[Finding]:
        """A dry run in either case of `scratch`: it makes nothing."""
        reference = f"{self._warehouse.project}.{namespace}"
        is_there = self._warehouse.has_dataset(reference)
        if is_there:
            self._warehouse.estimate_read_bytes(f"CREATE TABLE `{reference}.{scratch or 'tidegate_doctor'}` (id INT64)")
        state = "a dry run may create a table" if is_there else "will be created"
        yield make_ok("catalog.commit", f"{self._place} dataset={namespace}: {state}")
