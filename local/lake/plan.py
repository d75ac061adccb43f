"""Plans which of these servers a stack gets, which addresses each server gets, and which variables users get."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from local.lake import postgres, rest, s3
from local.lake.catalog import ADDRESSES, Secrets, build_connection
from local.layout import RunDir
from local.ports import HOST
from local.server import Server

METADATA_DATABASE = "airflow"
OLD_REST_ADDRESS = "REST_URI"  # REST_CATALOG_URI's name before 0.1; goes with 0.2


@dataclass
class LakePlan:
    """Servers, and the variables of their users: addresses, and the connection `lake`.

    `metadata` is the SQLAlchemy URI of a database for Airflow, where PostgreSQL is among the servers.
    """

    servers: list[Server] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    metadata: str | None = None


def plan_lake(run: RunDir, parts: list[str], port_numbers: Mapping[str, int]) -> LakePlan:
    """The servers among `parts` on the ports that were chosen for them."""
    lake_secrets = Secrets(*(secrets.token_urlsafe(15) for _ in range(3)))
    plan = LakePlan(variables=build_connection(parts, lake_secrets))
    if "postgres" in parts:
        plan.variables[ADDRESSES["postgres"]] = f"postgresql://{HOST}:{port_numbers['postgres']}/{postgres.DATABASE}"
        plan.variables |= {"POSTGRES_USER": postgres.USER, "POSTGRES_PASSWORD": lake_secrets.password}
        plan.metadata = postgres.build_uri(port_numbers["postgres"], lake_secrets.password, METADATA_DATABASE)
        plan.servers.append(postgres.build_server(run, port_numbers["postgres"], lake_secrets.password))
    if "s3" in parts:
        plan.variables[ADDRESSES["s3"]] = f"http://{HOST}:{port_numbers['s3']}"
        plan.servers.append(s3.build_server(run, port_numbers["s3"]))
    if "rest" in parts:
        plan.variables[ADDRESSES["rest"]] = plan.variables[OLD_REST_ADDRESS] = f"http://{HOST}:{port_numbers['rest']}"
        plan.servers.append(_plan_rest(run, parts, port_numbers, lake_secrets))
    return plan


def _plan_rest(run: RunDir, parts: list[str], port_numbers: Mapping[str, int], secrets: Secrets) -> Server:
    """The REST catalog over the database and the store that are in the stack too."""
    properties = dict[str, str]()
    if "postgres" in parts:
        properties["uri"] = f"jdbc:postgresql://{HOST}:{port_numbers['postgres']}/{postgres.DATABASE}"
        properties |= {"jdbc.user": postgres.USER, "jdbc.password": secrets.password}
    if "s3" in parts:
        properties |= rest.build_store_properties(
            f"http://{HOST}:{port_numbers['s3']}", secrets.access_key, secrets.secret_key
        )
    database = partial(postgres.is_ready, port_numbers["postgres"]) if "postgres" in parts else None
    return rest.build_server(run, port_numbers["rest"], properties, database)
