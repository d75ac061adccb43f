"""What the doctor says of a dataset that lies in another location than the catalog names."""

from types import SimpleNamespace
from typing import Any

import pytest
from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.probe import check_warehouse
from tidegate.diagnosis.destinations import CatalogNeed, NamespaceNeed
from tidegate.diagnosis.finding import Finding, Severity
from tidegate.errors import GiveUp
from tidegate.spec.catalog import Catalog

NEED = CatalogNeed((NamespaceNeed("shop", True, ("p",)), NamespaceNeed("other", True, ("p",))), scratch=None)


class Located(Warehouse):
    """A project with datasets; a job runs in the location of the catalog, and finds what lies there."""

    def __init__(self, location: str | None, **datasets: str) -> None:
        properties = {"project": "p"} if location is None else {"project": "p", "location": location}
        super().__init__(Catalog("dwh", "bigquery", properties), lambda _: None)
        self._location, self._datasets = location, datasets

    @property
    def client(self) -> Any:
        return SimpleNamespace(get_dataset=self._get, location=self._location)

    def _get(self, reference: str) -> Any:
        return SimpleNamespace(location=self._datasets[reference.rpartition(".")[2]])

    def estimate_read_bytes(self, sql: str) -> int:
        for name, location in self._datasets.items():
            if name in sql and (self._location or location).casefold() != location.casefold():
                raise GiveUp(f"dry run: BigQuery refused it: NotFound: Dataset p:{name} was not found in this location")
        return 0


def find_faults(location: str | None, **datasets: str) -> list[Finding]:
    warehouse = check_warehouse(Located(location, **datasets), "dwh", NEED)
    return [finding for finding in warehouse if finding.severity is not Severity.OK]


def test_dataset_in_another_location_than_the_catalogs_is_told_with_the_way_out() -> None:
    (fault,) = find_faults("EU", shop="EU", other="US")
    assert (fault.check, fault.severity) == ("catalog.namespace", Severity.ERROR)
    assert "dataset=other" in fault.cause
    assert "lies in location=US, and the catalog's jobs run in location=EU" in fault.cause
    assert fault.advice.startswith("set location: US in catalogs.yaml")


@pytest.mark.parametrize(
    ("location", "datasets"),
    [
        (None, {"shop": "US", "other": "europe-west3"}),
        ("eu", {"shop": "EU", "other": "EU"}),
        ("europe-west3", {"shop": "europe-west3", "other": "europe-west3"}),
    ],
)
def test_datasets_where_jobs_run_are_well(location: str | None, datasets: dict[str, str]) -> None:
    warehouse = check_warehouse(Located(location, **datasets), "dwh", NEED)
    assert {finding.severity for finding in warehouse if finding.check == "catalog.namespace"} == {Severity.OK}


def test_server_of_ones_own_that_takes_jobs_from_everywhere_is_well() -> None:
    """The local one says US of each dataset, whatever location it is asked for."""
    warehouse = Located("EU", shop="US", other="US")
    warehouse.estimate_read_bytes = lambda _: 0  # type: ignore[method-assign]
    assert [finding.severity for finding in check_warehouse(warehouse, "dwh", NEED)] == [Severity.OK] * 5
