"""What each role of an auth manager may do with pipelines, according to Airflow's own API and to the page.

``python -m airflow_roles <auth manager> <folder>`` prints it as JSON. In a process of its own, as Airflow settles on
one auth manager when it is imported. No service runs, so what is triggered stays in the database.
"""

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SIMPLE = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
FAB = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
ROLES = ("viewer", "user", "op", "admin")
KINDS = ("flush", "backfill", "replay", "maintenance", "actions")
# beside the roles that Airflow has: what each may do with which resources, in the words of `airflow roles add-perms`
OWN_ROLES: dict[str, dict[str, tuple[str, ...]]] = {
    "sees": {"DAG:tidegate_shop": ("can_read",)},
    "flushes": {"DAG:tidegate_shop": ("can_read", "can_edit"), "DAG Run:tidegate_shop": ("can_create",)},
    "acts": {
        "DAG:tidegate_shop": ("can_read",),
        "DAG:tidegate_shop_actions": ("can_read", "can_edit"),
        "DAG Run:tidegate_shop_actions": ("can_create",),
    },
}
PIPELINE = """
source:
  topics: [{name}]
  key: {{fields: [id], schema: id BIGINT}}
  value: {{schema: "id BIGINT"}}
  errors: {{tolerance: all}}
tables: [{{name: lake.shop.{name}}}]
"""
NOBODY = "127.0.0.1:1"  # brokers that are away: the page tells that of each pipeline


def set_up(manager: str, folder: Path) -> None:
    """The settings of Airflow and of two pipelines, before the first import of Airflow."""
    include = folder / "include"
    (include / "pipelines").mkdir(parents=True)
    for name in ("shop", "stock"):
        (include / "pipelines" / f"{name}.yaml").write_text(PIPELINE.format(name=name))
    lake = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    (include / "catalogs.yaml").write_text(json.dumps({"lake": {"type": "iceberg", "properties": lake}}))
    (folder / "passwords.json").write_text(json.dumps({role: role for role in ROLES}))
    os.environ |= {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__AUTH_MANAGER": manager,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{role}:{role}" for role in ROLES),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AIRFLOW__API_AUTH__JWT_SECRET": "s" * 64,
        "AIRFLOW__API__SECRET_KEY": "s" * 64,
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": NOBODY}}),
        "TIDEGATE_INCLUDE": str(include),
    }


def fill_database() -> None:
    """Airflow's tables, with the DAGs of the pipelines."""
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    initdb()
    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
    bag = DagBag(dag_folder=str(ROOT / "dags"), bundle_path=ROOT / "dags", bundle_name="dags-folder")
    assert not bag.import_errors, bag.import_errors
    sync_bag_to_db(bag, "dags-folder", None)


def add_fab_users() -> list[str]:
    """A user for each role of FAB, and for each of `OWN_ROLES`; their names."""
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    with get_application_builder() as builder:
        manager = builder.sm
        manager.sync_roles()
        manager.create_dag_specific_permissions()  # as `airflow sync-perm --include-dags`
        for name, resources in OWN_ROLES.items():
            role = manager.add_role(name)
            for resource, actions in resources.items():
                for action in actions:
                    permission = manager.get_permission(action, resource)
                    assert permission is not None, (action, resource)
                    manager.add_permission_to_role(role, permission)
        names = {**{role: role.capitalize() for role in ROLES}, **{name: name for name in OWN_ROLES}}
        for user, role in names.items():
            assert manager.add_user(user, user, user, f"{user}@example.com", manager.find_role(role), user)
    return list(names)


def ask_everything(client: Any, user: str) -> dict[str, Any]:
    """The pipelines that the page shows to a user, and the status of each thing that they ask for."""
    token = client.post("/auth/token", json={"username": user, "password": user}).json()["access_token"]
    client.headers["Authorization"] = f"Bearer {token}"
    client.cookies.clear()
    pipelines = client.get("/tidegate/api/pipelines").json()["pipelines"]
    rights: dict[str, Any] = {"sees": sorted(row["pipeline"] for row in pipelines)}
    page = client.get("/tidegate/api/pipelines/shop")
    rights["may"] = sorted(action for action, may in page.json()["may"].items() if may) if page.is_success else []
    rights["problem"] = "" if page.is_success or not pipelines else f"{page.status_code}: {page.text[:300]}"
    for kind in KINDS:
        dag = "tidegate_shop" if kind == "flush" else f"tidegate_shop_{kind}"
        rights[kind] = client.post(f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None, "conf": {}}).status_code
    rights["pause"] = client.patch("/api/v2/dags/tidegate_shop", json={"is_paused": True}).status_code
    rights["connections"] = client.get("/api/v2/connections").status_code
    return rights


def main(manager: str, folder: Path) -> None:
    """Print what each user may do."""
    set_up(manager, folder)
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported and makes its tables
    fill_database()
    users = add_fab_users() if manager == FAB else list(ROLES)
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    with TestClient(create_app("core"), follow_redirects=False) as client:
        print(json.dumps({user: ask_everything(client, user) for user in users}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
