"""Addresses of the operator's page inside Airflow."""

from typing import Any

PAGE_PATH = "/tidegate"


def read_root_path() -> str:
    from urllib.parse import urlsplit

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
