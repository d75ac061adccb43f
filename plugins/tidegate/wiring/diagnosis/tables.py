"""The pipelines' tables: schemas and columns fit each other, and positions still fit the topics."""

from collections.abc import Iterator
from functools import partial

from tidegate.adapters.open_clients import OpenClients
from tidegate.diagnosis.finding import Finding, from_error, make_ok, make_warning
from tidegate.diagnosis.probes import Probe
from tidegate.errors import TidegateError
from tidegate.model.offsets import Ranges
from tidegate.ports.context import Ports
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.table.columns import list_destination_columns, resolve_columns
from tidegate.table.compatibility import check_compatible
from tidegate.table.log import read_known_log
from tidegate.table.lookup import describe_table, expand_template
from tidegate.table.progress import attach_log, observe_tables
from tidegate.table.risks import find_lost_rows
from tidegate.wiring.diagnosis.servers import (
    name_catalog_probe,
    name_kafka_probe,
    name_registry_probe,
)
from tidegate.wiring.diagnosis.subjects import DEFAULT_REGISTRY, Subjects, list_parts, needs_registry
from tidegate.wiring.no_engine import NoEngine
from tidegate.wiring.pipeline import assemble_pipeline

BLOCKING_TABLES = ("catalog.tables", "registry.subjects", "registry.schema")
NO_SUBJECT_WORDS = ("register a schema", "subject must be given")


def list_pipeline_probes(subjects: Subjects) -> list[Probe]:
    """Two probes for each pipeline: its tables, and then its positions."""
    probes = list[Probe]()
    opened_ports = _OpenedPorts(subjects)
    for name, pipeline in subjects.pipelines.items():
        servers = _list_servers(pipeline)
        if not _are_catalogs_known(subjects, pipeline):
            continue
        tables = f"tables of pipeline={name}"
        probes.append(
            Probe(
                name=tables,
                check="catalog.tables",
                run=partial(_check_tables, opened_ports, name),
                used_by=(name,),
                needs=servers,
                blocks=BLOCKING_TABLES,
            )
        )
        probes.append(
            Probe(
                name=f"positions of pipeline={name}",
                check="pipeline.position",
                run=partial(_check_position, opened_ports, name),
                used_by=(name,),
                needs=(*servers, name_kafka_probe(pipeline.source.kafka), tables),
            )
        )
    return probes


def _list_servers(pipeline: Pipeline) -> tuple[str, ...]:
    places = {
        str(part.options.get("registry", DEFAULT_REGISTRY)) for part in list_parts(pipeline) if needs_registry(part)
    }
    registries = [name_registry_probe(place) for place in sorted(places)]
    return (*(name_catalog_probe(catalog) for catalog in pipeline.catalogs), *registries)


def _are_catalogs_known(subjects: Subjects, pipeline: Pipeline) -> bool:
    """Whether each catalog is declared, and each connection that the pipeline's ports need is here."""
    return subjects.has_connections(pipeline.name) and all(
        catalog in subjects.catalogs for catalog in pipeline.catalogs
    )


class _OpenedPorts:
    """Each pipeline's ports, put together once for both of its probes; clients of catalogs are shared by all."""

    def __init__(self, subjects: Subjects) -> None:
        self._subjects = subjects
        self._clients = OpenClients()
        self._ports: dict[str, Ports] = {}

    def get(self, name: str) -> Ports:
        """The ports, with the tables that records have named so far."""
        if name not in self._ports:
            subjects = self._subjects
            clients = self._clients
            ports = assemble_pipeline(subjects.include, name, subjects.resolve, engine=NoEngine(), clients=clients)
            self._ports[name] = expand_template(ports)
        return self._ports[name]


def _check_tables(opened_ports: _OpenedPorts, name: str) -> Iterator[Finding]:
    ports = opened_ports.get(name)
    tables = [table for table in ports.pipeline.tables if not table.discovers_names]
    failures = 0
    for table in tables:
        finding = _check_table(ports, table)
        failures += finding is not None
        if finding is not None:
            yield finding
    if tables and not failures:
        yield make_ok("catalog.tables", f"tables={len(tables)} of pipeline={name}: columns and key fit")


def _check_table(ports: Ports, table: Table) -> Finding | None:
    try:
        described_table = describe_table(ports, table)
    except TidegateError as error:
        return from_error(_choose_schema_check(str(error)), error)
    try:
        state = ports.tables.read_state(table.name, ports.pipeline.name)
        if state is None and not table.create.enabled:
            return from_error(
                "catalog.tables",
                f"table={table.name} does not exist, and create.enabled is false; create it, or set "
                "create.enabled: true",
            )
        resolved_table = resolve_columns(described_table, ports.pipeline.source.metadata, state)
        list_destination_columns(resolved_table, ports.pipeline.source.metadata)
        check_compatible(ports.pipeline, resolved_table, state, Ranges({}))
    except TidegateError as error:
        return from_error("catalog.tables", error)
    return None


def _choose_schema_check(text: str) -> str:
    return "registry.subjects" if any(words in text for words in NO_SUBJECT_WORDS) else "registry.schema"


def _check_position(opened_ports: _OpenedPorts, name: str) -> Iterator[Finding]:
    """What `plan` reads first, without the cutting of a batch; and what waits where no flush looks."""
    ports = opened_ports.get(name)
    observed = observe_tables(ports)
    log, missing = read_known_log(ports)
    errors = [
        logged_table.error
        for logged_table in attach_log(ports, observed, log, missing)
        if logged_table.error is not None
    ]
    for error in errors:
        yield from_error("pipeline.position", error)
    if not errors:
        yield make_ok("pipeline.position", f"pipeline={name} tables={len(observed)}: their positions fit the topics")
    for sentence in find_lost_rows(ports):
        cause, _, advice = sentence.partition("; ")
        yield make_warning("pipeline.position", cause, advice)
