"""Listeners of a real Airflow with its own database: pools are made when it starts, and for what `catalogs.yaml` says
later; a run that succeeds has the variables of removed DAGs deleted.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CATALOG = "{name}: {{type: iceberg, properties: {{type: rest, uri: 'http://localhost:1'}}}}\n"
# Airflow's own calls: of a service that starts, and of a run that the scheduler starts within a transaction of its own.
SCRIPT = """
import os, time
from pathlib import Path

from airflow.jobs.job import Job
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.variable import Variable
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from tidegate_airflow.failures.notifiers import DESCRIPTION, VARIABLE_SUFFIX

catalogs = Path(os.environ["TIDEGATE_INCLUDE"], "catalogs.yaml")

def list_pools():
    with create_session(scoped=False) as session:
        return sorted(name for (name,) in session.query(Pool.pool) if name.startswith("tidegate_"))

def start_run(dag_id, state="running"):
    with create_session() as session:
        session.add(Variable(key=f"{dag_id}{time.time()}", val="the scheduler's own change, not committed yet"))
        session.flush()
        run = DagRun(dag_id=dag_id, run_id="r", run_type="manual", state=state)
        run.notify_dagrun_state_changed("its state is another")

def wait_for(*names):
    deadline = time.monotonic() + 120
    while list_pools() != sorted(pool for name in names for pool in (name, f"{name}_stage", f"{name}_verify")):
        assert time.monotonic() < deadline, list_pools()
        time.sleep(0.1)

initdb()
missed = f"tidegate_gone{VARIABLE_SUFFIX}"
with create_session() as session:
    session.add(Variable(key=missed, val="{}", description=DESCRIPTION))
catalogs.write_text("lake: [\\n")
Job()
assert list_pools() == []
catalogs.write_text(os.environ["LAKE"])
start_run("tidegate_orders")
wait_for("tidegate_lake")
start_run("tidegate_orders", "success")
deadline = time.monotonic() + 120
while Variable.get(missed, None) is not None:
    assert time.monotonic() < deadline, "the variable of a removed DAG stays"
    time.sleep(0.1)
with create_session() as session:
    session.query(Pool).filter(Pool.pool == "tidegate_lake").update({"slots": 9})
catalogs.write_text(os.environ["LAKE"] + os.environ["POND"] + os.environ["SEA"])
start_run("somebody_elses")
assert list_pools() == ["tidegate_lake", "tidegate_lake_stage", "tidegate_lake_verify"]
start_run("tidegate_fleet_shop")
wait_for("tidegate_lake", "tidegate_pond", "tidegate_sea")
Job()
wait_for("tidegate_lake", "tidegate_pond", "tidegate_sea")
with create_session() as session:
    named = [pool for pool in session.query(Pool) if pool.pool.startswith("tidegate_")]
    print({pool.pool: pool.slots for pool in named if not pool.pool.endswith(("_stage", "_verify"))})
"""


def test_pools_are_made_for_catalogs_that_are_right_when_airflow_starts_and_for_those_that_come_later(
    tmp_path: Path,
) -> None:
    include = tmp_path / "include"
    include.mkdir()
    settings = {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db",
        "TIDEGATE_INCLUDE": str(include),
        "PYTHONPATH": str(ROOT / "plugins"),
        **{name.upper(): CATALOG.format(name=name) for name in ("lake", "pond", "sea")},
    }
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[-1] == "{'tidegate_lake': 9, 'tidegate_pond': 4, 'tidegate_sea': 4}"
    assert "error calling listener" not in process.stdout + process.stderr
    assert (process.stdout + process.stderr).count("no pools are made: ") == 1
