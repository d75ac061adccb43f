"""Every alert of the shipped rules is provoked by the metrics that the product writes of such pipelines, by minutes.

Prometheus's own tool reads the rules and plays the time.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promtool
import pytest
import yaml
from tidegate_airflow.web.openmetrics import render_openmetrics

MONITORING = Path(__file__).parents[3] / "deploy" / "monitoring"
RULES = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
ALERTS = [rule["alert"] for group in RULES["groups"] for rule in group["rules"]]
DAY = 24 * 60
SAMPLE = re.compile(r"(?P<series>tidegate_\w+\{.*\}) (?P<value>\S+)")
pytestmark = pytest.mark.skipif(promtool.find() is None, reason=promtool.MISSING)


def build_table_row(name: str, **options: Any) -> dict[str, Any]:
    return {
        "table": name,
        "template": None,
        "lag": 0,
        "lag_known": True,
        "lag_seconds": 0.0,
        "open_batches": 0,
        "valid_through": None,
        "problem": None,
    } | options


def build_pipeline_row(name: str, state: str = "current", seconds: float = 10.0, **options: Any) -> dict[str, Any]:
    """A row of the overview, with two tables of which the first is the one that is looked at."""
    flush = {"seconds": seconds, "published_at": None, "inserted": 1, "updated": 0, "deleted": 0, "bytes_written": None}
    flush["unknown_records"] = 0
    first, second_table = build_table_row(f"lake.{name}", **options.pop("table", {})), build_table_row(f"lake.{name}_2")
    row = {"pipeline": name, "state": state, "lag": first["lag"], "tables": [first, second_table], "dead_letters": 0}
    part = {"topic": name, "partition": 0, "lag": first["lag"], "lag_seconds": first["lag_seconds"]}
    return row | {"partitions": [part, {**part, "partition": 1}], "last_flush": flush, "error": None} | options


def build_publication_row(name: str, state: str = "current", **options: Any) -> dict[str, Any]:
    behind = {"snapshots_behind": 0, "rows_behind": 0, "behind_seconds": 0.0, "last_run": None}
    return {"publication": name, "state": state, "error": None, **behind, **options}


World = Callable[[int], tuple[list[Any], list[Any]]]  # the pipelines and publications of a minute


def build_world(bad: Callable[[int], dict[str, Any]]) -> World:
    """One pipeline as given, beside one that is well, and one with two clocks whose batches wait for their merge."""
    clocks = build_pipeline_row("clocks", table={"open_batches": 30, "staging": {"lag": 0, "lag_seconds": 0.0}})
    return lambda minute: ([bad(minute), build_pipeline_row("well"), clocks], [build_publication_row("well_out")])


# alert: how pipelines are, the last minute in which it is quiet, the one in which it tells, of what it tells
CASES: dict[str, tuple[World, int, int, dict[str, str]]] = {
    "TidegateMetricsMissing": (lambda minute: ([], []), 4, 5, {}),
    "TidegateStuck": (
        build_world(lambda _: build_pipeline_row("bad", "stuck")),
        1,
        2,
        {"pipeline": "bad", "state": "stuck"},
    ),
    "TidegateFailing": (
        build_world(lambda _: build_pipeline_row("bad", "failing")),
        14,
        15,
        {"pipeline": "bad", "state": "failing"},
    ),
    "TidegateUnreadable": (
        build_world(lambda _: build_pipeline_row("bad", "unknown", error="no answer")),
        9,
        10,
        {"pipeline": "bad"},
    ),
    "TidegateBehind": (
        build_world(lambda _: build_pipeline_row("bad", table={"lag": 5, "lag_seconds": 3700.0})),
        9,
        10,
        {"pipeline": "bad", "table": "lake.bad"},
    ),
    "TidegateFallingBehind": (
        build_world(lambda minute: build_pipeline_row("bad", table={"lag": 10 * minute, "lag_seconds": 700.0})),
        30,
        31,
        {"pipeline": "bad", "table": "lake.bad"},
    ),
    "TidegateQueueGrows": (
        build_world(lambda _: build_pipeline_row("bad", table={"open_batches": 3})),
        14,
        15,
        {"pipeline": "bad", "table": "lake.bad"},
    ),
    "TidegateDeadLetters": (
        build_world(lambda minute: build_pipeline_row("bad", dead_letters=4 if minute >= 10 else 3)),
        9,
        10,
        {"pipeline": "bad"},
    ),
    "TidegateRowsDiffer": (
        build_world(
            lambda minute: build_pipeline_row(
                "bad", table={"verified": {"missing": 0, "surplus": 1 if minute >= 10 else 0, "different": 0}}
            )
        ),
        9,
        10,
        {"pipeline": "bad", "table": "lake.bad"},
    ),
    "TidegateBatchHeld": (
        build_world(lambda minute: build_pipeline_row("bad", table={"held": {"batch": 7} if minute >= 10 else None})),
        9,
        10,
        {"pipeline": "bad", "table": "lake.bad"},
    ),
    "TidegateSlowBatches": (
        build_world(lambda minute: build_pipeline_row("bad", seconds=100.0 if minute >= DAY else 10.0)),
        DAY + 29,
        DAY + 30,
        {"pipeline": "bad"},
    ),
    "TidegatePausedAndBehind": (
        build_world(lambda _: build_pipeline_row("bad", "paused", table={"lag": 5})),
        DAY // 2 - 1,
        DAY // 2,
        {"pipeline": "bad", "state": "paused"},
    ),
    "TidegatePublicationStuck": (
        lambda _: (
            [build_pipeline_row("well")],
            [build_publication_row("bad", "stuck"), build_publication_row("well_out")],
        ),
        14,
        15,
        {"publication": "bad", "state": "stuck"},
    ),
}


def collect_series(world: World, minutes: int) -> list[dict[str, str]]:
    """What a scraper reads once a minute, as promtool wants it."""
    values: dict[str, list[str]] = {}
    samples: dict[str, list[tuple[str, str]]] = {}  # rendered once for minutes that are alike
    for minute in range(minutes + 1):
        rows = world(minute)
        state = repr(rows)
        if state not in samples:
            samples[state] = SAMPLE.findall(render_openmetrics(*rows))
        for series, value in samples[state]:
            values.setdefault(series, []).append(value)
    return [{"series": series, "values": " ".join(samples)} for series, samples in values.items()]


@dataclass(frozen=True)
class Expectation:
    """What one alert tells of at these minutes of a world: labels, none where it is quiet."""

    alert: str
    labels_at_minute: dict[int, list[dict[str, str]]]

    def list_tests(self) -> list[dict[str, Any]]:
        """As promtool wants them."""
        severity = next(r["labels"] for group in RULES["groups"] for r in group["rules"] if r["alert"] == self.alert)
        return [
            {
                "eval_time": f"{minute}m",
                "alertname": self.alert,
                "exp_alerts": [{"exp_labels": {**severity, **labels}} for labels in all_labels],
            }
            for minute, all_labels in self.labels_at_minute.items()
        ]


def build_case(name: str, world: World, expectations: Iterable[Expectation]) -> dict[str, Any]:
    tests = [test for expectation in expectations for test in expectation.list_tests()]
    minutes = max(minute for expectation in expectations for minute in expectation.labels_at_minute)
    series = collect_series(world, minutes)
    return {"name": name, "interval": "1m", "input_series": series, "alert_rule_test": tests}


def play(folder: Path, cases: list[dict[str, Any]]) -> str:
    """Play each case's time; empty where its alerts tell of exactly what is expected, else what promtool says."""
    bare = {"groups": [{**g, "rules": [{**r, "annotations": {}} for r in g["rules"]]} for g in RULES["groups"]]}
    (folder / "rules.yaml").write_text(yaml.safe_dump(bare))
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": cases}
    (folder / "cases.json").write_text(json.dumps(document))  # JSON is YAML
    process = promtool.run("test", "rules", "cases.json", folder=folder)
    return "" if process.returncode == 0 else process.stdout + process.stderr


def test_every_alert_has_its_case() -> None:
    assert sorted(CASES) == sorted(ALERTS)


def test_each_alert_tells_in_its_time_of_the_pipeline_that_is_ill_alone(tmp_path: Path) -> None:
    cases = [
        build_case(alert, world, [Expectation(alert, {quiet: [], loud: [labels]})])
        for alert, (world, quiet, loud, labels) in CASES.items()
    ]
    assert play(tmp_path, cases) == ""


def test_alerts_are_quiet_while_all_is_well(tmp_path: Path) -> None:
    well: World = lambda minute: (  # noqa: E731
        [build_pipeline_row("one"), build_pipeline_row("two")],
        [build_publication_row("out")],
    )
    expectations = [Expectation(alert, {DAY // 2 + 1: []}) for alert in CASES]
    assert play(tmp_path, [build_case("well", well, expectations)]) == ""


def test_alert_that_tells_of_another_pipeline_is_named(tmp_path: Path) -> None:
    """promtool's answer for all cases names the alert that is wrong, and no other."""
    cases = [
        build_case(alert, CASES[alert][0], [Expectation(alert, {CASES[alert][2]: [{**CASES[alert][3], **wrong}]})])
        for alert, wrong in (("TidegateStuck", {"pipeline": "well"}), ("TidegateFailing", {}))
    ]
    answer = play(tmp_path, cases)
    assert "TidegateStuck" in answer
    assert "TidegateFailing" not in answer


def test_rules_and_the_scrape_job_are_read_by_prometheus(tmp_path: Path) -> None:
    assert promtool.run("check", "rules", str(MONITORING / "alerts.yaml"), folder=tmp_path).returncode == 0
    text = (MONITORING / "scrape.yaml").read_text()
    (tmp_path / "token").write_text("t" * 20)
    text = text.replace("/run/secrets/tidegate_metrics_token", str(tmp_path / "token"))
    text = text.replace("/etc/prometheus/tidegate-alerts.yaml", str(MONITORING / "alerts.yaml"))
    (tmp_path / "prometheus.yml").write_text(text)
    process = promtool.run("check", "config", "prometheus.yml", folder=tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr
    assert f"{len(ALERTS)} rules found" in process.stdout
