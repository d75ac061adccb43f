"""What Airflow loads of Tidegate: the operator's page, the pools of catalogs, and what removes leftovers of DAGs."""

from airflow.plugins_manager import AirflowPlugin
from tidegate_airflow import listeners as airflow_listeners
from tidegate_airflow.web.mount import PAGE_PATH, LazyApplication, build_views


class TidegatePlugin(AirflowPlugin):
    """Listens to Airflow's starts and runs, and puts the page into its web server."""

    name = "tidegate"
    listeners = [airflow_listeners]  # noqa: RUF012 (Airflow's own way to declare them)
    fastapi_apps = [{"app": LazyApplication(), "url_prefix": PAGE_PATH, "name": "tidegate"}]  # noqa: RUF012
    external_views = build_views()
