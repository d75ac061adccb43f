"""Who may see a pipeline and who may act on it: whoever may see, and trigger, its DAG in Airflow."""

import hmac
from collections.abc import Callable
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials
from tidegate.settings import read_metrics_token

from tidegate_airflow.dag_ids import format_flush_dag_id


def filter_visible(user: Any, names: list[str], dag_of: Callable[[str], str] = format_flush_dag_id) -> list[str]:
    """Return those of the pipelines that the user may see, as Airflow's auth manager decides.

    A pipeline's flush DAG decides, or the one that `dag_of` names. A file that is too wrong for a DAG is seen by
    whoever may see import errors.
    """
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import AccessView

    manager = get_auth_manager()
    allowed = manager.get_authorized_dag_ids(user=user, method="GET")
    if manager.is_authorized_view(access_view=AccessView.IMPORT_ERRORS, user=user):
        allowed |= {dag_of(name) for name in names} - _read_known_dag_ids([dag_of(name) for name in names])
    return [name for name in names if dag_of(name) in allowed]


def _read_known_dag_ids(dag_ids: list[str]) -> set[str]:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return set(session.scalars(select(DagModel.dag_id).where(DagModel.dag_id.in_(dag_ids))))


def can_read(user: Any, dag_id: str) -> bool:
    return _is_authorized(user, dag_id, method="GET")


def can_trigger(user: Any, dag_id: str) -> bool:
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

    return _is_authorized(user, dag_id, method="POST", access_entity=DagAccessEntity.RUN)


def can_pause(user: Any, dag_id: str) -> bool:
    return _is_authorized(user, dag_id, method="PUT")


def _is_authorized(user: Any, dag_id: str, **access: Any) -> bool:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
    from airflow.models.dag import DagModel

    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return bool(get_auth_manager().is_authorized_dag(details=details, user=user, **access))


async def _authenticate_scraper(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer_scheme)]
) -> Any:
    token = read_metrics_token()
    if token and credentials and hmac.compare_digest(credentials.credentials.encode(), token.encode()):
        return None
    return await get_user(request, None, credentials)


ScraperDep = Annotated[Any, Depends(_authenticate_scraper)]
