"""Airflow's connections as the core knows them."""

from tidegate.connections import Connection


def resolve_connection(conn_id: str) -> Connection | None:
    """The connection of that id wherever Airflow keeps it, None without one."""
    from airflow.exceptions import AirflowNotFoundException
    from airflow.sdk import Connection as AirflowConnection

    try:
        connection = AirflowConnection.get(conn_id)
    except AirflowNotFoundException:
        return None
    return Connection(
        id=conn_id,
        conn_type=connection.conn_type,
        host=connection.host,
        port=connection.port,
        login=connection.login,
        password=connection.password,
        schema=connection.schema,
        extra=connection.extra_dejson,
    )
