"""Named jobs of BigQuery, for those who show them or wait for them elsewhere."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tidegate.spec.catalog import Catalog


@dataclass(frozen=True)
class NamedJob:
    """A load job or a publish, with its project and location. `catalog` says with which client to reach it."""

    catalog: Catalog = field(repr=False)
    project: str
    location: str
    job_id: str

    @classmethod
    def from_job(cls, catalog: Catalog, job: Any) -> "NamedJob":
        """From the client's job."""
        return cls(catalog, job.project, job.location or "", job.job_id)

    def __str__(self) -> str:
        return f"{self.project}:{self.location}.{self.job_id}"

    @property
    def address(self) -> str:
        """The job's page in the console, or what a test server gives in its place."""
        endpoint = self.catalog.properties.get("endpoint")
        if endpoint:
            return f"{endpoint}/bigquery/v2/projects/{self.project}/jobs/{self.job_id}"
        place = f"project={self.project}&j=bq:{self.location}:{self.job_id}"
        return f"https://console.cloud.google.com/bigquery?{place}&page=queryresults"


def name_job(*parts: object) -> str:
    """A job's name from what it is for: the same for the same, and nothing in it that BigQuery refuses."""
    text = "/".join(str(part) for part in parts)
    return f"tidegate_{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def find_newest_number(has_job: Callable[[int], bool], known_number: int) -> int:
    """The highest number that a job has. Numbers are given in order, so few lookups are needed."""
    low = known_number
    step = 1
    while has_job(low + step):
        low = low + step
        step = step * 2
    while step > 1:
        step //= 2
        low += step if has_job(low + step) else 0
    return low


def iterate_pauses() -> Iterator[float]:
    """Seconds between two polls: short at first, longer later, because some statements take minutes."""
    return (min(2.0, 0.05 * 1.5**n) for n in count())
