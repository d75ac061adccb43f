"""The publications' progress: it still fits the table and the topics, as a run finds it."""

from collections.abc import Iterator
from functools import partial

from tidegate.diagnosis.finding import Finding, make_ok, make_warning
from tidegate.diagnosis.probes import Probe
from tidegate.errors import NothingToDo
from tidegate.publications.plan import observe_publication, refuse_lost_progress
from tidegate.wiring.diagnosis.servers import name_catalog_probe, name_kafka_probe
from tidegate.wiring.diagnosis.subjects import Subjects
from tidegate.wiring.no_engine import NoEngine
from tidegate.wiring.publication import assemble_publication


def list_publication_probes(subjects: Subjects) -> list[Probe]:
    """One probe for each publication whose connections are here."""
    return [
        Probe(
            name=f"progress of publication={name}",
            check="pipeline.position",
            run=partial(_check_progress, subjects, name),
            used_by=(name,),
            needs=(name_kafka_probe(publication.kafka), name_catalog_probe(publication.catalog)),
        )
        for name, publication in subjects.publications.items()
        if publication.catalog in subjects.catalogs and subjects.has_connections(name)
    ]


def _check_progress(subjects: Subjects, name: str) -> Iterator[Finding]:
    ports = assemble_publication(subjects.include, name, subjects.resolve, engine=NoEngine())
    try:
        table, topics, progress = observe_publication(ports)
    except NothingToDo as reason:
        advice = "flush the pipeline that makes it, or correct table of the publication; until then nothing is produced"
        yield make_warning("catalog.tables", str(reason), advice)
        return
    refuse_lost_progress(ports, progress, topics, table)
    yield make_ok("pipeline.position", f"publication={name}: its progress fits table and topics")
