"""The page's place in Airflow's web server: loaded with the first request, so that no other process pays for it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

PREFIX = "/tidegate"
Send = Callable[[Any], Awaitable[None]]


class Door:
    """An ASGI application that becomes the page when somebody knocks."""

    def __init__(self) -> None:
        self._page: Any = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Send) -> None:
        """Every request goes to the page."""
        if self._page is None:
            from tidegate_airflow.web.app import application

            self._page = application()
        await self._page(scope, receive, send)


def root_path() -> str:
    """The path that Airflow is reached under, with a slash at its end."""
    from urllib.parse import urlsplit

    from airflow.configuration import conf

    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/") + "/"


def views() -> list[dict[str, Any]]:
    """The entry in the navigation, and a tab on every DAG."""
    home = root_path().rstrip("/") + PREFIX
    icon = f"{home}/static/icon.svg"
    shared = {"icon": icon, "icon_dark_mode": f"{home}/static/icon-dark.svg"}
    return [
        {**shared, "name": "Tidegate", "href": f"{home}/", "destination": "nav", "url_route": "tidegate",
         "nav_top_level": True},
        {**shared, "name": "Tidegate", "href": f"{home}/dags/{{DAG_ID}}", "destination": "dag",
         "url_route": "tidegate-dag"},
    ]  # fmt: skip
