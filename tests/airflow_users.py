"""Airflow's database and auth manager without its services: DAGs that exist, and users with a role each."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def run_auth_manager(home: Path, *dag_ids: str) -> Iterator[Any]:
    """The auth manager over a database with these DAGs; its users are admin and viewer."""
    (home / "passwords.json").write_text(json.dumps({"admin": "a", "viewer": "v"}))
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__API_AUTH__JWT_SECRET": "s" * 64,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    }
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Airflow's own, while it is imported and makes its tables
        for name, value in settings.items():
            patch.setenv(name, value)
        from airflow.api_fastapi.app import create_auth_manager
        from airflow.utils.db import initdb

        initdb()
        _add_dags(dag_ids)
        manager = create_auth_manager()
        manager.init()
        yield manager


def _add_dags(dag_ids: tuple[str, ...]) -> None:
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        for name in dag_ids:
            dag_fields = {"bundle_name": "dags-folder", "is_paused": False, "is_stale": False, "fileloc": name}
            session.merge(DagModel(dag_id=name, **dag_fields))


def make_token(manager: Any, role: str) -> str:
    """What a browser of a user with this role holds."""
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    return str(manager.generate_jwt(SimpleAuthManagerUser(username=role, role=role)))
