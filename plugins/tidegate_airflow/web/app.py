"""The page's endpoints. All of them only read: what changes something goes to Airflow's own API, from the browser."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from tidegate.errors import TidegateError
from tidegate.monitoring.openmetrics import CONTENT_TYPE, openmetrics

from tidegate_airflow.dag_ids import dags_of, pipeline_of, publication_of, publish_dag_of
from tidegate_airflow.web.authorization import ScraperDep, may_trigger, visible
from tidegate_airflow.web.messages import told
from tidegate_airflow.web.pipelines import Desk, now
from tidegate_airflow.web.publications import Publications
from tidegate_airflow.web.urls import PREFIX, root_path

STATIC = Path(__file__).parent / "static"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'self'; base-uri 'self'; form-action 'self'; object-src 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


@cache
def desk() -> Desk:
    """The one desk of this process."""
    from tidegate.settings import include_folder

    from tidegate_airflow.connections import resolve
    from tidegate_airflow.web.overview_cache import Watch
    from tidegate_airflow.web.pipeline_contexts import Sources

    sources = Sources(include_folder(), resolve)
    return Desk(sources, Watch(sources))


@cache
def publications() -> Publications:
    """The publications, for this process."""
    from tidegate.settings import include_folder

    from tidegate_airflow.connections import resolve

    return Publications(include_folder(), resolve)


DeskDep = Annotated[Desk, Depends(desk)]
PublicationsDep = Annotated[Publications, Depends(publications)]
api = APIRouter(prefix="/api")


def application() -> FastAPI:
    """The page, as Airflow mounts it."""
    app = FastAPI(title="Tidegate", docs_url=None, redoc_url=None, openapi_url=None)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.include_router(api)
    app.include_router(pages)
    app.middleware("http")(_with_headers)
    app.exception_handler(TidegateError)(_refused)
    return app


async def _with_headers(request: Request, call_next: Callable[[Request], Any]) -> Response:
    answer: Response = await call_next(request)
    is_static = "/static/" in request.url.path
    headers = {**HEADERS, "Cache-Control": "no-cache"} if is_static else HEADERS
    for name, value in headers.items():
        answer.headers.setdefault(name, value)
    return answer


async def _refused(request: Request, problem: Exception) -> JSONResponse:
    return JSONResponse({"detail": told(problem)}, status_code=503)


def _mine(desk: Desk, user: Any, name: str) -> str:
    """The name of a pipeline that the user may see; what may not be seen does not exist."""
    if name not in desk.sources.names() or name not in visible(user, [name]):
        raise HTTPException(404, f"pipeline={name}: there is none that you may see")
    return name


@api.get("/pipelines")
def overview(desk: DeskDep, out: PublicationsDep, user: GetUserDep) -> dict[str, Any]:
    """Every pipeline and publication that the user may see, the worst first."""
    found = out.overview(visible(user, out.names(), publish_dag_of))
    return {"now": now(), "pipelines": desk.overview(visible(user, desk.sources.names())), "publications": found}


@api.get("/pipelines/{name}")
def pipeline(name: str, desk: DeskDep, user: GetUserDep) -> dict[str, Any]:
    """One pipeline with everything that is known about it, and what the user may trigger."""
    found = desk.pipeline(_mine(desk, user, name))
    dags = found["airflow"].get("dags", {})
    may = {kind: kind in dags and may_trigger(user, dag) for kind, dag in dags_of(name).items()}
    return {"now": now(), **found, "may": may}


@api.get("/publications/{name}")
def publication(name: str, out: PublicationsDep, user: GetUserDep) -> dict[str, Any]:
    """One publication with everything that is known about it, and whether the user may start it."""
    if name not in out.names() or name not in visible(user, [name], publish_dag_of):
        raise HTTPException(404, f"publication={name}: there is none that you may see")
    found = out.publication(name)
    is_there = found["publication"]["dag_id"] is not None
    return {"now": now(), **found, "may": {"publish": is_there and may_trigger(user, publish_dag_of(name))}}


@api.get("/pipelines/{name}/dead-letters")
def dead_letters(name: str, desk: DeskDep, user: GetUserDep, page: int = 1) -> dict[str, Any]:
    """One page of a pipeline's dead letters."""
    mine = _mine(desk, user, name)
    try:
        return {"now": now(), **desk.dead_letters(mine, page)}
    except Exception as problem:  # a catalog that does not answer is told about in words, like everything else
        raise HTTPException(503, told(problem)) from problem


pages = APIRouter()


@pages.get("/metrics")
def metrics(desk: DeskDep, out: PublicationsDep, user: ScraperDep) -> PlainTextResponse:
    """OpenMetrics: for a user what they may see, for the scraper's token everything."""
    names = desk.sources.names()
    rows = desk.overview(names if user is None else visible(user, names))
    published = out.overview(out.names() if user is None else visible(user, out.names(), publish_dag_of))
    return PlainTextResponse(openmetrics(rows, published), media_type=CONTENT_TYPE)


@pages.get("/dags/{dag_id}")
def of_dag(dag_id: str, desk: DeskDep, out: PublicationsDep, user: GetUserDep) -> Response:
    """The tab on a DAG: its pipeline's or publication's page, or one line for DAGs that have none."""
    home = f"{root_path().rstrip('/')}{PREFIX}"
    published = publication_of(dag_id, out.names())
    if published is not None:
        return RedirectResponse(f"{home}/publications/{published}", status_code=303)
    name = pipeline_of(dag_id, desk.sources.names())
    if name is None:
        return _shell()
    return RedirectResponse(f"{home}/pipelines/{name}", status_code=303)


@pages.get("/", include_in_schema=False)
@pages.get("/pipelines/{name}")
@pages.get("/pipelines/{name}/dead-letters")
@pages.get("/publications/{name}")
def shell(name: str = "") -> Response:
    """The page itself: it holds no data, which it asks for with the user's own rights."""
    return _shell()


def _shell() -> HTMLResponse:
    text = (STATIC / "index.html").read_text()
    return HTMLResponse(text.replace("{{root}}", root_path()).replace("{{page}}", root_path().rstrip("/") + PREFIX))
