"""Part i: how long Airflow's DAG processor reads the DAG files of many pipelines."""

import shutil

import yaml

from benchmarks.measure import run
from benchmarks.result import Bench, Goal, Result, Table, format_number
from local.layout import ROOT
from local.server import build_clean_environment

GOAL = 2.0


def measure(bench: Bench) -> Result:
    """The best of three readings in one process, as the DAG processor keeps its interpreter."""
    include, count = bench.folder / "include", bench.sizes.pipelines
    (include / "pipelines").mkdir(parents=True)
    shutil.copy(ROOT / "include" / "catalogs.yaml", include)
    for index in range(count):
        source = {"topics": [f"topic_{index}"], "value": {"format": "json", "schema": "id BIGINT"}}
        content = {"source": source, "tables": [{"name": f"lake.shop.t{index}"}]}
        (include / "pipelines" / f"p{index}.yaml").write_text(yaml.safe_dump(content))
    bench.say(f"reading the DAG files of {count} pipelines ...")
    home = bench.folder / "airflow"
    environment = {**build_clean_environment(), "TIDEGATE_INCLUDE": str(include), "AIRFLOW_HOME": str(home)}
    answer = run("benchmarks.parsing_worker", {}, environment, bench.folder / "parsing.log").said
    best = min(answer["cpu"])
    line = (str(count), str(answer["dags"]), *(format_number(value, 2) for value in answer["cpu"]))
    return Result(
        tables=[Table("i. Reading pipeline files", ("pipelines", "DAGs", "first, CPU s", "second", "third"), [line])],
        figures={f"{count} pipelines, CPU s": best},
        goals=[Goal(f"{count} pipeline files parsed, CPU s", best, GOAL)],
        right=answer["dags"] >= count,
    )
