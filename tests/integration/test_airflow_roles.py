"""Who may see a pipeline, start each of its DAGs and pause it, by Airflow's own API: the tables of docs/security.md."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import fab_packages
import pytest
from airflow_roles import FAB, KINDS, ROLES, SIMPLE
from conftest import DEADLINE_SECONDS, ROOT

PAGE = ROOT / "docs" / "security.md"
ALL = ["shop", "stock"]
REFUSED = 403
ROLE_ROW = re.compile(r"^\| `(\w+)` \|(.*)\|$", re.MULTILINE)


def ask_everybody(manager: str, folder: Path, *packages: Path) -> dict[str, dict[str, Any]]:
    """What each user of an auth manager sees, and which of their requests is not refused."""
    path = os.pathsep.join(map(str, (*packages, ROOT / "plugins", ROOT / "jobs", ROOT / "tests")))
    process = subprocess.run(
        [sys.executable, "-m", "airflow_roles", manager, str(folder)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    answers: dict[str, dict[str, Any]] = json.loads(process.stdout.splitlines()[-1])
    for user, answer in answers.items():
        assert answer["problem"] == "", (user, "the page of a pipeline that the user sees")
        started = {action for action in (*KINDS, "pause") if answer[action] != REFUSED}
        assert {answer[action] for action in started} <= {200}, (user, answer)
        assert set(answer["may"]) == started, (user, "the page offers what Airflow's API allows")
    return {
        user: {"sees": answer["sees"], "may": set(answer["may"]), "connections": answer["connections"] == 200}
        for user, answer in answers.items()
    }


def read_documented() -> dict[str, dict[str, Any]]:
    """The table of roles in docs/security.md."""
    rows = {role: [cell.strip() == "yes" for cell in cells.split("|")] for role, cells in find_rows()}
    words = (*KINDS, "pause")
    return {
        role: {
            "sees": ALL if sees else [],
            "may": set(words) if starts else set(),
            "connections": reads_connections,
        }
        for role, (sees, starts, reads_connections) in rows.items()
    }


def find_rows() -> list[tuple[str, str]]:
    section = PAGE.read_text().partition("## Airflow\n")[2].partition("\n## ")[0]
    return [(role, cells) for role, cells in ROLE_ROW.findall(section) if role in ROLES]


@pytest.mark.repeats("unit/tidegate_airflow/web/test_app.py::test_viewer_sees_everything_and_may_trigger_nothing")
def test_roles_of_the_simple_auth_manager_may_do_what_is_documented(tmp_path: Path) -> None:
    documented = read_documented()
    assert set(documented) == set(ROLES)
    assert ask_everybody(SIMPLE, tmp_path) == documented


# the same questions, of an auth manager that tells DAGs apart
@pytest.mark.repeats("unit/tidegate_airflow/web/test_app.py::test_viewer_sees_everything_and_may_trigger_nothing")
def test_roles_of_fab_may_do_the_same_and_single_dags_can_be_granted(tmp_path: Path) -> None:
    if not fab_packages.is_there():
        pytest.skip(f"skipped: {fab_packages.MISSING}")
    rights = ask_everybody(FAB, tmp_path, fab_packages.FOLDER)
    assert {role: rights[role] for role in ROLES} == read_documented()
    nothing = {"sees": ["shop"], "connections": False}
    assert rights["sees"] == {**nothing, "may": set()}
    assert rights["flushes"] == {**nothing, "may": {"flush", "pause"}}
    assert rights["acts"] == {**nothing, "may": {"actions"}}
