"""The page's endpoints. All of them only read: what changes something goes to Airflow's own API, from the browser.

Who may see a pipeline, and act on it: whoever may see, and trigger, its DAG in Airflow.
"""

import hmac
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, bearer_scheme, get_user
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.security import HTTPAuthorizationCredentials
from fastapi.staticfiles import StaticFiles
from sqlalchemy import select
from tidegate.errors import TidegateError
from tidegate.monitoring.runbook import read_page
from tidegate.settings import find_include_folder, is_checkout, read_metrics_token

from tidegate_airflow.connections import resolve_connection
from tidegate_airflow.dag_ids import find_fleet_of_dag, find_pipeline, find_publication, format_publish_dag_id
from tidegate_airflow.web.messages import describe_problem
from tidegate_airflow.web.mount import PAGE_PATH, read_root_path
from tidegate_airflow.web.openmetrics import CONTENT_TYPE, render_openmetrics
from tidegate_airflow.web.overview_cache import OverviewCache
from tidegate_airflow.web.pipeline_contexts import PipelineContexts
from tidegate_airflow.web.pipelines import PipelinesView, format_now, list_worst_parts
from tidegate_airflow.web.publications import PublicationsView

STATIC_FOLDER = Path(__file__).parent / "static"
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'self'; base-uri 'self'; form-action 'self'; object-src 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


@cache
def get_pipelines_view() -> PipelinesView:
    sources = PipelineContexts(find_include_folder(), resolve_connection)
    return PipelinesView(sources, OverviewCache(sources))


@cache
def get_publications_view() -> PublicationsView:
    return PublicationsView(find_include_folder(), resolve_connection)


async def _authenticate_scraper(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer_scheme)]
) -> Any:
    token = read_metrics_token()
    if token and credentials and hmac.compare_digest(credentials.credentials.encode(), token.encode()):
        return None
    return await get_user(request, None, credentials)


PipelinesDep = Annotated[PipelinesView, Depends(get_pipelines_view)]
PublicationsDep = Annotated[PublicationsView, Depends(get_publications_view)]
ScraperDep = Annotated[Any, Depends(_authenticate_scraper)]
api = APIRouter(prefix="/api")
pages = APIRouter()


def build_application() -> FastAPI:
    app = FastAPI(title="Tidegate", docs_url=None, redoc_url=None, openapi_url=None)
    app.mount("/static", StaticFiles(directory=STATIC_FOLDER), name="static")
    app.include_router(api)
    app.include_router(pages)
    app.middleware("http")(_add_headers)
    app.exception_handler(TidegateError)(_answer_problem)
    return app


async def _add_headers(request: Request, call_next: Callable[[Request], Any]) -> Response:
    answer: Response = await call_next(request)
    is_static = "/static/" in request.url.path
    headers = {**SECURITY_HEADERS, "Cache-Control": "no-cache"} if is_static else SECURITY_HEADERS
    for name, value in headers.items():
        answer.headers.setdefault(name, value)
    return answer


async def _answer_problem(request: Request, problem: Exception) -> JSONResponse:
    return JSONResponse({"detail": describe_problem(problem)}, status_code=503)


def filter_visible(user: Any, names: list[str], dag_of: Callable[[str], str]) -> list[str]:
    """Return those of the pipelines that the user may see, as Airflow's auth manager decides.

    The DAG decides that `dag_of` names. A file that is too wrong for a DAG is seen by whoever may see import errors.
    """
    manager = get_auth_manager()
    allowed = manager.get_authorized_dag_ids(user=user, method="GET")
    if manager.is_authorized_view(access_view=AccessView.IMPORT_ERRORS, user=user):
        dag_ids = {dag_of(name) for name in names}
        with create_session() as session:
            allowed |= dag_ids - set(session.scalars(select(DagModel.dag_id).where(DagModel.dag_id.in_(dag_ids))))
    return [name for name in names if dag_of(name) in allowed]


def can_read(user: Any, dag_id: str) -> bool:
    return _is_authorized(user, dag_id, method="GET")


def can_trigger(user: Any, dag_id: str) -> bool:
    return _is_authorized(user, dag_id, method="POST", access_entity=DagAccessEntity.RUN)


def can_pause(user: Any, dag_id: str) -> bool:
    return _is_authorized(user, dag_id, method="PUT")


def _is_authorized(user: Any, dag_id: str, **access: Any) -> bool:
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return bool(get_auth_manager().is_authorized_dag(details=details, user=user, **access))


def _list_pipelines(pipelines: PipelinesView, user: Any | None) -> list[str]:
    # the scraper, which is no user, sees all
    names = pipelines.sources.list_names()
    return names if user is None else filter_visible(user, names, pipelines.find_flush_dag_id)


def _list_publications(publications: PublicationsView, user: Any | None) -> list[str]:
    names = publications.list_names()
    return names if user is None else filter_visible(user, names, format_publish_dag_id)


def _check_visible(pipelines: PipelinesView, user: Any, name: str) -> str:
    # what may not be seen does not exist
    is_there = name in pipelines.sources.list_names()
    if not is_there or name not in filter_visible(user, [name], pipelines.find_flush_dag_id):
        raise _build_not_there(name)
    return name


def _build_not_there(name: str) -> HTTPException:
    return HTTPException(404, f"pipeline={name}: there is none that you may see")


@api.get("/pipelines")
def get_overview(pipelines: PipelinesDep, publications: PublicationsDep, user: GetUserDep) -> dict[str, Any]:
    published = publications.get_overview(_list_publications(publications, user))
    rows = pipelines.get_overview(_list_pipelines(pipelines, user))
    return {
        "now": format_now(),
        "pipelines": [list_worst_parts(row) for row in rows],
        "publications": published,
    }


@api.get("/pipelines/{name}")
def get_pipeline(name: str, pipelines: PipelinesDep, user: GetUserDep) -> dict[str, Any]:
    all_dags = pipelines.list_dag_ids(_check_visible(pipelines, user, name))
    details = pipelines.get_pipeline(name, {kind: dag for kind, dag in all_dags.items() if can_read(user, dag)})
    if details is None:
        raise _build_not_there(name)
    dags = details["airflow"].get("dags", {})
    may = {kind: kind in dags and can_trigger(user, dag) for kind, dag in all_dags.items()}
    for right, kind in (("pause", "flush"), ("pause_stage", "stage")):
        may[right] = kind in dags and can_pause(user, all_dags[kind])
    return {"now": format_now(), **details, "may": may}


@api.get("/publications/{name}")
def get_publication(name: str, publications: PublicationsDep, user: GetUserDep) -> dict[str, Any]:
    if name not in publications.list_names() or name not in filter_visible(user, [name], format_publish_dag_id):
        raise HTTPException(404, f"publication={name}: there is none that you may see")
    details = publications.get_publication(name)
    is_there = details["publication"]["dag_id"] is not None
    return {
        "now": format_now(),
        **details,
        "may": {"publish": is_there and can_trigger(user, format_publish_dag_id(name))},
    }


@api.get("/pipelines/{name}/dead-letters")
def get_dead_letters(name: str, pipelines: PipelinesDep, user: GetUserDep, page: int = 1) -> dict[str, Any]:
    return _answer_part(pipelines.get_dead_letters(_check_visible(pipelines, user, name), page))


@api.get("/pipelines/{name}/records")
def get_records(name: str, around: str, pipelines: PipelinesDep, user: GetUserDep) -> dict[str, Any]:
    """Return records of the log, for those who may start the pipeline's actions."""
    _check_visible(pipelines, user, name)
    if not can_trigger(user, pipelines.list_dag_ids(name)["actions"]):
        raise HTTPException(403, f"pipeline={name}: your role may not see records; it needs the right to start actions")
    return _answer_part(pipelines.get_records(name, around))


def _answer_part(part: dict[str, Any]) -> dict[str, Any]:
    for word, status in (("refused", 400), ("error", 503)):
        if word in part:
            raise HTTPException(status, part[word])
    return {"now": format_now(), **part}


@api.get("/runbook/{page}")
def get_runbook_page(page: str, user: GetUserDep) -> dict[str, str]:
    text = read_page(page)
    if text is None:
        raise HTTPException(404, f"page={page}: the runbook has none of that name")
    return {"now": format_now(), "page": page, "text": text}


@pages.get("/metrics")
def get_metrics(pipelines: PipelinesDep, publications: PublicationsDep, user: ScraperDep) -> PlainTextResponse:
    """Return OpenMetrics: for a user what they may see, for the scraper's token everything."""
    rows = pipelines.get_overview(_list_pipelines(pipelines, user))
    published = publications.get_overview(_list_publications(publications, user))
    return PlainTextResponse(render_openmetrics(rows, published), media_type=CONTENT_TYPE)


@pages.get("/dags/{dag_id}")
def redirect_from_dag(
    dag_id: str, pipelines: PipelinesDep, publications: PublicationsDep, user: GetUserDep
) -> Response:
    """Redirect the tab on a DAG to its pipeline, publication or fleet; one line for other DAGs."""
    home = f"{read_root_path().rstrip('/')}{PAGE_PATH}"
    published = find_publication(dag_id, publications.list_names())
    if published is not None:
        return RedirectResponse(f"{home}/publications/{published}", status_code=303)
    names = pipelines.sources.list_names()
    fleet = find_fleet_of_dag(dag_id, names)
    if fleet is not None:
        return RedirectResponse(f"{home}/?{urlencode({'q': fleet})}", status_code=303)
    name = find_pipeline(dag_id, names)
    if name is None:
        return _render_page()
    return RedirectResponse(f"{home}/pipelines/{name}", status_code=303)


@pages.get("/", include_in_schema=False)
@pages.get("/pipelines/{name}")
@pages.get("/pipelines/{name}/dead-letters")
@pages.get("/publications/{name}")
@pages.get("/runbook/{name}")
def get_page(name: str = "") -> Response:
    """Return the page itself: it holds no data, which it asks for with the user's own rights."""
    return _render_page()


def _render_page() -> HTMLResponse:
    text = (STATIC_FOLDER / "index.html").read_text(encoding="utf-8")
    root = read_root_path()
    command = "bin/tidegate" if is_checkout() else "tidegate"
    return HTMLResponse(
        text.replace("{{root}}", root).replace("{{page}}", root.rstrip("/") + PAGE_PATH).replace("{{command}}", command)
    )
