"""What Airflow loads of Tidegate: the operator's page, and the pools of the destinations' catalogs."""

from airflow.plugins_manager import AirflowPlugin
from tidegate_airflow import pools
from tidegate_airflow.web.mount import Door
from tidegate_airflow.web.urls import PREFIX, views


class TidegatePlugin(AirflowPlugin):
    """Makes the pools when Airflow starts, and puts the page into its web server."""

    name = "tidegate"
    listeners = [pools]  # noqa: RUF012 (Airflow's own way to declare them)
    fastapi_apps = [{"app": Door(), "url_prefix": PREFIX, "name": "tidegate"}]  # noqa: RUF012
    external_views = views()
