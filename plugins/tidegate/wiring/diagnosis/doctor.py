"""The whole diagnosis: files first, then a probe of each server and of each file, side by side."""

import json
import logging
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tidegate.adapters.kafka.probe import ProbedBroker
from tidegate.adapters.kafka.settings import describe_kafka_place, resolve_kafka_settings
from tidegate.adapters.open_clients import OpenClients
from tidegate.adapters.server_probe import Patience
from tidegate.adapters.spark.probe import check_connect, check_spark_catalog, check_submit, import_server_facts
from tidegate.adapters.spark.remote_address import describe_spark_place, resolve_spark_remote
from tidegate.adapters.spark.submit_target import read_submit_target
from tidegate.config.destinations.destination import CatalogProbe
from tidegate.config.destinations.registry import get_destination
from tidegate.connections import Connection, Resolve, name_variable
from tidegate.diagnosis.finding import Finding, Severity, make_error, order_findings
from tidegate.diagnosis.probes import PROBE_SECONDS, Probe, run_probes
from tidegate.ports.session import Session
from tidegate.redaction import SecretMask, redact_in_session
from tidegate.settings import PACKAGE
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.publication import Publication
from tidegate.spec.runtime import SparkMode, SparkTarget
from tidegate.wiring.diagnosis.files import Files, check_consumer_groups, check_folder, read_files, scan_for_secrets
from tidegate.wiring.diagnosis.pipelines import check_position, check_publication, check_table_columns, check_topics
from tidegate.wiring.pipeline import NoEngine, SharedParts, assemble_loaded_pipeline
from tidegate.wiring.publication import assemble_loaded_publication

MODULE = "tidegate_airflow.doctor_facts"
AIRFLOW_SECONDS = 60  # it takes seconds to import, on a busy machine ten and more


def has_airflow(environ: Mapping[str, str] | None = None) -> bool:
    variables = os.environ if environ is None else environ
    home = variables.get("AIRFLOW_HOME")
    is_configured = any(name.startswith("AIRFLOW__") for name in variables)
    has_file = home is not None and (Path(home).expanduser() / "airflow.cfg").exists()
    return (is_configured or has_file) and find_spec("airflow") is not None


def ask_airflow(triggered: list[str]) -> Iterator[Finding]:
    """Yield what Airflow lacks, or why it does not start. `triggered` are the pipelines that a trigger waits for."""
    paths = [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    completed = subprocess.run(
        [sys.executable, "-m", MODULE, json.dumps(triggered)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=AIRFLOW_SECONDS,
        check=False,
    )
    lines = completed.stdout.strip().splitlines()
    if completed.returncode or not lines:
        reason = (completed.stderr.strip().splitlines() or ["no output"])[-1]
        text = f"Airflow does not start: {reason}; run `airflow info`, and correct airflow.cfg or the environment"
        yield make_error("airflow.environment", text)
        return
    for row in json.loads(lines[-1]):
        yield Finding(**{**row, "severity": Severity(row["severity"]), "used_by": tuple(row["used_by"])})


NOISY_LOGGERS = ("pyspark.sql.connect.logging", "pyiceberg.io")  # findings say what they would
CONNECTION_PATTERN = re.compile(r"connection=(\S+): not found|AIRFLOW_CONN_\w+: cannot be read")
SCRATCH_PREFIX = "tidegate_doctor_"
Findings = Iterable[Finding]
Kafka = str | dict[str, str]


@dataclass(frozen=True)
class Diagnosis:
    """The findings in their order."""

    findings: list[Finding]
    seconds: float


def diagnose(
    include: Path,
    resolve: Resolve,
    names: tuple[str, ...] = (),
    *,
    is_read_only: bool = False,
    seconds: float = PROBE_SECONDS,
) -> Diagnosis:
    """Check everything that flushes of these pipelines and publications need; of all without names.

    Unless it is read-only, a scratch table is made and removed in each namespace that is written. `ConfigurationError`
    for a name that no file has.
    """
    begin_seconds = time.monotonic()
    mask = SecretMask()
    Patience.seconds = 0.0  # a diagnosis reports at once
    for logger in NOISY_LOGGERS:
        logging.getLogger(logger).disabled = True
    findings = [check_folder(include)]
    if findings[0].severity is not Severity.ERROR:
        files, file_findings = read_files(include, names)
        findings += [*file_findings, *check_consumer_groups(files.pipelines), *scan_for_secrets(include, file_findings)]
        probes = _Probes(include, files, resolve, mask, is_read_only=is_read_only).add_all()
        findings += map(_mark_connection, run_probes(probes, seconds))
    return Diagnosis(order_findings(findings, mask), time.monotonic() - begin_seconds)


def _mark_connection(finding: Finding) -> Finding:
    # Airflow may have a connection that this process lacks
    match = CONNECTION_PATTERN.match(finding.cause)
    if match is None:
        return finding
    finding = replace(finding, check="files.connections")
    if match[1] is None or not has_airflow():
        return finding
    advice = f"set {name_variable(match[1])} for the doctor, e.g. from `airflow connections get {match[1]}`"
    return replace(finding, severity=Severity.WARNING, advice=advice)


class _Probes:
    def __init__(self, include: Path, files: Files, resolve: Resolve, mask: SecretMask, *, is_read_only: bool) -> None:
        self._files = files
        self._resolve_unmasked = resolve
        self._mask = mask
        self._is_read_only = is_read_only
        self._probes: dict[str, Probe] = {}
        self._parts = SharedParts(include=include, resolve=self._resolve, engine=NoEngine(), clients=OpenClients())

    def add_all(self) -> dict[str, Probe]:
        for pipeline in self._files.pipelines:
            self._add_pipeline(pipeline)
        for publication in self._files.publications:
            self._add_publication(publication)
        if has_airflow():
            users = [pipeline.name for pipeline in self._files.pipelines]
            users += [publication.name for publication in self._files.publications]
            triggered = [
                pipeline.name
                for pipeline in self._files.pipelines
                if pipeline.merge.records_threshold > 0 and not pipeline.stage.has_clock  # there its staging calls
            ]
            run = partial(ask_airflow, triggered)
            probe = Probe("Airflow", "airflow.environment", run, least_seconds=AIRFLOW_SECONDS, used_by=users)
            self._probes[probe.name] = probe
        return self._probes

    def _add(self, name: str, check: str, user: str, run: Callable[[], Findings], *needs: str) -> str:
        self._probes.setdefault(name, Probe(name, check, run, needs)).used_by.append(user)
        return name

    def _add_pipeline(self, pipeline: Pipeline) -> None:
        user = pipeline.name
        brokers = self._add_brokers(pipeline.source.kafka, user)
        if pipeline.heartbeat.produce and pipeline.heartbeat.kafka is not None:
            self._add_brokers(pipeline.heartbeat.kafka, user)
        catalogs = [self._add_catalog(catalog, user) for catalog in pipeline.catalogs]
        for table in pipeline.entries:
            namespace = table.identifier.rpartition(".")[0]
            for known in table.namespaces if "{" in namespace else (namespace,):  # others are named by records
                run = partial(self._check_namespace, table.catalog, known)
                name = f"namespace={known} of {table.catalog}"
                self._add(name, "catalog.commit", user, run, f"catalog={table.catalog}")
        run = partial(self._check_session, pipeline, check_topics)
        topics = self._add(f"topics of {user}", "kafka.topics", user, run, brokers)
        run = partial(self._check_session, pipeline, check_table_columns)
        tables = self._add(f"tables and schemas of {user}", "catalog.tables", user, run, *catalogs)
        run = partial(self._check_session, pipeline, check_position)
        self._add(f"positions of {user}", "pipeline.position", user, run, topics, tables)
        self._add_spark(pipeline.spark, user, pipeline.catalogs)

    def _check_session(self, pipeline: Pipeline, check: Callable[[Session], Findings]) -> Findings:
        return check(assemble_loaded_pipeline(self._parts, pipeline, self._open_broker(pipeline.source.kafka)))

    def _add_publication(self, publication: Publication) -> None:
        def check() -> Findings:
            session = assemble_loaded_publication(self._parts.include, publication, self._resolve, NoEngine())
            return check_publication(session)

        user = publication.name
        needs = (self._add_brokers(publication.kafka, user), self._add_catalog(publication.catalog, user))
        self._add(f"progress of {user}", "pipeline.position", user, check, *needs)
        self._add_spark(publication.spark, user, (publication.catalog,))

    def _add_brokers(self, kafka: Kafka, user: str) -> str:
        return self._add(f"Kafka {kafka}", "kafka.reachable", user, lambda: self._open_broker(kafka).check_brokers())

    def _open_broker(self, kafka: Kafka) -> ProbedBroker:
        return ProbedBroker(resolve_kafka_settings(kafka, self._resolve), describe_kafka_place(kafka))

    def _add_catalog(self, name: str, user: str) -> str:
        return self._add(f"catalog={name}", "catalog.reachable", user, lambda: self._open_catalog(name).connect())

    def _open_catalog(self, name: str) -> CatalogProbe:
        catalog = self._files.catalogs[name]
        return get_destination(catalog).probe(catalog, self._resolve)

    def _check_namespace(self, catalog: str, namespace: str) -> Findings:
        # a name of its own for each: two catalogs may share a warehouse
        scratch = None if self._is_read_only else SCRATCH_PREFIX + uuid.uuid4().hex[:8]
        return self._open_catalog(catalog).check_namespace(namespace, scratch)

    def _add_spark(self, target: SparkTarget, user: str, catalogs: Iterable[str]) -> None:
        name = f"Spark {target.mode} {target.remote or target.master or target.connection}"
        if target.mode is SparkMode.SUBMIT:
            self._add(name, "spark.reachable", user, partial(self._check_submit, target))
            return
        self._add(name, "spark.reachable", user, partial(self._check_spark, target))
        for catalog in catalogs:
            run = partial(self._check_spark, target, catalog)
            self._add(f"{name} catalog={catalog}", "spark.catalogs", user, run, name, f"catalog={catalog}")

    def _check_submit(self, target: SparkTarget) -> Findings:
        return check_submit(read_submit_target(target, self._resolve).master)

    def _check_spark(self, target: SparkTarget, name: str | None = None) -> Findings:
        import_server_facts()  # which takes its time before that of the server begins
        remote = resolve_spark_remote(target, self._resolve)
        place = describe_spark_place(target, self._resolve)
        if name is None:
            return check_connect(remote, place)
        catalog = self._files.catalogs[name]
        conf = get_destination(catalog).build_spark_conf(catalog, self._resolve)
        self._mask.add_settings(conf)
        # without settings Spark writes files beside it, and does not know it
        return check_spark_catalog(remote, place, redact_in_session(conf), name) if conf else ()

    def _resolve(self, conn_id: str) -> Connection | None:
        connection = self._resolve_unmasked(conn_id)
        if connection is not None:
            self._mask.add_settings({"password": connection.password, **connection.extra})
        return connection
