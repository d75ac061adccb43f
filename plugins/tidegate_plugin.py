"""What Airflow loads of Tidegate: for now, the pools of the destinations' catalogs."""

from airflow.plugins_manager import AirflowPlugin
from tidegate_airflow import pools


class TidegatePlugin(AirflowPlugin):
    """Makes the pools when Airflow starts."""

    name = "tidegate"
    listeners = [pools]  # noqa: RUF012 (Airflow's own way to declare them)
