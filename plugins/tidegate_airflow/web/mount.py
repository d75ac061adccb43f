"""The page's place in Airflow's web server: loaded with the first request, so that no other process pays for it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

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
