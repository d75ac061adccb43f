"""The shipped alerts and the dashboard ask only for what the metrics have, and every alert says what to do."""

import json
import re
from pathlib import Path

import pytest
import yaml
from tidegate.monitoring.health import WORST_FIRST
from tidegate_airflow.web.openmetrics import FAMILIES

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "monitoring"
KNOWN = {name for name, _, _ in FAMILIES}
RULES = [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]
PANELS = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
EXPRESSIONS = [rule["expr"] for rule in RULES] + [target["expr"] for panel in PANELS for target in panel["targets"]]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression_asks_for_metrics_and_states_that_there_are(expression: str) -> None:
    assert set(re.findall(r"tidegate_\w+", expression)) <= KNOWN
    assert set(re.findall(r'state="([^"]+)"', expression)) <= set(WORST_FIRST)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_alert_is_one_of_two_urgencies_and_has_its_place_in_the_runbook(rule: dict[str, dict[str, str]]) -> None:
    assert rule["labels"]["severity"] in ("page", "ticket")
    page = ROOT / rule["annotations"]["runbook"]
    assert page.parent == ROOT / "docs" / "runbook"
    assert page.is_file()


def test_every_metric_is_on_the_dashboard_or_in_an_alert() -> None:
    metric_names = {name for expression in EXPRESSIONS for name in re.findall(r"tidegate_\w+", expression)}
    read_by_people = {"tidegate_lag_seconds", "tidegate_last_batch_timestamp_seconds"}
    assert KNOWN - metric_names <= {*read_by_people, "tidegate_publication_last_run_timestamp_seconds"}
