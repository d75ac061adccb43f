"""What a run measures, sent the way of Airflow's own metrics: StatsD, Datadog or OpenTelemetry, as it is configured."""

import re
from collections.abc import Mapping

METRIC_PREFIX = "tidegate"
# Airflow takes letters of ASCII, digits, and these, 250 at most, and tells its log of any other name with a trace
UNKNOWN_LETTER = re.compile(r"[^A-Za-z0-9_/-]")
MAX_PLACE_LETTERS = 180
BACKEND_OPTIONS = ("statsd_on", "statsd_datadog_enabled", "otel_on")


def has_backend() -> bool:
    from airflow.configuration import conf

    return any(conf.getboolean("metrics", backend, fallback=False) for backend in BACKEND_OPTIONS)


def send_pipeline_metrics(pipeline: str, values: Mapping[str, float], table: str | None = None) -> None:
    """Send one gauge for each value: ``tidegate.<name>`` with the pipeline, and the table, as tags.

    Plain StatsD knows no tags, so each is also sent as ``tidegate.<name>.<pipeline>[.<table>]``.
    """
    _send_gauges({"pipeline": pipeline} | ({} if table is None else {"table": table}), values)


def send_publication_metrics(publication: str, values: Mapping[str, float]) -> None:
    """Send ``tidegate.publish.<name>`` with the publication as its tag."""
    _send_gauges({"publication": publication}, {f"publish.{name}": value for name, value in values.items()})


def _send_gauges(tags: dict[str, str], values: Mapping[str, float]) -> None:
    from airflow.sdk.observability import stats

    place = ".".join(UNKNOWN_LETTER.sub("_", tag) for tag in tags.values())[:MAX_PLACE_LETTERS]
    for name, value in values.items():
        stats.gauge(f"{METRIC_PREFIX}.{name}", value, tags=tags)
        stats.gauge(f"{METRIC_PREFIX}.{name}.{place}", value)
