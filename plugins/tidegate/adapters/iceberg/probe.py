"""Whether an Iceberg catalog is there, lets us in, and takes the commits of a merge."""

from collections.abc import Callable, Iterator
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchNamespaceError

from tidegate.adapters.iceberg.scratch_table import ScratchTable
from tidegate.adapters.iceberg.table.catalogs import Catalogs, create_namespace
from tidegate.adapters.iceberg.table.errors import is_access_error
from tidegate.adapters.port_errors import format_one_line
from tidegate.adapters.server_greeting import SILENCE_SECONDS, greet_uri
from tidegate.diagnosis.destinations import CatalogNeed, NamespaceNeed
from tidegate.diagnosis.finding import Finding, from_error, make_error, make_ok, make_warning
from tidegate.errors import ConfigurationError, GiveUp, RetryLater

SCRATCH_PREFIX = "tidegate_doctor_"
SILENCE_ADVICE = "see the catalog's log, and its address"
LOGIN_ADVICE = "correct the login, the password or the rights there"


def check_catalog(catalogs: Catalogs, name: str, need: CatalogNeed) -> Iterator[Finding]:
    """Servers, log-in and namespaces; then, with a scratch name, one table made and removed in each namespace."""
    place = catalogs.describe_login(name)
    try:
        silent = [server for server, uri in catalogs.list_servers(name) if greet_uri(server, uri)]
        if silent:
            cause = f"{silent[0]} took a connection and said nothing for {SILENCE_SECONDS:.0f} s"
            yield make_error("catalog.reachable", cause, SILENCE_ADVICE)
            return
        catalog = catalogs.catalog(name)
        catalog.list_namespaces()
    except (RetryLater, ConfigurationError) as error:
        yield from_error("catalog.reachable", error)
        return
    except Exception as error:
        yield _explain_failure(place, error)
        return
    yield make_ok("catalog.login", f"{place}: it answers, and lets us in")
    for namespace in need.namespaces:
        findings = _check_namespace(catalog, f"{place} namespace={namespace.name}", namespace, need.scratch)
        yield from namespace.name_users(findings)


def _explain_failure(place: str, error: Exception) -> Finding:
    text = format_one_line(error)
    if is_access_error(error):
        return make_error("catalog.login", f"{place}: the log-in was refused: {text}", LOGIN_ADVICE)
    return make_error("catalog.reachable", f"{place} does not answer: {text}", SILENCE_ADVICE)


def _check_namespace(catalog: Catalog, place: str, namespace: NamespaceNeed, scratch: str | None) -> Iterator[Finding]:
    try:
        catalog.load_namespace_properties(namespace.name)
        is_there = True
        leftovers = [
            identifier[-1]
            for identifier in catalog.list_tables(namespace.name)
            if identifier[-1].startswith(SCRATCH_PREFIX)
        ]
    except NoSuchNamespaceError:
        is_there = False
        leftovers = []
    if leftovers:
        cause = f"{place} tables={', '.join(leftovers)} are left of a doctor that was interrupted"
        yield make_warning("catalog.namespace", cause, "drop them, if no other doctor runs now")
    if not is_there and not namespace.may_create:
        advice = "create it, or set create.enabled: true of its table"
        yield make_error("catalog.namespace", f"{place} does not exist, and create.enabled is false", advice)
        return
    if scratch is None:
        state = "exists" if is_there else "does not exist yet, and will be created"
        yield make_ok("catalog.namespace", f"{place} {state}")
        return
    made = [] if is_there else (yield from _create_namespace(catalog, place, namespace.name))
    if made is None:
        return
    try:
        yield from _try_commits(catalog, place, f"{namespace.name}.{scratch}")
    finally:
        for name in reversed(made):
            yield from _drop_namespace(catalog, place, name)


def _create_namespace(catalog: Catalog, place: str, namespace: str) -> "Iterator[Finding] | Any":
    """The namespaces that were made; None where that failed."""
    try:
        return create_namespace(catalog, namespace)
    except Exception as error:
        cause = f"{place} does not exist and cannot be created: {format_one_line(error)}"
        yield make_error("catalog.namespace", cause, "create it, or give the catalog's login the right to")
        return None


def _drop_namespace(catalog: Catalog, place: str, namespace: str) -> Iterator[Finding]:
    try:
        catalog.drop_namespace(namespace)
    except (NamespaceNotEmptyError, NoSuchNamespaceError):  # a flush has made its table there meanwhile
        return
    except Exception as error:
        cause = f"{place} was made for the check and cannot be dropped: {format_one_line(error)}"
        yield make_warning("catalog.namespace", cause, "drop it, or leave it: the first flush makes it anyway")
        return
    yield make_ok("catalog.namespace", f"{place} did not exist: it was made and dropped again")


def _try_commits(catalog: Catalog, place: str, identifier: str) -> Iterator[Finding]:
    """Each step tells what it needs; the first that fails ends the rest, and what was made is removed anyway."""
    table = ScratchTable(catalog, identifier)
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("create a table", table.make),
        ("write two rows", table.write),
        ("commit a branch", table.cut_branch),
        ("have a wrong commit refused", table.require_refusal),
        ("read the rows", table.read),
    )
    failure = None
    for step_name, step in steps:
        try:
            step()
        except Exception as error:
            failure = _explain_step(f"{place} table={identifier}: cannot {step_name}", error)
            break
    yield from [failure] if failure else []
    undeleted = yield from _remove(table, f"{place} table={identifier}")
    if failure is None:
        yield make_ok("catalog.commit", f"{place}: made table={identifier} with a branch, and removed it")
        if not undeleted:
            yield make_ok("catalog.store", f"{place}: its files were written, read and deleted")


def _remove(table: ScratchTable, place: str) -> "Iterator[Finding] | Any":
    try:
        undeleted = list(table.remove())
    except Exception as error:
        cause = f"{place} was made for the check and cannot be dropped: {format_one_line(error)}"
        yield make_error("catalog.commit", cause, "drop it, and give the catalog's login the right to")
        return True
    if undeleted:
        cause = f"{place}: files={len(undeleted)} cannot be deleted: {undeleted[0]}"
        yield make_error("catalog.store", cause, "give the login the right to delete below the warehouse")
    return bool(undeleted)


def _explain_step(problem: str, error: Exception) -> Finding:
    if isinstance(error, GiveUp):
        return from_error("catalog.commit", f"{problem}: {error}")
    text = format_one_line(error)
    if isinstance(error, OSError) and not type(error).__module__.startswith("requests"):
        advice = "give the login read, write, list and delete below the warehouse, or correct warehouse"
        return make_error("catalog.store", f"{problem}: {text}", advice)
    return make_error("catalog.commit", f"{problem}: {text}", "give the catalog's login the rights of a writer")
