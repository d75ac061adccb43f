"""What the doctor says of a dataset that is missing, or lies in another location than the catalog names."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from google.api_core.exceptions import NotFound
from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.probe import WarehouseProbe
from tidegate.errors import GiveUp
from tidegate.spec.pipeline import Catalog


class Located(Warehouse):
    """A project with datasets; a job runs in the location of the catalog, and finds what lies there."""

    def __init__(self, location: str, **datasets: str) -> None:
        super().__init__(Catalog("dwh", "bigquery", {"project": "p", "location": location}), lambda _: None)
        self._location, self._datasets = location, datasets

    @property
    def client(self) -> Any:
        return SimpleNamespace(get_dataset=self._get, query=self._query)

    def _get(self, reference: str, **_: Any) -> Any:
        name = reference.rpartition(".")[2]
        if name not in self._datasets:
            raise NotFound(f"Not found: Dataset p:{name}")
        return SimpleNamespace(location=self._datasets[name])

    def _query(self, sql: str, **_: Any) -> Any:
        for name, location in self._datasets.items():
            if name in sql and self._location != location:
                raise NotFound(f"Not found: Dataset p:{name} was not found in location {self._location}")
        return SimpleNamespace(total_bytes_processed=0)


def check(location: str, dataset: str, **datasets: str) -> list[str]:
    probe = WarehouseProbe(Located(location, **datasets))
    findings: list[Iterator[Any]] = [probe.connect(), probe.check_namespace(dataset, None)]
    return [finding.cause for part in findings for finding in part]


def test_dataset_in_another_location_than_the_catalogs_is_told_with_the_way_out() -> None:
    with pytest.raises(GiveUp, match="other was not found in location EU; create the dataset, or set location in cat"):
        check("EU", "other", shop="EU", other="US")


def test_datasets_where_jobs_run_are_well_and_a_missing_one_is_made_by_the_first_flush() -> None:
    place = "BigQuery project=p"
    assert check("EU", "shop", shop="EU", other="US")[1] == f"{place} dataset=shop: a dry run may create a table"
    assert check("EU", "new", shop="EU") == [f"{place}: it runs our jobs", f"{place} dataset=new: will be created"]
