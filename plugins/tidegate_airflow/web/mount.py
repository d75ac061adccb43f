"""The page's place in Airflow: its addresses, and its application, which is loaded with the first request.

No other process pays for it.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

PAGE_PATH = "/tidegate"
Send = Callable[[Any], Awaitable[None]]


class LazyApplication:
    """An ASGI application that becomes the page at the first request."""

    def __init__(self) -> None:
        self._page: Any = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Send) -> None:
        if self._page is None:
            from tidegate_airflow.web.app import build_application

            self._page = build_application()
        await self._page(scope, receive, send)


def read_root_path() -> str:
    from airflow.configuration import conf

    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/") + "/"


def build_views() -> list[dict[str, Any]]:
    home = read_root_path().rstrip("/") + PAGE_PATH
    icon = f"{home}/static/icon.svg"
    shared = {"icon": icon, "icon_dark_mode": f"{home}/static/icon-dark.svg"}
    return [
        {**shared, "name": "Tidegate", "href": f"{home}/", "destination": "nav", "url_route": "tidegate",
         "nav_top_level": True},
        {**shared, "name": "Tidegate", "href": f"{home}/dags/{{DAG_ID}}", "destination": "dag",
         "url_route": "tidegate-dag"},
    ]  # fmt: skip
