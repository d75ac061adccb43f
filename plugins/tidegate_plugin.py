"""What Airflow loads of Tidegate: the operator's page, and the pools of the destinations' catalogs."""

from airflow.plugins_manager import AirflowPlugin
from tidegate_airflow import pools
from tidegate_airflow.web.mount import LazyApplication
from tidegate_airflow.web.urls import PAGE_PATH, build_views


class TidegatePlugin(AirflowPlugin):
    """Makes the pools when Airflow starts, and puts the page into its web server."""

    name = "tidegate"
    listeners = [pools]  # noqa: RUF012 (Airflow's own way to declare them)
    fastapi_apps = [{"app": LazyApplication(), "url_prefix": PAGE_PATH, "name": "tidegate"}]  # noqa: RUF012
    external_views = build_views()
