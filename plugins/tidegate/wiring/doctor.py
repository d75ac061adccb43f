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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tidegate.adapters.kafka.probe import ProbedBroker
from tidegate.adapters.open_clients import OpenClients
from tidegate.adapters.server_probe import Patience
from tidegate.adapters.spark.probe import check_connect, check_spark_catalog, check_submit, import_server_facts
from tidegate.adapters.spark.target import describe_spark_place, read_submit_target, resolve_spark_remote
from tidegate.config.catalogs_file import list_catalog_problems, read_catalogs
from tidegate.config.destinations.destination import CatalogProbe
from tidegate.config.destinations.registry import get_destination
from tidegate.config.pipeline_file import list_unread_warnings, load_all_pipelines
from tidegate.config.publication_file import load_publications
from tidegate.connections import Connection, Resolve, name_variable
from tidegate.diagnosis.finding import (
    Finding,
    Probe,
    Severity,
    make_error,
    make_ok,
    make_warning,
    order_findings,
    run_probes,
)
from tidegate.errors import ConfigurationError, NothingToDo, TidegateError
from tidegate.model.offsets import Ranges, format_names, iterate_offsets
from tidegate.ports.publication_session import PublicationSession
from tidegate.ports.session import Session
from tidegate.publications.plan import observe_publication, refuse_lost_progress
from tidegate.redaction import SecretMask, has_secret, redact_in_session
from tidegate.settings import FIRST_COMMAND, PACKAGE, format_path, walk_files
from tidegate.spec.pipeline import Catalog, Pipeline
from tidegate.spec.publication import Publication
from tidegate.spec.runtime import SparkMode, SparkTarget
from tidegate.table.columns import list_destination_columns
from tidegate.table.compatibility import check_compatible
from tidegate.table.log import explain_no_row_topics, read_known_log
from tidegate.table.observed_table import attach_log, observe_tables
from tidegate.table.risks import find_lost_rows
from tidegate.table.session import TableSession, describe_table, expand_template
from tidegate.wiring.pipeline import NoEngine, SharedParts, assemble_loaded_pipeline
from tidegate.wiring.publication import assemble_loaded_publication

MAX_FUTURE_SECONDS = 60.0  # of the newest record
MAX_FILE_BYTES = 1 << 20
COMMENT_PATTERN = re.compile(r"(^|\s)#.*")
# what stands in an example, or where a value is filled in later
PLACEHOLDER_PATTERN = re.compile(
    r"""(?<=[:=])["']?(password|secret|token|<[^>]*>|\*+|\.{3}|…|[$]?\{[^}]*\}|[$]\w+|[$]\([^)]*\))(?=[@\s"'&;,]|$)""",
    re.IGNORECASE,
)
MODULE = "tidegate_airflow.doctor_facts"
AIRFLOW_SECONDS = 60  # it takes seconds to import, on a busy machine ten and more
NOISY_LOGGERS = ("pyspark.sql.connect.logging", "pyiceberg.io")  # findings say what they would
CONNECTION_PATTERN = re.compile(r"connection=(\S+): not found|AIRFLOW_CONN_\w+: cannot be read")
SCRATCH_PREFIX = "tidegate_doctor_"
Findings = Iterable[Finding]


@dataclass
class Files:
    """The chosen files that can be read, and the catalogs that are declared."""

    pipelines: list[Pipeline] = field(default_factory=list)
    publications: list[Publication] = field(default_factory=list)
    catalogs: dict[str, Catalog] = field(default_factory=dict)


def diagnose(
    include: Path,
    resolve: Resolve,
    names: tuple[str, ...] = (),
    *,
    is_read_only: bool = False,
    seconds: float,
) -> list[Finding]:
    """Check everything that flushes of these pipelines and publications need; of all without names.

    Unless it is read-only, a scratch table is made and removed in each namespace that is written. `ConfigurationError`
    for a name that no file has.
    """
    mask = SecretMask()
    Patience.seconds = 0.0  # a diagnosis reports at once
    for logger in NOISY_LOGGERS:
        logging.getLogger(logger).disabled = True
    findings = [check_folder(include)]
    if findings[0].severity is not Severity.ERROR:
        files, file_findings = read_files(include, names)
        findings += [*file_findings, *scan_for_secrets(include, file_findings)]
        probes = _Probes(include, files, resolve, mask, is_read_only=is_read_only).add_all()
        findings += map(_mark_connection, run_probes(probes, seconds))
    return order_findings(findings, mask)


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


# ---- the files


def check_folder(include: Path) -> Finding:
    if include.is_dir():
        return make_ok("files.environment", f"include={include}")
    advice = "set TIDEGATE_INCLUDE to one with catalogs.yaml and pipelines/"
    return make_error("files.environment", f"include={include}: no such folder; {advice}")


def read_files(include: Path, names: tuple[str, ...]) -> tuple[Files, list[Finding]]:
    """Return what can be read, and the findings of the rest. `ConfigurationError` for a name that no file has."""
    files = Files()
    findings = [_make_problem("files.catalogs", problem) for problem in list_catalog_problems(include)]
    with suppress(ConfigurationError):
        files.catalogs = {name: c for name, c in read_catalogs(include).items() if isinstance(c, Catalog)}
    loaded_files: list[tuple[str, str, Pipeline | Publication | ConfigurationError]] = []
    loaded_files += [("files.pipelines", *entry) for entry in load_all_pipelines(include)]
    loaded_files += [("files.publications", *entry) for entry in load_publications(include)]
    known = [name for _, name, _ in loaded_files]
    if unknown := [name for name in names if name not in known]:
        listed = format_names(known) or "none"
        raise ConfigurationError(f"name={unknown[0]}: no such pipeline or publication; there are: {listed}")
    for check, name, file in loaded_files:
        if names and name not in names:
            continue
        if isinstance(file, ConfigurationError):
            findings += [_make_problem(check, problem) for problem in file.problems]
        elif isinstance(file, Pipeline):
            files.pipelines.append(file)
            findings += [make_warning(check, text) for text in file.warnings]
        else:
            files.publications.append(file)
    findings += [make_warning("files.pipelines", text) for text in list_unread_warnings(include) if not names]
    numbers = f"catalogs={len(files.catalogs)} pipelines={len(files.pipelines)} publications={len(files.publications)}"
    if files.pipelines or files.publications:
        findings.append(make_ok("files.pipelines", f"{numbers}: can be used"))
    else:
        text = f"include={include}: no pipeline or publication can be used; propose one with: {FIRST_COMMAND}"
        findings.append(make_warning("files.pipelines", text))
    # each pipeline file repeats, or quotes, what is wrong with the catalogs
    repeats = [n for n, later in enumerate(findings) if any(first.cause in later.cause for first in findings[:n])]
    return files, [finding for n, finding in enumerate(findings) if n not in repeats]


def _make_problem(check: str, problem: str) -> Finding:
    return make_error("files.secrets" if "a secret in a file" in problem else check, problem)


def scan_for_secrets(include: Path, known_findings: list[Finding]) -> Iterator[Finding]:
    """Find lines of files with what looks like a secret, comments left out, without the `known_findings`."""
    known = [finding.cause for finding in known_findings if finding.check == "files.secrets"]
    for path in walk_files(include):
        place = format_path(path)
        try:
            text = path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= MAX_FILE_BYTES else ""
        except OSError as error:
            text = f"{place}: file={path.name} cannot be looked through for secrets: {error.strerror}"
            yield make_warning("files.secrets", f"{text}; give the user the right to read it, or move it elsewhere")
            continue
        for number, line in enumerate(text.splitlines(), 1):
            is_secret = has_secret(PLACEHOLDER_PATTERN.sub("", COMMENT_PATTERN.sub("", line)))
            if is_secret and not any(cause.startswith(f"{place}:{number}:") for cause in known):
                text = f"{place}:{number}: file={path.name} holds what looks like a password or a private key"
                advice = "put it into an Airflow connection, and change it: it may be in the history of the files"
                yield make_error("files.secrets", f"{text}; {advice}")


# ---- the servers that the files name


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
            self._probes["Airflow"] = Probe(
                "Airflow",
                "airflow.environment",
                partial(ask_airflow, triggered),
                least_seconds=AIRFLOW_SECONDS,
                used_by=users,
            )
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
        broker = ProbedBroker.open(pipeline.source.kafka, self._resolve)
        return check(assemble_loaded_pipeline(self._parts, pipeline, broker))

    def _add_publication(self, publication: Publication) -> None:
        def check() -> Findings:
            session = assemble_loaded_publication(self._parts.include, publication, self._resolve, NoEngine())
            return check_publication(session)

        user = publication.name
        needs = (self._add_brokers(publication.kafka, user), self._add_catalog(publication.catalog, user))
        self._add(f"progress of {user}", "pipeline.position", user, check, *needs)
        self._add_spark(publication.spark, user, (publication.catalog,))

    def _add_brokers(self, kafka: str | dict[str, str], user: str) -> str:
        def check() -> Findings:
            return ProbedBroker.open(kafka, self._resolve).check_brokers()

        return self._add(f"Kafka {kafka}", "kafka.reachable", user, check)

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

            def check() -> Findings:
                return check_submit(read_submit_target(target, self._resolve).master)

            self._add(name, "spark.reachable", user, check)
            return
        self._add(name, "spark.reachable", user, partial(self._check_spark, target))
        for catalog in catalogs:
            run = partial(self._check_spark, target, catalog)
            self._add(f"{name} catalog={catalog}", "spark.catalogs", user, run, name, f"catalog={catalog}")

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


# ---- what each pipeline and publication needs


def check_topics(session: Session) -> Iterator[Finding]:
    source = session.pipeline.source
    log, missing = read_known_log(session)
    if reason := explain_no_row_topics(session, log):
        yield make_error("kafka.topics", reason)
    yield from [make_error("kafka.topics", error) for error in missing.values()]
    if missing or not log.end:
        return
    try:
        session.broker.read_committed(source.group, tuple(log.end))
    except TidegateError as error:
        yield make_error("kafka.group", error)
    newest = [(ms / 1000, topic) for topic, _, ms in iterate_offsets(session.broker.read_newest_timestamps(log.end))]
    ahead_seconds, topic = max(newest, default=(0.0, ""))
    ahead_seconds -= time.time()
    if ahead_seconds > MAX_FUTURE_SECONDS:
        text = f"topic={topic}: its newest record lies ahead_seconds={ahead_seconds:.0f} in the future"
        advice = "set the clocks of producers, brokers and this machine by NTP; until then lag is wrong"
        yield make_warning("kafka.clock", f"{text}; {advice}")
    yield make_ok("kafka.topics", f"topics={len(log.end)} of pipeline={session.pipeline.name}: they can be read")


def check_table_columns(session: Session) -> Iterator[Finding]:
    session = expand_template(session)
    tables = session.pipeline.row_tables
    faults = list[Finding]()
    for table in tables:
        check = "registry.schema"
        try:
            described_table = describe_table(session, table)
            check = "catalog.tables"
            table_session = TableSession(session, described_table).refresh()
            if table_session.state is None and not described_table.create.enabled:
                text = f"table={described_table.name} does not exist, and create.enabled is false"
                raise NothingToDo(f"{text}; create it, or set create.enabled: true")
            # refuses columns that no table holds together
            list_destination_columns(table_session.resolved)
            check_compatible(table_session, Ranges({}))
        except TidegateError as error:
            faults.append(make_error(check, error))
    text = f"tables={len(tables)} of pipeline={session.pipeline.name}: columns and key fit"
    yield from faults or [make_ok("catalog.tables", text)]


def check_position(session: Session) -> Iterator[Finding]:
    """Check what `plan` reads first, without cutting a batch; and what waits where no flush looks."""
    session = expand_template(session)
    observed = observe_tables(session)
    log, missing = read_known_log(session)
    errors = [table.error for table in attach_log(observed, log, missing) if table.error is not None]
    text = f"pipeline={session.pipeline.name} tables={len(observed)}: their positions fit the topics"
    yield from [make_error("pipeline.position", error) for error in errors] or [make_ok("pipeline.position", text)]
    for sentence in find_lost_rows(session):
        yield make_warning("pipeline.position", sentence)


def check_publication(session: PublicationSession) -> Iterator[Finding]:
    name = session.publication.name
    try:
        observed = observe_publication(session)
    except NothingToDo as reason:
        advice = "flush the pipeline that makes it, or correct table of the publication; until then nothing is produced"
        yield make_warning("catalog.tables", f"{reason}; {advice}")
        return
    refuse_lost_progress(observed)
    yield make_ok("pipeline.position", f"publication={name}: its progress fits table and topics")


# ---- Airflow, in a process of its own


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
