"""Airflow's connections as the core knows them."""

from tidegate.connections import Connection


def resolve_connection(conn_id: str) -> Connection | None:
    """The connection of that id wherever Airflow keeps it, None without one."""
    from airflow.exceptions import AirflowNotFoundException
    from airflow.sdk import Connection as AirflowConnection

    try:
        found = AirflowConnection.get(conn_id)
    except AirflowNotFoundException:
        return None
    return Connection(
        id=conn_id,
        conn_type=found.conn_type,
        host=found.host,
        port=found.port,
        login=found.login,
        password=found.password,
        schema=found.schema,
        extra=found.extra_dejson,
    )
