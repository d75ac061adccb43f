"""Checks the log-in, the datasets and the right to run jobs, by requests and dry runs, which change nothing."""

from collections.abc import Iterator
from contextlib import suppress

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.client.errors import translate_client_errors
from tidegate.adapters.port_errors import format_one_line
from tidegate.diagnosis.destinations import CatalogNeed, NamespaceNeed
from tidegate.diagnosis.finding import Finding, from_error, make_error, make_ok
from tidegate.errors import ConfigurationError, GiveUp, RetryLater, TidegateError

CONTENT = b"tidegate doctor"


def check_warehouse(warehouse: Warehouse, name: str, need: CatalogNeed) -> Iterator[Finding]:
    """Log-in and the right to run jobs; then each dataset, and the staging folder where a scratch name is given."""
    place = f"catalog={name} project={warehouse.project}"
    try:
        warehouse.estimate_read_bytes("SELECT 1")
    except (RetryLater, ConfigurationError) as error:
        yield from_error("catalog.reachable", f"{place}: {error}")
        return
    except GiveUp as error:
        yield _refuse("catalog.login", f"{place}: {error}", "give the identity the role BigQuery Job User")
        return
    except Exception as error:  # the identity of this machine, before a request is sent
        yield make_error("catalog.login", f"{place}: {format_one_line(error)}", "correct the catalog's connection")
        return
    yield make_ok("catalog.login", f"{place}: it runs our jobs")
    for namespace in need.namespaces:
        yield from namespace.name_users(_check_dataset(warehouse, place, name, namespace))
    if need.scratch is not None:
        yield from _check_staging(warehouse, place, need.scratch)


def _refuse(check: str, text: str, advice: str) -> Finding:
    finding = from_error(check, text)
    return finding if finding.advice else make_error(check, finding.cause, advice)


def _check_dataset(warehouse: Warehouse, place: str, catalog: str, namespace: NamespaceNeed) -> Iterator[Finding]:
    from google.api_core.exceptions import NotFound

    dataset_place = f"{place} dataset={namespace.name}"
    reference = f"{warehouse.project}.{namespace.name}"
    try:
        with translate_client_errors(dataset_place):
            location = warehouse.client.get_dataset(reference).location
    except TidegateError as error:
        if not isinstance(error.__cause__, NotFound):
            yield _refuse("catalog.namespace", str(error), "give the identity the role BigQuery Data Editor on it")
        elif namespace.may_create:
            yield make_ok("catalog.namespace", f"{dataset_place} does not exist yet, and will be created")
        else:
            advice = "create it, or set create.enabled: true of its table"
            yield make_error(
                "catalog.namespace", f"{dataset_place} does not exist, and create.enabled is false", advice
            )
        return
    try:
        warehouse.estimate_read_bytes(f"CREATE TABLE `{reference}.tidegate_doctor` (id INT64)")
    except GiveUp as error:
        yield from _explain_refusal(warehouse, dataset_place, location, error)
    else:
        yield make_ok("catalog.namespace", f"{dataset_place} exists")
        yield make_ok("catalog.commit", f"{dataset_place}: a dry run may create a table; nothing was made")


def _explain_refusal(warehouse: Warehouse, place: str, location: str, error: GiveUp) -> Iterator[Finding]:
    """Why no table may be created in an existing dataset: its location, else missing rights."""
    jobs_location = warehouse.client.location
    if jobs_location and jobs_location.casefold() != location.casefold():
        cause = f"{place} lies in location={location}, and the catalog's jobs run in location={jobs_location}"
        advice = f"set location: {location} in catalogs.yaml; datasets of another location need a catalog of their own"
        yield make_error("catalog.namespace", cause, advice)
        return
    yield make_ok("catalog.namespace", f"{place} exists")
    yield _refuse("catalog.commit", f"{place}: {error}", "give the identity the role BigQuery Data Editor on it")


def _check_staging(warehouse: Warehouse, place: str, scratch: str) -> Iterator[Finding]:
    path = f"{scratch}/probe"
    try:
        folder = warehouse.folder
        file_place = f"{place} staging={folder.to_uri(path)}"
        folder.write(path, CONTENT)
        content = folder.read(path)
        folder.delete(scratch)
        content_after_delete = folder.read(path)
    except (TidegateError, OSError) as error:
        with suppress(Exception):
            warehouse.folder.delete(scratch)
        advice = "give the identity read, write, list and delete there, or correct staging"
        yield _refuse("catalog.store", f"{place} staging: {format_one_line(error)}", advice)
        return
    if content != CONTENT or content_after_delete is not None:
        yield make_error(
            "catalog.store", f"{file_place}: a file is not read as written, or not deleted", "see the bucket"
        )
    else:
        yield make_ok("catalog.store", f"{file_place}: a file was written, read and deleted")
