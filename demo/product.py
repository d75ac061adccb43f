"""The demo's use of the product: the include folder, the names of pipelines and tables, the status command."""

import json
import shutil
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from local.lake.catalog import describe_catalog, name_variables
from local.layout import ROOT

# pipeline: the table that it feeds, which is also the shop's
PIPELINES = {"shop_customers": "customers", "shop_orders": "orders", "shop_order_lines": "order_lines"}
TWO_CLOCKS = ("shop_order_lines",)  # staged by a DAG of its own, beside the merges
PIPELINE_FOLDER = Path(__file__).parent / "pipelines"
CATALOG, NAMESPACE = "lake", "shop"
WAREHOUSE = "dwh"
DESTINATIONS = ("iceberg", "bigquery")
STATUS_TIMEOUT_SECONDS = 60
VERIFY_TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Progress:
    """Where one pipeline stands. `batches` are its last published ones, newest last; `offsets` per partition."""

    pipeline: str
    rows: int | None
    batch: int | None
    valid_through: str | None
    lag: int
    settled: bool
    batches: tuple[Mapping[str, Any], ...]
    error: str | None = None
    held: str | None = None  # why a batch waits for an approval


def write_include(folder: Path, tables: Path, destination: str, parts: Collection[str] = ()) -> None:
    """Copy the demo's pipelines into a folder of the run, beside a catalog of its own, made of `parts` of the stack.

    In BigQuery the same files name another catalog, and leave out what it does not know: partitions by bucket, and
    `approve`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "pipelines").mkdir(parents=True)
    for pipeline in PIPELINES:
        text = (PIPELINE_FOLDER / f"{pipeline}.yaml").read_text()
        (folder / "pipelines" / f"{pipeline}.yaml").write_text(
            text if destination == "iceberg" else _convert_for_bigquery(text)
        )
    tables.mkdir()
    if destination == "bigquery":
        catalog = {"type": "bigquery", "project": "${BIGQUERY_PROJECT}", "endpoint": "${BIGQUERY_ENDPOINT}"}
        (folder / "catalogs.yaml").write_text(yaml.safe_dump({WAREHOUSE: {**catalog, "staging": f"file://{tables}"}}))
        return
    entry = describe_catalog(name_variables(parts), tables)
    (folder / "catalogs.yaml").write_text(yaml.safe_dump({CATALOG: entry}))


def _convert_for_bigquery(text: str) -> str:
    pipeline = yaml.safe_load(text)
    for table in pipeline["tables"]:
        table["name"] = table["name"].replace(f"{CATALOG}.", f"{WAREHOUSE}.", 1)
        table.pop("create", None)
        table.pop("approve", None)
    return str(yaml.safe_dump(pipeline, sort_keys=False))


def format_destination(pipeline: str) -> str:
    """namespace.table of a pipeline's destination."""
    return f"{NAMESPACE}.{PIPELINES[pipeline]}"


def format_intermediate(pipeline: str) -> str:
    """namespace.table of a pipeline's intermediate table."""
    return f"{format_destination(pipeline)}_{pipeline}_tmp"


def list_dag_ids(pipeline: str) -> list[str]:
    """The ids of a pipeline's DAGs that bring rows in: that of its flushes, and that of its staging."""
    return [f"tidegate_{pipeline}", *([f"tidegate_{pipeline}_stage"] if pipeline in TWO_CLOCKS else [])]


def read_progress(environment: Mapping[str, str]) -> list[Progress]:
    """Run `tidegate status` and keep the demo's own; empty when it does not answer in time or prints no JSON."""
    try:
        answer = _run_command(["status", "--json"], environment, STATUS_TIMEOUT_SECONDS)
        statuses = json.loads(answer.stdout)["pipelines"]
        return [_to_progress(status) for status in statuses if status["pipeline"] in PIPELINES]
    except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return []


def approve_table(pipeline: str, environment: Mapping[str, str]) -> tuple[bool, str]:
    """Run `tidegate approve` for the batch that waits: whether it was approved, and its diff."""
    try:
        answer = _run_command(["approve", pipeline, "--yes"], environment, STATUS_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return False, f"tidegate approve {pipeline} gave no answer within {STATUS_TIMEOUT_SECONDS} s"
    return answer.returncode == 0, (answer.stdout or answer.stderr).strip()


def verify_table(pipeline: str, environment: Mapping[str, str]) -> tuple[bool, str]:
    """Run `tidegate verify`: whether it calls the table equal to the log, and what it says."""
    try:
        answer = _run_command(["verify", pipeline], environment, VERIFY_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return False, f"tidegate verify {pipeline} gave no answer within {VERIFY_TIMEOUT_SECONDS} s"
    return answer.returncode == 0, (answer.stdout or answer.stderr).strip()


def _run_command(
    words: list[str], environment: Mapping[str, str], timeout_seconds: int
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "bin" / "tidegate"), *words],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )


def _to_progress(status: Mapping[str, Any]) -> Progress:
    tables, partitions = status.get("tables", []), status.get("partitions", [])
    table = tables[0] if tables else {}
    ends = [part["end"] == part["published"] == part["committed"] for part in partitions]
    batches = [batch for batch in status.get("batches", []) if batch.get("published_at")]
    return Progress(
        pipeline=status["pipeline"],
        rows=table.get("rows"),
        batch=table.get("batch"),
        valid_through=table.get("valid_through"),
        lag=sum(part["lag"] or 0 for part in partitions),
        settled=bool(ends) and all(ends),
        batches=tuple(sorted(batches, key=lambda batch: str(batch["published_at"]))),
        error=status.get("error"),
        held=table.get("problem") if table.get("held") else None,
    )
