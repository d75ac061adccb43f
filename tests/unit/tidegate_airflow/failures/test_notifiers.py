"""What leaves a run for those who watch: gauges by pipeline and table, and a word to whom the file names."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fakes import build_pipeline
from tidegate.spec.pipeline import Notifier


class Backend:
    """Airflow's metrics end here."""

    def __init__(self) -> None:
        self.gauges: list[tuple[str, float, dict[str, str] | None]] = []

    def gauge(self, stat: str, value: float, *, tags: dict[str, str] | None = None, **_: Any) -> None:
        self.gauges.append((stat, value, tags))


@pytest.fixture
def backend() -> Iterator[Backend]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Airflow's own, while it is imported
        from airflow.sdk._shared.observability.metrics import stats
    backend, before = Backend(), stats._factory
    stats.initialize(factory=lambda: backend, export_legacy_names=False)
    yield backend
    stats.initialize(factory=before or stats.NoStatsLogger, export_legacy_names=True)


def notify(notifier: Notifier, run_id: str = "r1") -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tidegate_airflow.failures.notifiers import build_failure_callbacks
    for call in build_failure_callbacks("shop", [replace(build_pipeline(), on_failure=(notifier,))]):
        call({"run_id": run_id})


def test_a_gauge_has_tags_and_a_name_of_its_own_for_backends_without_tags(backend: Backend) -> None:
    from tidegate_airflow.tasks import send_pipeline_metrics

    send_pipeline_metrics("shop", {"lag": 3.0})
    send_pipeline_metrics("shop", {"batch.seconds": 1.5}, "lake.shop.orders")
    assert backend.gauges == [
        ("tidegate.lag", 3.0, {"pipeline": "shop"}),
        ("tidegate.lag.shop", 3.0, None),
        ("tidegate.batch.seconds", 1.5, {"pipeline": "shop", "table": "lake.shop.orders"}),
        ("tidegate.batch.seconds.shop.lake_shop_orders", 1.5, None),
    ]


def test_a_notifier_is_made_with_its_arguments_and_sees_the_run() -> None:
    notify(Notifier("fakes.notifier.KeepingNotifier", {"text": "failed: {{ run_id }}"}))
    from fakes.notifier import KeepingNotifier

    assert KeepingNotifier.notifications[-1] == ("failed: r1", "r1")


@pytest.mark.parametrize("path", ["nowhere.at.All", "fakes.notifier.Missing", "os.system", "json.JSONDecoder"])
def test_what_is_no_notifier_is_logged_and_not_called(path: str, caplog: pytest.LogCaptureFixture) -> None:
    notify(Notifier(path))
    assert f"on_failure.notifier={path} was not called" in caplog.text
    assert f"ConfigurationError: on_failure.notifier={path}: " in caplog.text
