"""The whole diagnosis: files first, then every server that the readable ones name, side by side."""

import logging
import time
from dataclasses import dataclass
from pathlib import Path

from tidegate.adapters.server_probe import Patience
from tidegate.connections import Resolve
from tidegate.diagnosis.finding import Finding, SecretMask, Severity
from tidegate.diagnosis.probes import PROBE_SECONDS, run_probes
from tidegate.diagnosis.report import order_findings
from tidegate.wiring.diagnosis.airflow import has_airflow, list_airflow_probes
from tidegate.wiring.diagnosis.files import (
    check_connections,
    check_consumer_groups,
    check_folder,
    read_files,
    scan_for_secrets,
)
from tidegate.wiring.diagnosis.publications import list_publication_probes
from tidegate.wiring.diagnosis.servers import list_server_probes
from tidegate.wiring.diagnosis.spark import check_spark_conf, list_spark_probes
from tidegate.wiring.diagnosis.subjects import Subjects, build_masking_resolve
from tidegate.wiring.diagnosis.tables import list_pipeline_probes

NOISY_LOGGERS = ("pyspark.sql.connect.logging", "pyiceberg.io")  # findings say what they would


@dataclass(frozen=True)
class Diagnosis:
    """The findings in their order. `is_late` where the thread of some probe may still wait for its server."""

    findings: list[Finding]
    seconds: float
    is_late: bool


def diagnose(
    include: Path,
    resolve: Resolve,
    names: tuple[str, ...] = (),
    *,
    is_read_only: bool = False,
    seconds: float = PROBE_SECONDS,
) -> Diagnosis:
    """Check everything that flushes of these pipelines and publications need; of all without names.

    Unless it is read-only, a scratch table, and a file, are made and removed in each namespace that is written.
    ConfigurationError for a name that no file has.
    """
    begin_seconds = time.monotonic()
    mask = SecretMask()
    Patience.seconds = 0.0  # a diagnosis reports at once
    for logger in NOISY_LOGGERS:
        logging.getLogger(logger).disabled = True
    findings = check_folder(include)
    is_late = False
    if all(finding.severity is not Severity.ERROR for finding in findings):
        subjects = Subjects(include, build_masking_resolve(resolve, mask), mask)
        findings += read_files(subjects, names)
        findings += check_consumer_groups(subjects)
        findings += scan_for_secrets(include, findings)
        findings += check_connections(subjects, has_airflow())
        findings += check_spark_conf(subjects)
        probes = [
            *list_server_probes(subjects, is_read_only=is_read_only),
            *list_spark_probes(subjects),
            *list_airflow_probes(subjects),
            *list_pipeline_probes(subjects),
            *list_publication_probes(subjects),
        ]
        probe_findings, is_late = run_probes(probes, seconds)
        findings += probe_findings
    return Diagnosis(order_findings(findings, mask), time.monotonic() - begin_seconds, is_late)
