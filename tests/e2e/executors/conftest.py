"""Airflow as it lives: metadata on PostgreSQL, two schedulers, and each executor in turn, Celery's with two workers."""

from collections.abc import Iterator

import pytest
from e2e.executors.land import Land
from e2e.executors.opening import open_land

EXECUTORS: dict[str, tuple[str, ...]] = {"LocalExecutor": (), "CeleryExecutor": ("celery",)}


@pytest.fixture(scope="module", params=EXECUTORS)
def land(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Land]:
    with open_land(request.param, tmp_path_factory.mktemp(request.param), *EXECUTORS[request.param]) as land:
        yield land
